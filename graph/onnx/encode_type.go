package onnx

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
	"memopt/symbolic"
)

// typeFields has the alternative of TypeProto for every form.
var typeFields = map[graph.Form]protowire.Number{
	graph.FormTensor:   typeTensor,
	graph.FormSparse:   typeSparse,
	graph.FormSequence: typeSequence,
	graph.FormOptional: typeOptional,
	graph.FormMap:      typeMap,
	graph.FormOpaque:   typeOpaque,
}

// typ writes a TypeProto's contents.
func (e *encoder) typ(t graph.Type) {
	num, ok := typeFields[t.Form]
	if !ok {
		return
	}
	at := e.begin(num)
	switch t.Form {
	case graph.FormTensor, graph.FormSparse:
		e.optNumber(tensorTypeElem, int64(t.DType))
		e.shape(t.Shape)
	case graph.FormSequence, graph.FormOptional:
		e.elem(elemTypeElem, t.Elem)
	case graph.FormMap:
		e.optNumber(mapTypeKey, int64(t.DType))
		e.elem(mapTypeValue, t.Elem)
	case graph.FormOpaque:
		name := t.Name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			e.text(opaqueDomain, name[:i])
			name = name[i+1:]
		}
		e.text(opaqueName, name)
	}
	e.end(at)
}

func (e *encoder) elem(num protowire.Number, t *graph.Type) {
	if t == nil {
		return
	}
	at := e.begin(num)
	e.typ(*t)
	e.end(at)
}

func (e *encoder) shape(s graph.Shape) {
	if !s.Ranked {
		return
	}
	at := e.begin(tensorTypeShape)
	for _, d := range s.Dims {
		dim := e.begin(shapeDim)
		e.dim(d)
		e.end(dim)
	}
	e.end(at)
}

// dim writes a number, a symbol or an expression as dimText gives it; an unknown dim is left empty.
func (e *encoder) dim(d symbolic.Expr) {
	if c, ok := d.Const(); ok {
		e.number(dimValue, c)
		return
	}
	if d.IsKnown() {
		e.text(dimParam, dimText(d))
	}
}
