package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/simd"
)

// Elementwise operators of ONNX Runtime
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).

// ortNode makes a kernel whose operands are the given number of inputs, in float32 or float64. Each
// loop may be nil.
func ortNode(p *executor.Prep, inputs int, rule elemShapeRule, loop32, loop64 elemLoop) (*elemKernel, error) {
	as := elemWide(p.DType(0))
	loop := loop32
	switch as {
	case graph.Float32:
	case graph.Float64:
		loop = loop64
	default:
		loop = nil
	}
	if loop == nil {
		return nil, unsupportedTypes(p)
	}
	k := &elemKernel{loop: loop, grain: elemHeavy, rule: rule, out: elemOut(p, 0, as)}
	for i := range inputs {
		if !elemCastable(p.DType(i)) {
			return nil, unsupportedTypes(p)
		}
		k.in = append(k.in, elemIn(p, i, as))
	}
	return k, nil
}

// newBiasGelu makes the kernels of BiasGelu, gelu(x+bias), and of FastGelu, the same with Gelu's
// approximation by tanh and an optional bias. The bias is a vector as long as the last dim of x.
func newBiasGelu(p *executor.Prep) (executor.Kernel, error) {
	vector, scalar := simd.Gelu, gelu
	if p.Node.Kind == op.FastGelu {
		vector, scalar = simd.GeluTanh, geluTanh
	}
	loop64 := mathLoop[float64](scalar)
	if !p.Has(1) {
		return ortNode(p, 1, nil, loop1(vector), loop1(loop64))
	}
	return ortNode(p, 2, elemBiasLast(1),
		loop2(func(dst, a, b []float32) { simd.Add(dst, a, b); vector(dst, dst) }),
		loop2(func(dst, a, b []float64) { addLoop(dst, a, b); loop64(dst, dst) }))
}

// newBiasAdd makes the kernel of BiasAdd: x + bias + skip, where the bias is a vector as long as
// the last dim.
func newBiasAdd(p *executor.Prep) (executor.Kernel, error) {
	return ortNode(p, 3, elemBiasLast(1), loop3(biasAddLoop[float32]), loop3(biasAddLoop[float64]))
}

func biasAddLoop[T elemFloat](dst, a, b, c []T) {
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := range dst {
		s := a[i] + b[i]
		dst[i] = s + c[i]
	}
}

// newScale makes the kernel of Scale: the input times a scalar, or divided by it if attribute
// scale_down is set.
func newScale(p *executor.Prep) (executor.Kernel, error) {
	loop32, loop64 := loop2(simd.Mul), loop2(mulLoop[float64])
	if p.Node.Int("scale_down", 0) != 0 {
		loop32, loop64 = loop2(simd.Div), loop2(divLoop[float64])
	}
	return ortNode(p, 2, elemScalarsAfter(1), loop32, loop64)
}

// newScaledSum makes the kernel of ScaledSum: the sum of two or three inputs, each times an
// attribute of its own.
func newScaledSum(p *executor.Prep) (executor.Kernel, error) {
	s := [3]float32{p.Node.Float("scale_0", 1), p.Node.Float("scale_1", 1), p.Node.Float("scale_2", 1)}
	n := 2
	if p.Has(2) {
		n = 3
	}
	return ortNode(p, n, elemEqualShapes, scaledSumLoop(s[0], s[1], s[2], n),
		scaledSumLoop(float64(s[0]), float64(s[1]), float64(s[2]), n))
}

func scaledSumLoop[T elemFloat](r, s, t T, n int) elemLoop {
	if n == 2 {
		return loop2(func(dst, a, b []T) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i := range dst {
				x, y := a[i]*r, b[i]*s
				dst[i] = x + y
			}
		})
	}
	return loop3(func(dst, a, b, c []T) {
		a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
		for i := range dst {
			x, y, z := a[i]*r, b[i]*s, c[i]*t
			x += y
			dst[i] = x + z
		}
	})
}

// newAccumulator makes the kernel of InPlaceAccumulator: the sum so far plus a value, or the sum so
// far if the scalar in input 2 is given and false.
func newAccumulator(p *executor.Prep) (executor.Kernel, error) {
	return accumulator(p, 0, func(dst, sum, _, _ []byte) { copy(dst, sum) }, 0)
}

// newAccumulatorV2 makes the kernel of InPlaceAccumulatorV2: the buffer plus a value, or the value
// alone if the scalar in input 2 is given and true. Output 0 says that this has been done; output 1
// is the result. If output 1 is left out, the buffer itself is updated.
func newAccumulatorV2(p *executor.Prep) (executor.Kernel, error) {
	if !p.Wants(1) {
		return newAccumulateInto(p)
	}
	k, err := accumulator(p, 1, func(dst, _, value, _ []byte) { copy(dst, value) }, 1)
	if err != nil {
		return nil, err
	}
	return &accumulatorV2{k}, nil
}

// accumulator adds input 1 to input 0, giving output out. If input 2, a bool for the whole run, is
// given and equals flag, it runs the other loop.
func accumulator(p *executor.Prep, out int, other elemLoop, flag uint8) (*elemKernel, error) {
	k, err := ortNode(p, 2, elemScalarsAfter(2), loop2(simd.Add), loop2(addLoop[float64]))
	if err != nil {
		return nil, err
	}
	k.grain, k.out = elemLight, elemOut(p, out, elemWide(p.DType(0)))
	if !p.Has(2) {
		return k, nil
	}
	if p.DType(2) != graph.Bool {
		return nil, p.Errorf("input 2 is of type %v, wanted %v", p.DType(2), graph.Bool)
	}
	add := k.loop
	k.in = append(k.in, elemIn(p, 2, graph.Bool))
	k.loop = func(dst, a, b, c []byte) {
		if len(c) > 0 && c[0] == flag {
			other(dst, a, b, nil)
		} else {
			add(dst, a, b, nil)
		}
	}
	return k, nil
}

// accumulatorV2 adds the flag that says that the buffer has been updated. It is not an
// executor.Looper, since its result is output 1.
type accumulatorV2 struct{ sum *elemKernel }

// Run computes the outputs.
func (k *accumulatorV2) Run(c *executor.Ctx) error {
	if done := c.Out(0, 1); done != nil {
		done.Data[0] = 1
	}
	return k.sum.Run(c)
}
