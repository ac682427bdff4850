package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// newWhere makes the kernel of Where: X where the condition holds, Y elsewhere, of any type.
// https://onnx.ai/onnx/operators/onnx__Where.html
func newWhere(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != graph.Bool {
		return nil, p.Errorf("input 0 is of type %v, wanted %v", p.DType(0), graph.Bool)
	}
	d := p.DType(1)
	if p.DType(2) != d {
		return nil, p.Errorf("input 2 is of type %v, wanted that of input 1, %v", p.DType(2), d)
	}
	var loop elemLoop
	switch d.Bits() {
	case 8:
		loop = loop3(whereLoop[uint8])
	case 16:
		loop = loop3(whereLoop[uint16])
	case 32:
		loop = loop3(whereLoop[uint32])
	case 64:
		loop = loop3(whereLoop[uint64])
	default:
		return nil, unsupportedTypes(p)
	}
	return &elemKernel{loop: loop, grain: elemLight, out: elemOut(p, 0, d),
		in: []elemInput{elemIn(p, 0, graph.Bool), elemIn(p, 1, d), elemIn(p, 2, d)}}, nil
}

// whereLoop reads both choices, so that the compiler makes no branch.
func whereLoop[T executor.Elem](dst []T, cond []uint8, x, y []T) {
	cond, x, y = cond[:len(dst)], x[:len(dst)], y[:len(dst)]
	for i := range dst {
		v, other := x[i], y[i]
		if cond[i] == 0 {
			v = other
		}
		dst[i] = v
	}
}
