package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// newClip makes the kernel of Clip: max(x, lowest), and then min(that, highest). The bounds are
// scalar inputs, each of them optional, and were attributes before version 11. NaN stays.
// https://onnx.ai/onnx/operators/onnx__Clip.html
func newClip(p *executor.Prep) (executor.Kernel, error) {
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	d := p.DType(0)
	as := elemWide(d)
	low, high, both := clipLoops(as)
	if both == nil {
		return nil, unsupportedTypes(p)
	}
	k := &elemKernel{loop: both, grain: elemLight, rule: elemScalarsAfter(1), out: elemOut(p, 0, as),
		in: []elemInput{elemIn(p, 0, as)}}
	if p.Version < 11 {
		if as != graph.Float32 && as != graph.Float64 {
			return nil, unsupportedTypes(p)
		}
		k.in = append(k.in, floatConstant(as, p.Node.Float("min", -math.MaxFloat32)),
			floatConstant(as, p.Node.Float("max", math.MaxFloat32)))
		return k, nil
	}
	for slot := 1; slot <= 2; slot++ {
		if p.Has(slot) {
			k.in = append(k.in, elemIn(p, slot, as))
		}
	}
	switch {
	case !p.Has(1) && !p.Has(2):
		k.loop = copyLoop
	case !p.Has(2):
		k.loop = low
	case !p.Has(1):
		k.loop = high
	}
	return k, nil
}

// floatConstant is an operand that is a constant.
func floatConstant(as graph.DType, v float32) elemInput {
	t := executor.NewTensor(graph.Float32, nil, v)
	if as == graph.Float64 {
		t = executor.NewTensor(graph.Float64, nil, float64(v))
	}
	return elemInput{slot: -1, size: len(t.Data), wide: len(t.Data), data: t.Data}
}

// clipLoops returns the loops for a lower bound, an upper bound, and both.
func clipLoops(d graph.DType) (low, high, both elemLoop) {
	switch d {
	case graph.Float32:
		return clipLoopsOf[float32]()
	case graph.Float64:
		return clipLoopsOf[float64]()
	case graph.Int8:
		return clipLoopsOf[int8]()
	case graph.Int16:
		return clipLoopsOf[int16]()
	case graph.Int32:
		return clipLoopsOf[int32]()
	case graph.Int64:
		return clipLoopsOf[int64]()
	case graph.Uint8:
		return clipLoopsOf[uint8]()
	case graph.Uint16:
		return clipLoopsOf[uint16]()
	case graph.Uint32:
		return clipLoopsOf[uint32]()
	case graph.Uint64:
		return clipLoopsOf[uint64]()
	}
	return nil, nil, nil
}

func clipLoopsOf[T elemNumber]() (low, high, both elemLoop) {
	return loop2(maxLoop[T]), loop2(minLoop[T]), loop3(clipLoop[T])
}

// clipLoop gets each bound repeated for every element; all copies are equal.
func clipLoop[T elemNumber](dst, a, low, high []T) {
	if len(dst) == 0 {
		return
	}
	a = a[:len(dst)]
	l, h := low[0], high[0]
	for i, x := range a {
		dst[i] = min(max(x, l), h)
	}
}
