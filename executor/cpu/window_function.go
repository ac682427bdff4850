package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// HannWindow, HammingWindow and BlackmanWindow: y[i] = a - b*cos(2πi/n) + c*cos(4πi/n) for i below
// the size, with n = size for a periodic window and size-1 for a symmetric one. The symmetric
// window of size 1 is 1. https://onnx.ai/onnx/operators/onnx__HannWindow.html
// https://onnx.ai/onnx/operators/onnx__HammingWindow.html
// https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html

type windowFunctionKernel struct {
	a, b, c  float64
	periodic bool
	dtype    graph.DType

	period float64
	data   []byte
}

func newWindowFunction(p *executor.Prep) (executor.Kernel, error) {
	k := &windowFunctionKernel{periodic: p.Node.Int("periodic", 1) != 0, dtype: p.Out[0]}
	switch p.Node.Kind {
	case op.HannWindow:
		k.a, k.b = 0.5, 0.5
	case op.HammingWindow:
		k.a, k.b = 25.0/46, 21.0/46
	case op.BlackmanWindow:
		k.a, k.b, k.c = 0.42, 0.5, 0.08
	}
	if d := p.DType(0); d != graph.Int32 && d != graph.Int64 {
		return nil, p.Errorf("input 0, the size, has type %v, wanted int32 or int64", d)
	}
	if !canStoreReals(k.dtype) || k.dtype == graph.Bool {
		return nil, p.Unsupported("no kernel for output type %v", k.dtype)
	}
	return k, nil
}

// Run computes the window.
func (k *windowFunctionKernel) Run(c *executor.Ctx) error {
	t := c.In(0)
	if t.Len() != 1 {
		return c.Errorf("input 0, the size, is %v, wanted one number", t)
	}
	var size int64
	if t.DType == graph.Int32 {
		size = int64(executor.Of[int32](t)[0])
	} else {
		size = executor.Of[int64](t)[0]
	}
	if size < 0 {
		return c.Errorf("input 0, the size, is %d, wanted no negative number", size)
	}
	k.period = float64(size)
	if !k.periodic {
		k.period--
	}
	k.data = c.Out(0, int(size)).Data
	c.Parallel(int(size), 1<<12, k)
	return nil
}

// Range computes elements.
func (k *windowFunctionKernel) Range(lo, hi int) {
	var buf [chunkLen]float64
	for i := lo; i < hi; i += chunkLen {
		part := buf[:min(chunkLen, hi-i)]
		for n := range part {
			if k.period == 0 {
				part[n] = 1
				continue
			}
			t := 2 * math.Pi * float64(i+n) / k.period
			b, c := k.b*math.Cos(t), k.c*math.Cos(2*t)
			part[n] = k.a - b + c
		}
		storeReals(k.dtype, k.data, i, part)
	}
}
