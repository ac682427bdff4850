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
// The forms without _13 treat the input as a matrix, as Softmax did before version 13.

// softmaxGradKernel is SoftmaxGrad or LogSoftmaxGrad.
type softmaxGradKernel[T normElem] struct {
	softmaxAxis
	log       bool
	dy, y, dx normTensor[T]
}

func newSoftmaxGrad(log, coerced bool) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		axis := newSoftmaxAxis(p, coerced)
		if p.DType(0) != p.DType(1) {
			return nil, unsupportedTypes(p)
		}
		switch normAccumulates(p.DType(0)) {
		case graph.Float32:
			return &softmaxGradKernel[float32]{softmaxAxis: axis, log: log}, nil
		case graph.Float64:
			return &softmaxGradKernel[float64]{softmaxAxis: axis, log: log}, nil
		}
		return nil, unsupportedTypes(p)
	}
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
	k.dy, k.y, k.dx = normOpen[T](dy), normOpen[T](y), normOpen[T](c.Out(0, dy.Shape...))
	if k.dx.given() {
		k.parallel(c, k)
	}
	return nil
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *softmaxGradKernel[T]) Range(lo, hi int) {
	var block, block2 [normBlock]T
	buf, buf2 := block[:], block2[:]
	for ; lo < hi; lo++ {
		base, columns := k.tile(lo)
		switch {
		case k.inner > 1:
			k.columns(buf, buf2, base, columns)
		case k.log:
			k.logRow(buf, buf2, base)
		default:
			k.row(buf, buf2, base)
		}
	}
}

func (k *softmaxGradKernel[T]) row(buf, buf2 []T, base int) {
	var s T
	for lo := 0; lo < k.n; lo += normBlock {
		at, w := base+lo, min(k.n-lo, normBlock)
		s += normDot(k.dy.load(buf, at, w), k.y.load(buf2, at, w))
	}
	for lo := 0; lo < k.n; lo += normBlock {
		at, w := base+lo, min(k.n-lo, normBlock)
		dx := k.dx.place(buf, at, w)
		normAddScalar(dx, k.dy.load(buf, at, w), -s)
		normMul(dx, dx, k.y.load(buf2, at, w))
		k.dx.store(at, dx)
	}
}

func (k *softmaxGradKernel[T]) logRow(buf, buf2 []T, base int) {
	s := k.dy.sum(buf, base, k.n)
	for lo := 0; lo < k.n; lo += normBlock {
		at, w := base+lo, min(k.n-lo, normBlock)
		e, dx := buf2[:w], k.dx.place(buf, at, w)
		normExp(e, k.y.load(buf2, at, w))
		normMulScalar(e, e, s)
		normSub(dx, k.dy.load(buf, at, w), e)
		k.dx.store(at, dx)
	}
}

func (k *softmaxGradKernel[T]) columns(buf, buf2 []T, base, n int) {
	var ss [softmaxTile]T
	s := ss[:n]
	for j := range k.n {
		at := base + j*k.inner
		if k.log {
			normAdd(s, s, k.dy.load(buf, at, n))
		} else {
			normMulAdd(s, k.dy.load(buf, at, n), k.y.load(buf2, at, n), s)
		}
	}
	for j := range k.n {
		at := base + j*k.inner
		dx, dy, y := k.dx.place(buf, at, n), k.dy.load(buf, at, n), k.y.load(buf2, at, n)
		if k.log {
			e := buf2[:n]
			normExp(e, y)
			normMul(e, e, s)
			normSub(dx, dy, e)
		} else {
			normSub(dx, dy, s)
			normMul(dx, dx, y)
		}
		k.dx.store(at, dx)
	}
}
