package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// ONNX Runtime's gradients of softmaxes, of dY and the result Y:
//
//	SoftmaxGrad     dX = Y * (dY - sum(dY*Y))
//	LogSoftmaxGrad  dX = dY - e^Y * sum(dY)
//
// The forms without _13 take the input for a matrix, as Softmax before version 13.

// softmaxGradKernel is SoftmaxGrad or LogSoftmaxGrad.
type softmaxGradKernel[T normElem] struct {
	softmaxAxis
	log       bool
	dy, y, dx []T
}

func newSoftmaxGrad(log, coerced bool) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		axis := newSoftmaxAxis(p, coerced)
		if p.DType(0) != p.DType(1) {
			return nil, unsupportedTypes(p)
		}
		switch p.DType(0) {
		case graph.Float32:
			return &softmaxGradKernel[float32]{softmaxAxis: axis, log: log}, nil
		case graph.Float64:
			return &softmaxGradKernel[float64]{softmaxAxis: axis, log: log}, nil
		}
		return nil, unsupportedTypes(p)
	})
}

// Run computes the gradient.
func (k *softmaxGradKernel[T]) Run(c *executor.Ctx) error {
	dy, y := c.In(0), c.In(1)
	if err := normSameShape(c, 0, 1); err != nil {
		return err
	}
	if err := k.read(c, dy.Shape); err != nil {
		return err
	}
	dx := c.Out(0, dy.Shape...)
	if dx == nil {
		return nil
	}
	k.dy, k.y, k.dx = executor.Cast[T](dy.Data), executor.Cast[T](y.Data), executor.Cast[T](dx.Data)
	k.parallel(c, k)
	return nil
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *softmaxGradKernel[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		base, columns := k.tile(lo)
		switch {
		case k.inner > 1:
			k.columns(base, columns)
		case k.log:
			logSoftmaxGradRow(k.dx[base:base+k.n], k.dy[base:base+k.n], k.y[base:base+k.n])
		default:
			softmaxGradRow(k.dx[base:base+k.n], k.dy[base:base+k.n], k.y[base:base+k.n])
		}
	}
}

func softmaxGradRow[T normElem](dx, dy, y []T) {
	s := normDot(dy, y)
	normAddScalar(dx, dy, -s)
	normMul(dx, dx, y)
}

func logSoftmaxGradRow[T normElem](dx, dy, y []T) {
	var buf [1024]T
	s := normSum(dy)
	for lo := 0; lo < len(dy); lo += len(buf) {
		e := buf[:min(len(dy)-lo, len(buf))]
		normExp(e, y[lo:lo+len(e)])
		normMulScalar(e, e, s)
		normSub(dx[lo:lo+len(e)], dy[lo:lo+len(e)], e)
	}
}

func (k *softmaxGradKernel[T]) columns(base, n int) {
	var ss, bs [softmaxTile]T
	s, buf := ss[:n], bs[:n]
	for j := range k.n {
		at := base + j*k.inner
		if k.log {
			normAdd(s, s, k.dy[at:at+n])
		} else {
			normMulAdd(s, k.dy[at:at+n], k.y[at:at+n], s)
		}
	}
	for j := range k.n {
		at := base + j*k.inner
		dx, dy, y := k.dx[at:at+n], k.dy[at:at+n], k.y[at:at+n]
		if k.log {
			normExp(buf, y)
			normMul(buf, buf, s)
			normSub(dx, dy, buf)
		} else {
			normSub(dx, dy, s)
			normMul(dx, dx, y)
		}
	}
}
