package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// hardmaxKernel puts 1 at the first largest element along the axis and 0 elsewhere; NaN counts as
// larger than numbers. The axis is Softmax's. https://onnx.ai/onnx/operators/onnx__Hardmax.html
type hardmaxKernel[T normElem] struct {
	softmaxAxis
	x, y []T
}

func newHardmax(p *executor.Prep) (executor.Kernel, error) {
	axis := newSoftmaxAxis(p, p.Version < 13)
	switch p.DType(0) {
	case graph.Float32:
		return &hardmaxKernel[float32]{softmaxAxis: axis}, nil
	case graph.Float64:
		return &hardmaxKernel[float64]{softmaxAxis: axis}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run finds the maxima.
func (k *hardmaxKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.read(c, x.Shape); err != nil {
		return err
	}
	k.x, k.y = executor.Cast[T](x.Data), normOut[T](c, 0, x.Shape...)
	if k.y != nil {
		k.parallel(c, k)
	}
	return nil
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *hardmaxKernel[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		base, columns := k.tile(lo)
		for i := base; i < base+columns; i++ {
			at := i
			best := k.x[i]
			for j := 1; j < k.n; j++ {
				if v := k.x[i+j*k.inner]; v > best || v != v && best == best {
					best, at = v, i+j*k.inner
				}
			}
			for j := range k.n {
				k.y[i+j*k.inner] = 0
			}
			k.y[at] = 1
		}
	}
}
