package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
)

// nodeAttrs reads the attributes of a node; count is how many there are.
func (d *decoder) nodeAttrs(g *graph.Graph, n *graph.Node, r reader, count int) error {
	const ahead = 64 // most attributes that space is allocated for before they are seen
	n.Attrs = make([]graph.Attr, 0, min(count, ahead))
	names := attrNames{}
	return r.each(func(f *field) error {
		if f.num != nodeAttribute {
			return nil
		}
		sub, err := f.sub("NodeProto.attribute")
		if err != nil {
			return err
		}
		a, err := d.attr(g, sub)
		if err == nil && names.taken(n, a.Name) {
			err = fmt.Errorf("it appears twice")
		}
		if err != nil {
			return fmt.Errorf("attribute %d %q: %w", len(n.Attrs), a.Name, err)
		}
		n.Attrs = append(n.Attrs, a)
		return nil
	})
}

// attrNames finds attributes that a node has twice without a quadratic search.
type attrNames struct{ set map[string]bool }

func (s *attrNames) taken(n *graph.Node, name string) bool {
	const few = 16
	if len(n.Attrs) < few {
		return n.Attr(name) != nil
	}
	if s.set == nil {
		s.set = make(map[string]bool, 2*few)
		for i := range n.Attrs {
			s.set[n.Attrs[i].Name] = true
		}
	}
	if s.set[name] {
		return true
	}
	s.set[name] = true
	return false
}

// attrHead is an attribute without its value.
type attrHead struct {
	kind    int64
	present [24]bool // by field number
}

// attr reads an AttributeProto; a graph in it lies within g.
func (d *decoder) attr(g *graph.Graph, r reader) (graph.Attr, error) {
	a := graph.Attr{Wire: r.rest}
	h, err := d.attrHead(&a, r)
	if err != nil {
		return a, err
	}
	if a.Name == "" {
		return a, at(r.pos, "the attribute has no name")
	}
	if a.Ref != "" {
		return a, nil
	}
	kind, err := h.valueKind()
	if err != nil {
		return a, err
	}
	a.Value, err = d.attrValue(g, r, kind)
	return a, err
}

func (d *decoder) attrHead(a *graph.Attr, r reader) (h attrHead, err error) {
	var unused []byte // presence survives in Wire
	var f field
	for {
		more, err := r.next(&f)
		if !more || err != nil {
			return h, err
		}
		switch f.num {
		case attrName:
			err = d.label(&f, "AttributeProto.name", &a.Name, &unused)
		case attrDoc:
			err = text(&f, "AttributeProto.doc_string", &a.Doc, &unused)
		case attrRef:
			err = d.label(&f, "AttributeProto.ref_attr_name", &a.Ref, &unused)
		case attrKind:
			h.kind, err = f.varint("AttributeProto.type")
		default:
			if int(f.num) < len(h.present) {
				h.present[f.num] = true
			}
		}
		if err != nil {
			return h, err
		}
	}
}

// valueKind returns the attribute's type. Where it is not stated, the only value
// field that is present tells it.
func (h *attrHead) valueKind() (int64, error) {
	if h.kind < 0 || int(h.kind) >= len(attrKinds) {
		return 0, fmt.Errorf("type %d is unknown, wanted 1 to %d", h.kind, len(attrKinds)-1)
	}
	found := int64(0)
	for k := int64(1); k < int64(len(attrKinds)); k++ {
		switch {
		case !h.present[attrKinds[k].field]:
			continue
		case k == h.kind:
			return h.kind, nil
		case found != 0 && h.kind == 0:
			return 0, fmt.Errorf("it has no type, and values of type %s and %s",
				attrKinds[found].name, attrKinds[k].name)
		}
		found = k
	}
	switch {
	case h.kind == 0 && found == 0:
		return 0, fmt.Errorf("it has neither a type nor a value")
	case h.kind == 0:
		return found, nil
	case found != 0:
		return 0, fmt.Errorf("its type is %s, but its value is one of type %s",
			attrKinds[h.kind].name, attrKinds[found].name)
	}
	return h.kind, nil // the value that its absence means: 0, "" or an empty list
}

