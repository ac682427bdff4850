package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// newBitShift makes the kernel of BitShift: unsigned integers shifted by as many bits as operand 1
// says. https://onnx.ai/onnx/operators/onnx__BitShift.html
func newBitShift(p *executor.Prep) (executor.Kernel, error) {
	direction := p.Node.Str("direction", "")
	if direction != "LEFT" && direction != "RIGHT" {
		return nil, p.Errorf("attribute direction is %q, wanted LEFT or RIGHT", direction)
	}
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	d, left := p.DType(0), direction == "LEFT"
	var loop elemLoop
	switch d {
	case graph.Uint8:
		loop = shiftLoop[uint8](left)
	case graph.Uint16:
		loop = shiftLoop[uint16](left)
	case graph.Uint32:
		loop = shiftLoop[uint32](left)
	case graph.Uint64:
		loop = shiftLoop[uint64](left)
	}
	return elemNode(p, loop, d, d)
}

func shiftLoop[T uint8 | uint16 | uint32 | uint64](left bool) elemLoop {
	if left {
		return loop2(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = a[i] << b[i]
			}
		})
	}
	return loop2(func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] >> b[i]
		}
	})
}

// newBitwise makes the kernels of the bitwise operators on integers and, since a bool is 0 or 1, of
// And, Or and Xor. https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html,
// https://onnx.ai/onnx/operators/onnx__And.html
func newBitwise(p *executor.Prep) (executor.Kernel, error) {
	d, logic := p.DType(0), p.Node.Kind == op.And || p.Node.Kind == op.Or || p.Node.Kind == op.Xor
	if p.Version < 7 {
		return nil, p.Unsupported("schema version %d stretches operands by attributes; from 7 on there is a kernel",
			p.Version)
	}
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	if logic != (d == graph.Bool) || !logic && !d.IsInteger() {
		return nil, unsupportedTypes(p)
	}
	var loop elemLoop
	switch d.Bits() {
	case 8:
		loop = bitwiseLoop[uint8](p.Node.Kind)
	case 16:
		loop = bitwiseLoop[uint16](p.Node.Kind)
	case 32:
		loop = bitwiseLoop[uint32](p.Node.Kind)
	case 64:
		loop = bitwiseLoop[uint64](p.Node.Kind)
	}
	return elemNode(p, loop, d, d)
}

func bitwiseLoop[T uint8 | uint16 | uint32 | uint64](kind graph.Kind) elemLoop {
	switch kind {
	case op.And, op.BitwiseAnd:
		return loop2(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = a[i] & b[i]
			}
		})
	case op.Or, op.BitwiseOr:
		return loop2(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				dst[i] = a[i] | b[i]
			}
		})
	}
	return loop2(func(dst, a, b []T) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] ^ b[i]
		}
	})
}

// newBitwiseNot makes the kernel of BitwiseNot.
// https://onnx.ai/onnx/operators/onnx__BitwiseNot.html
func newBitwiseNot(p *executor.Prep) (executor.Kernel, error) {
	d := p.DType(0)
	var loop elemLoop
	switch d {
	case graph.Int8, graph.Uint8:
		loop = loop1(complementLoop[uint8])
	case graph.Int16, graph.Uint16:
		loop = loop1(complementLoop[uint16])
	case graph.Int32, graph.Uint32:
		loop = loop1(complementLoop[uint32])
	case graph.Int64, graph.Uint64:
		loop = loop1(complementLoop[uint64])
	}
	return elemNode(p, loop, d, d)
}

func complementLoop[T elemInteger](dst, a []T) {
	a = a[:len(dst)]
	for i, v := range a {
		dst[i] = ^v
	}
}
