package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// lpNormKernel divides x by its norm along an axis: the sum of absolute values (p = 1) or the
// square root of the sum of squares (p = 2). If the norm is 0, elements stay 0.
// https://onnx.ai/onnx/operators/onnx__LpNormalization.html
type lpNormKernel[T normElem] struct {
	softmaxAxis
	one  bool // p = 1
	x, y []T
}

func newLpNormalization(p *executor.Prep) (executor.Kernel, error) {
	order := p.Node.Int("p", 2)
	if order != 1 && order != 2 {
		return nil, p.Errorf("attribute p is %d, wanted 1 or 2", order)
	}
	axis := newSoftmaxAxis(p, false)
	switch p.DType(0) {
	case graph.Float32:
		return &lpNormKernel[float32]{softmaxAxis: axis, one: order == 1}, nil
	case graph.Float64:
		return &lpNormKernel[float64]{softmaxAxis: axis, one: order == 1}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run normalises.
func (k *lpNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.read(c, x.Shape); err != nil {
		return err
	}
	k.x = normData[T](c, 0)
	if k.y = normOut[T](c, 0, x.Shape...); k.y != nil {
		k.parallel(c, k)
	}
	return nil
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *lpNormKernel[T]) Range(lo, hi int) {
	var norms [softmaxTile]T
	for ; lo < hi; lo++ {
		base, columns := k.tile(lo)
		if k.inner == 1 {
			x := k.x[base : base+k.n]
			lpDivide(k.y[base:base+k.n], x, k.norm(x))
			continue
		}
		s := norms[:columns]
		clear(s)
		for j := range k.n {
			k.addNorm(s, k.x[base+j*k.inner:][:columns])
		}
		for j := range k.n {
			at := base + j*k.inner
			for i, v := range k.x[at : at+columns] {
				k.y[at+i] = lpQuotient(v, k.root(s[i]))
			}
		}
	}
}

func (k *lpNormKernel[T]) norm(x []T) T {
	if !k.one {
		return k.root(normSumSquares(x, 0))
	}
	var s T
	for _, v := range x {
		s += max(v, -v)
	}
	return s
}

func (k *lpNormKernel[T]) addNorm(s, x []T) {
	if !k.one {
		normMulAdd(s, x, x, s)
		return
	}
	for i, v := range x {
		s[i] += max(v, -v)
	}
}

// root turns a sum into a norm.
func (k *lpNormKernel[T]) root(s T) T {
	if k.one {
		return s
	}
	return T(math.Sqrt(float64(s)))
}

func lpDivide[T normElem](y, x []T, norm T) {
	for i, v := range x {
		y[i] = lpQuotient(v, norm)
	}
}

func lpQuotient[T normElem](v, norm T) T {
	if norm == 0 {
		return 0
	}
	return v / norm
}
