package onnx

import (
	"bytes"
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// unknownDim is the number that some exporters write for an unknown dim.
const unknownDim = -1

// decl reads a ValueInfoProto of one of the graph's lists.
func (d *decoder) decl(g *graph.Graph, f *field, list string, index int) (graph.Decl, error) {
	decl := graph.Decl{Value: graph.NoValue, Wire: f.body}
	r, err := f.sub(list)
	if err != nil {
		return decl, err
	}
	var typ merged
	var unused []byte // presence survives in Wire
	err = r.each(func(f *field) error {
		switch f.num {
		case infoName:
			name, err := f.bytes("ValueInfoProto.name")
			decl.Value = value(g, name)
			return err
		case infoType:
			return typ.add(f, "ValueInfoProto.type")
		case infoDoc:
			return text(f, "ValueInfoProto.doc_string", &decl.Doc, &unused)
		}
		return nil
	})
	if err == nil && decl.Value == graph.NoValue {
		err = at(r.pos, "it has no name")
	}
	if err == nil {
		decl.Type, err = d.typ(typ.reader, 0)
	}
	if err != nil {
		return decl, fmt.Errorf("graph %q: %s %d %q: %w", g.Name, list, index, g.ValueName(decl.Value), err)
	}
	return decl, nil
}

// typ reads a TypeProto. The last of its alternatives in the file counts.
func (d *decoder) typ(r reader, depth int) (graph.Type, error) {
	var t graph.Type
	if depth > MaxDepth {
		return t, &depthError{at(r.pos, "types are nested more than %d deep", MaxDepth)}
	}
	var body merged
	err := r.each(func(f *field) error {
		form := formOf(f)
		if form == graph.FormUnknown {
			return nil // a denotation, or a form of the future
		}
		if form != t.Form {
			t.Form, body = form, merged{}
		}
		return body.add(f, "the type")
	})
	if err != nil {
		return t, err
	}
	return t, d.typeBody(&t, body.reader, depth)
}

func formOf(f *field) graph.Form {
	switch f.num {
	case typeTensor:
		return graph.FormTensor
	case typeSparse:
		return graph.FormSparse
	case typeSequence:
		return graph.FormSequence
	case typeOptional:
		return graph.FormOptional
	case typeMap:
		return graph.FormMap
	case typeOpaque:
		return graph.FormOpaque
	}
	return graph.FormUnknown
}

func (d *decoder) typeBody(t *graph.Type, r reader, depth int) error {
	switch t.Form {
	case graph.FormTensor, graph.FormSparse:
		return d.tensorType(t, r)
	case graph.FormSequence, graph.FormOptional:
		return d.elemType(t, r, depth)
	case graph.FormMap:
		return d.mapType(t, r, depth)
	case graph.FormOpaque:
		return opaqueType(t, r)
	}
	return nil
}

func (d *decoder) tensorType(t *graph.Type, r reader) error {
	var shape merged
	err := r.each(func(f *field) error {
		switch f.num {
		case tensorTypeElem:
			return dtype(f, "TypeProto.Tensor.elem_type", &t.DType)
		case tensorTypeShape:
			return shape.add(f, "TypeProto.Tensor.shape")
		}
		return nil
	})
	if err != nil || !shape.seen {
		return err
	}
	t.Shape.Ranked = true
	return shape.eachOf(shapeDim, func(f *field) error {
		sub, err := f.sub("TensorShapeProto.dim")
		if err != nil {
			return err
		}
		dim, err := d.dim(sub)
		if err != nil {
			return fmt.Errorf("dim %d: %w", len(t.Shape.Dims), err)
		}
		t.Shape.Dims = append(t.Shape.Dims, dim)
		return nil
	})
}

func dtype(f *field, what string, dst *graph.DType) error {
	v, err := f.varint(what)
	*dst = graph.DType(v)
	return err
}

// dim reads a TensorShapeProto.Dimension: a number, a symbol or an empty field, and the last one if
// the file has several.
func (d *decoder) dim(r reader) (symbolic.Expr, error) {
	dim := symbolic.Unknown()
	var f field
	for {
		more, err := r.next(&f)
		if !more || err != nil {
			return dim, err
		}
		switch f.num {
		case dimValue:
			v, err := f.varint("Dimension.dim_value")
			if err != nil {
				return dim, err
			}
			if v < unknownDim {
				return dim, at(f.pos, "dim_value is %d, wanted 0 or more (or -1 for an unknown dim)", v)
			}
			dim = symbolic.Const(v)
			if v == unknownDim {
				dim = symbolic.Unknown()
			}
		case dimParam:
			name, err := f.bytes("Dimension.dim_param")
			if err != nil {
				return dim, err
			}
			dim = d.symbol(bytes.TrimSpace(name))
		}
	}
}

// symbol returns the expression of a dim_param; a blank one is no name.
func (d *decoder) symbol(name []byte) symbolic.Expr {
	if e, ok := d.symbols[string(name)]; ok {
		return e
	}
	s := string(name)
	e := parseDim(s)
	d.symbols[s] = e
	return e
}

func (d *decoder) elemType(t *graph.Type, r reader, depth int) error {
	var elem merged
	err := r.eachOf(elemTypeElem, func(f *field) error { return elem.add(f, "TypeProto.elem_type") })
	if err != nil || !elem.seen {
		return err
	}
	return d.inner(t, elem.reader, depth)
}

func (d *decoder) inner(t *graph.Type, r reader, depth int) error {
	elem, err := d.typ(r, depth+1)
	t.Elem = &elem
	return err
}

func (d *decoder) mapType(t *graph.Type, r reader, depth int) error {
	var elem merged
	err := r.each(func(f *field) error {
		switch f.num {
		case mapTypeKey:
			return dtype(f, "TypeProto.Map.key_type", &t.DType)
		case mapTypeValue:
			return elem.add(f, "TypeProto.Map.value_type")
		}
		return nil
	})
	if err != nil || !elem.seen {
		return err
	}
	return d.inner(t, elem.reader, depth)
}

// opaqueType reads the name of an opaque type, "domain/name" where it has a domain.
func opaqueType(t *graph.Type, r reader) error {
	var domain string
	err := r.each(func(f *field) (err error) {
		switch f.num {
		case opaqueDomain:
			domain, err = f.string("TypeProto.Opaque.domain")
		case opaqueName:
			t.Name, err = f.string("TypeProto.Opaque.name")
		}
		return err
	})
	if domain != "" {
		t.Name = domain + "/" + t.Name
	}
	return err
}
