package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// newCompare makes the kernels of Equal, Greater, GreaterOrEqual, Less and LessOrEqual. Only Equal
// takes bools. NaN equals no number and is neither less nor greater.
// https://onnx.ai/onnx/operators/onnx__Equal.html and so on.
func newCompare(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 7 {
		return nil, p.Unsupported("schema version %d stretches operands by attributes; from 7 on there is a kernel",
			p.Version)
	}
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	as := elemWide(p.DType(0))
	return elemNode(p, compareLoop(p.Node.Kind, as), as, graph.Bool)
}

func compareLoop(kind graph.Kind, d graph.DType) elemLoop {
	switch d {
	case graph.Bool:
		if kind == op.Equal {
			return loop2(equalLoop[uint8])
		}
	case graph.Float32:
		return compareOf[float32](kind)
	case graph.Float64:
		return compareOf[float64](kind)
	case graph.Int8:
		return compareOf[int8](kind)
	case graph.Int16:
		return compareOf[int16](kind)
	case graph.Int32:
		return compareOf[int32](kind)
	case graph.Int64:
		return compareOf[int64](kind)
	case graph.Uint8:
		return compareOf[uint8](kind)
	case graph.Uint16:
		return compareOf[uint16](kind)
	case graph.Uint32:
		return compareOf[uint32](kind)
	case graph.Uint64:
		return compareOf[uint64](kind)
	}
	return nil
}

func compareOf[T elemNumber](kind graph.Kind) elemLoop {
	switch kind {
	case op.Equal:
		return loop2(equalLoop[T])
	case op.Less:
		return loop2(lessLoop[T])
	case op.LessOrEqual:
		return loop2(lessOrEqualLoop[T])
	case op.Greater:
		return loop2(func(dst []uint8, a, b []T) { lessLoop(dst, b, a) })
	case op.GreaterOrEqual:
		return loop2(func(dst []uint8, a, b []T) { lessOrEqualLoop(dst, b, a) })
	}
	return nil
}

func equalLoop[T elemNumber](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = elemTruth(a[i] == b[i])
	}
}

func lessLoop[T elemNumber](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = elemTruth(a[i] < b[i])
	}
}

func lessOrEqualLoop[T elemNumber](dst []uint8, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = elemTruth(a[i] <= b[i])
	}
}

// elemTruth returns a bool as an element. The compiler emits no branch for it.
func elemTruth(b bool) uint8 {
	var t uint8
	if b {
		t = 1
	}
	return t
}

// newNot makes the kernel of Not. https://onnx.ai/onnx/operators/onnx__Not.html
func newNot(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != graph.Bool {
		return nil, unsupportedTypes(p)
	}
	return elemNode(p, loop1(notLoop), graph.Bool, graph.Bool)
}

func notLoop(dst, a []uint8) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] ^ 1
	}
}
