package graph

import (
	"strings"

	"memopt/symbolic"
)

// Form is the kind of a Type: a tensor, a sequence and so on.
type Form uint8

// The forms of ONNX's TypeProto. FormUnknown is a type that is not stated.
const (
	FormUnknown Form = iota
	FormTensor
	FormSparse
	FormSequence
	FormOptional
	FormMap
	FormOpaque
)

// Type is the known type of a value: its form and, for tensors, its element type and shape. The
// zero value is the unknown type.
type Type struct {
	Form  Form
	DType DType  // elements of a tensor, keys of a map
	Shape Shape  // of a tensor
	Elem  *Type  // of a sequence, an optional or a map's values
	Name  string // of an opaque type
}

// Tensor returns the type of a dense tensor.
func Tensor(d DType, s Shape) Type { return Type{Form: FormTensor, DType: d, Shape: s} }

// Shape is a list of dims. A dim is an expression over named dimensions, or
// symbolic.Unknown. The zero value is a shape of unknown rank.
type Shape struct {
	Dims   []symbolic.Expr
	Ranked bool // whether the rank is known; a scalar is ranked and has no dims
}

// Dims returns a ranked shape.
func Dims(dims ...symbolic.Expr) Shape { return Shape{Dims: dims, Ranked: true} }

// Ints returns a ranked shape of numbers.
func Ints(dims ...int64) Shape {
	s := Shape{Dims: make([]symbolic.Expr, len(dims)), Ranked: true}
	for i, d := range dims {
		s.Dims[i] = symbolic.Const(d)
	}
	return s
}

// UnknownDims returns a shape of the given rank and unknown dims.
func UnknownDims(rank int) Shape {
	s := Shape{Dims: make([]symbolic.Expr, rank), Ranked: true}
	for i := range s.Dims {
		s.Dims[i] = symbolic.Unknown()
	}
	return s
}

// Rank returns the number of dims, or -1 when the rank is unknown.
func (s Shape) Rank() int {
	if !s.Ranked {
		return -1
	}
	return len(s.Dims)
}

// Known reports whether the rank and every dim are known.
func (s Shape) Known() bool {
	if !s.Ranked {
		return false
	}
	for _, d := range s.Dims {
		if !d.IsKnown() {
			return false
		}
	}
	return true
}

// Elements returns the number of elements: 1 for a scalar, unknown when a dim is.
func (s Shape) Elements() symbolic.Expr {
	if !s.Ranked {
		return symbolic.Unknown()
	}
	n := symbolic.Const(1)
	for _, d := range s.Dims {
		n = n.Mul(d)
	}
	return n
}

// Bytes returns the size of a dense tensor in bytes, elements of less than a
// byte packed as ONNX packs them. It is unknown for other forms, for strings and
// where a dim is unknown.
func (t Type) Bytes() symbolic.Expr {
	bits := t.DType.Bits()
	if t.Form != FormTensor || bits == 0 {
		return symbolic.Unknown()
	}
	n := t.Shape.Elements()
	if bits%8 == 0 {
		return n.Mul(symbolic.Const(int64(bits / 8)))
	}
	return n.Mul(symbolic.Const(int64(bits))).CeilDiv(symbolic.Const(8))
}

// String prints the shape as "[batch, 128, ?]", or "[...]" when its rank is unknown.
func (s Shape) String() string {
	if !s.Ranked {
		return "[...]"
	}
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s.Dims {
		if i > 0 {
			b.WriteString(", ")
		}
		if d.IsUnknown() {
			b.WriteByte('?')
		} else {
			b.WriteString(d.String())
		}
	}
	b.WriteByte(']')
	return b.String()
}

// String prints the type for people: "float[batch, 128]", a scalar as "float", one of unknown rank
// as "float[...]".
func (t Type) String() string {
	elem := func() string {
		if t.Elem == nil {
			return "?"
		}
		return t.Elem.String()
	}
	switch t.Form {
	case FormTensor:
		if t.Shape.Ranked && len(t.Shape.Dims) == 0 {
			return t.DType.String()
		}
		return t.DType.String() + t.Shape.String()
	case FormSparse:
		return "sparse_tensor(" + t.DType.String() + t.Shape.String() + ")"
	case FormSequence:
		return "seq(" + elem() + ")"
	case FormOptional:
		return "optional(" + elem() + ")"
	case FormMap:
		return "map(" + t.DType.String() + ", " + elem() + ")"
	case FormOpaque:
		return "opaque(" + t.Name + ")"
	}
	return "?"
}
