package graph

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The types of attributes in ONNX's syntax, and of lists of them.
const (
	typeFloat, typeFloats   = "float", "floats"
	typeInt, typeInts       = "int", "ints"
	typeString, typeStrings = "string", "strings"
	typeTensor, typeTensors = "tensor", "tensors"
	typeGraph, typeGraphs   = "graph", "graphs"
	typeSparse, typeSparses = "sparse_tensor", "sparse_tensors"
	typeProto, typeProtos   = "type_proto", "type_protos"
)

// attr prints "name = value", with the type in between where the value does not show it.
func (p *printer) attr(a *Attr) {
	p.inlineNotes(a.Doc, nil, nil)
	p.name(a.Name)
	if a.Ref != "" || a.Value == nil {
		p.str(" = @")
		p.name(a.Ref)
		return
	}
	if typ := emptyListType(a.Value); typ != "" {
		p.str(": ")
		p.str(typ)
	}
	p.str(" = ")
	p.attrValue(a.Value)
}

// emptyListType returns the type to state of an empty list, "" for other values.
func emptyListType(value any) string {
	n, typ := 1, ""
	switch v := value.(type) {
	case []int64:
		n, typ = len(v), typeInts
	case []float32:
		n, typ = len(v), typeFloats
	case []string:
		n, typ = len(v), typeStrings
	case []*TensorData:
		n, typ = len(v), typeTensors
	case []*Sparse:
		n, typ = len(v), typeSparses
	case []*Graph:
		n, typ = len(v), typeGraphs
	case []Type:
		n, typ = len(v), typeProtos
	}
	if n > 0 {
		return ""
	}
	return typ
}

func (p *printer) attrValue(value any) {
	switch v := value.(type) {
	case int64:
		p.int(v)
	case float32:
		p.floatAttr(v)
	case string:
		p.quote(v)
	case *TensorData:
		p.tensor(v)
	case *Sparse:
		p.sparse(v)
	case *Graph:
		p.graph(v)
	case Type:
		p.typ(&v)
	case []int64:
		p.fill("[", len(v), "]", func(i int) { p.int(v[i]) })
	case []float32:
		p.fill("[", len(v), "]", func(i int) { p.floatAttr(v[i]) })
	case []string:
		p.fill("[", len(v), "]", func(i int) { p.quote(v[i]) })
	case []*TensorData:
		p.list("[", len(v), "]", func(i int) { p.tensor(v[i]) })
	case []*Sparse:
		p.list("[", len(v), "]", func(i int) { p.sparse(v[i]) })
	case []*Graph:
		p.list("[", len(v), "]", func(i int) { p.graph(v[i]) })
	case []Type:
		p.list("[", len(v), "]", func(i int) { p.typ(&v[i]) })
	default:
		// No decoder and no parser makes such a value; Parse refuses the text.
		p.str(fmt.Sprintf("!(%T)", value))
	}
}

// floatAttr prints a number so that it is not taken for an integer.
func (p *printer) floatAttr(f float32) {
	start := len(p.buf)
	p.buf = appendFloat32(p.buf, math.Float32bits(f))
	if !strings.ContainsAny(string(p.buf[start:]), ".eEn") { // n as in inf and nan
		p.str(".0")
	}
}

// The NaNs that "nan" stands for; others are written by their bits.
const (
	quietNaN32 = 0x7fc00000
	quietNaN64 = 0x7ff8000000000000
)

func appendFloat32(buf []byte, bits uint32) []byte {
	f := math.Float32frombits(bits)
	return appendFloat(buf, float64(f), 32, bits == quietNaN32, uint64(bits))
}

func appendFloat64(buf []byte, bits uint64) []byte {
	return appendFloat(buf, math.Float64frombits(bits), 64, bits == quietNaN64, bits)
}

func appendFloat(buf []byte, f float64, size int, quiet bool, bits uint64) []byte {
	switch {
	case quiet:
		return append(buf, "nan"...)
	case math.IsNaN(f):
		return append(strconv.AppendUint(append(buf, "nan(0x"...), bits, 16), ')')
	case math.IsInf(f, 1):
		return append(buf, "inf"...)
	case math.IsInf(f, -1):
		return append(buf, "-inf"...)
	}
	return strconv.AppendFloat(buf, f, 'g', -1, size)
}
