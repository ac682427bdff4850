package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// newPRelu makes the kernel of PRelu: x below 0 times a slope, which is stretched to x.
// https://onnx.ai/onnx/operators/onnx__PRelu.html
func newPRelu(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 7 {
		return nil, p.Unsupported("schema version %d stretches slopes otherwise; from 7 on there is a kernel",
			p.Version)
	}
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	as := elemWide(p.DType(0))
	k, err := elemNode(p, preluLoops(as), as, as)
	if err != nil {
		return nil, err
	}
	k.rule = elemLikeFirst
	return k, nil
}

func preluLoops(d graph.DType) elemLoop {
	switch d {
	case graph.Float32:
		return loop2(preluLoop[float32])
	case graph.Float64:
		return loop2(preluLoop[float64])
	case graph.Int8:
		return loop2(integerPRelu[int8])
	case graph.Int16:
		return loop2(integerPRelu[int16])
	case graph.Int32:
		return loop2(integerPRelu[int32])
	case graph.Int64:
		return loop2(integerPRelu[int64])
	case graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64:
		return copyLoop // no element is below 0
	}
	return nil
}

func preluLoop[T elemFloat](dst, a, slope []T) {
	a, slope = a[:len(dst)], slope[:len(dst)]
	for i, x := range a {
		dst[i] = elemPick(x < 0, x*slope[i], x)
	}
}

func integerPRelu[T elemInteger](dst, a, slope []T) {
	a, slope = a[:len(dst)], slope[:len(dst)]
	for i, x := range a {
		if p := x * slope[i]; x < 0 {
			x = p
		}
		dst[i] = x
	}
}
