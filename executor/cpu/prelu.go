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
		return copyLoop // nothing is below 0
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

// newShrink makes the kernel of Shrink: x+bias below -lambd, x-bias above lambd, 0 between.
// Integers are computed in float64 and converted as Cast does.
// https://onnx.ai/onnx/operators/onnx__Shrink.html
func newShrink(p *executor.Prep) (executor.Kernel, error) {
	lambd, bias := p.Node.Float("lambd", 0.5), p.Node.Float("bias", 0)
	d := p.DType(0)
	as := elemWide(d)
	if d.IsInteger() && elemCastable(d) {
		as = graph.Float64
	}
	var loop elemLoop
	switch as {
	case graph.Float32:
		loop = shrinkLoop(lambd, bias)
	case graph.Float64:
		loop = shrinkLoop(float64(lambd), float64(bias))
	}
	return elemNode(p, loop, as, as)
}

func shrinkLoop[T elemFloat](lambd, bias T) elemLoop {
	return loop1(func(dst, a []T) {
		a = a[:len(dst)]
		for i, x := range a {
			y := elemPick(x < -lambd, x+bias, 0)
			dst[i] = elemPick(x > lambd, x-bias, y)
		}
	})
}

// newZero makes the kernel of ONNX Runtime's ZeroGradient: zeros like input 0.
func newZero(p *executor.Prep) (executor.Kernel, error) {
	k, err := newCopy(p)
	if err == nil {
		k.(*elemKernel).loop = func(dst, _, _, _ []byte) { clear(dst) }
	}
	return k, err
}

// newCopy makes the kernel of operators that move a tensor between memories: here it is a copy.
func newCopy(p *executor.Prep) (executor.Kernel, error) {
	d := p.DType(0)
	if d.Bits() == 0 || d.Bits()%8 != 0 {
		return nil, unsupportedTypes(p)
	}
	return &elemKernel{loop: copyLoop, grain: elemLight, in: []elemInput{elemIn(p, 0, d)}, out: elemOut(p, 0, d)}, nil
}