// attrValue reads the value field of an attribute of the given type.
func (d *decoder) attrValue(g *graph.Graph, r reader, kind int64) (any, error) {
	num := attrKinds[kind].field
	switch num {
	case attrFloat:
		return scalar(r, num, func(f *field) (float32, error) {
			return math.Float32frombits(uint32(f.num64)), f.want(protowire.Fixed32Type, "AttributeProto.f")
		})
	case attrInt:
		return scalar(r, num, func(f *field) (int64, error) { return f.varint("AttributeProto.i") })
	case attrString:
		return scalar(r, num, func(f *field) (string, error) { return f.string("AttributeProto.s") })
	case attrFloats:
		return attrFloatList(r)
	case attrInts:
		var list []int64
		err := r.eachOf(num, func(f *field) (err error) {
			list, err = varints(list, f, "AttributeProto.ints")
			return err
		})
		return list, err
	case attrStrings:
		return many(r, num, func(f *field) (string, error) { return f.string("AttributeProto.strings") })
	case attrTensor:
		return one(r, num, d.tensor)
	case attrTensors:
		return many(r, num, message1(d.tensor))
	case attrSparseTensor:
		return one(r, num, d.sparse)
	case attrSparseTensors:
		return many(r, num, message1(d.sparse))
	case attrGraph:
		return one(r, num, func(r reader) (*graph.Graph, error) { return d.graph(r, g) })
	case attrGraphs:
		return many(r, num, message1(func(r reader) (*graph.Graph, error) { return d.graph(r, g) }))
	case attrType:
		return one(r, num, func(r reader) (graph.Type, error) { return d.typ(r, 0) })
	case attrTypes:
		return many(r, num, message1(func(r reader) (graph.Type, error) { return d.typ(r, 0) }))
	}
	return nil, fmt.Errorf("type %d is unknown", kind)
}

func attrFloatList(r reader) (any, error) {
	var raw []byte
	err := r.eachOf(attrFloats, func(f *field) (err error) {
		raw, err = fixed(raw, f, 4, "AttributeProto.floats")
		return err
	})
	list := make([]float32, len(raw)/4)
	for i := range list {
		v, _ := protowire.ConsumeFixed32(raw[4*i:])
		list[i] = math.Float32frombits(v)
	}
	return list, err
}

// eachOf calls do for every occurrence of one field.
func (r reader) eachOf(num protowire.Number, do func(*field) error) error {
	return r.each(func(f *field) error {
		if f.num != num {
			return nil
		}
		return do(f)
	})
}

// scalar reads a field whose last occurrence counts.
func scalar[T any](r reader, num protowire.Number, read func(*field) (T, error)) (any, error) {
	var v T
	err := r.eachOf(num, func(f *field) (err error) {
		v, err = read(f)
		return err
	})
	return v, err
}

// one reads a message field whose occurrences all count as one message.
func one[T any](r reader, num protowire.Number, read func(reader) (T, error)) (any, error) {
	var m merged
	if err := r.eachOf(num, func(f *field) error { return m.add(f, "the attribute's value") }); err != nil {
		return nil, err
	}
	return read(m.reader)
}

// many reads a repeated field.
func many[T any](r reader, num protowire.Number, read func(*field) (T, error)) (any, error) {
	var list []T
	err := r.eachOf(num, func(f *field) error {
		v, err := read(f)
		if err != nil {
			return fmt.Errorf("element %d: %w", len(list), err)
		}
		list = append(list, v)
		return nil
	})
	return list, err
}

// message1 reads one element of a repeated message field.
func message1[T any](read func(reader) (T, error)) func(*field) (T, error) {
	return func(f *field) (T, error) {
		r, err := f.sub("the attribute's value")
		if err != nil {
			var none T
			return none, err
		}
		return read(r)
	}
}
