package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// lrnKernel is LRN on x [N, C, D…]: y[c] = x[c] / (bias + alpha/size*s[c])^beta, where s[c] is the
// sum of the squares of size neighbouring channels: (size-1)/2 before c, rounded down, and the rest
// after it. https://onnx.ai/onnx/operators/onnx__LRN.html
type lrnKernel[T normElem] struct {
	size              int
	alpha, beta, bias float64

	x, y  []T
	c, d  int
	tiles int
}

// lrnTile is how many neighbouring places are done together.
const lrnTile = 512

func newLRN(p *executor.Prep) (executor.Kernel, error) {
	size := p.Node.Int("size", 0)
	if size < 1 {
		return nil, p.Errorf("attribute size is %d or missing, wanted 1 or more", size)
	}
	switch p.DType(0) {
	case graph.Float32:
		return makeLRN[float32](p, size), nil
	case graph.Float64:
		return makeLRN[float64](p, size), nil
	}
	return nil, unsupportedTypes(p)
}

func makeLRN[T normElem](p *executor.Prep, size int64) executor.Kernel {
	return &lrnKernel[T]{size: int(min(size, 1<<30)), alpha: float64(p.Node.Float("alpha", 1e-4)),
		beta: float64(p.Node.Float("beta", 0.75)), bias: float64(p.Node.Float("bias", 1))}
}

// Run normalises.
func (k *lrnKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 is %v, wanted rank 2 or more", x)
	}
	k.c, k.d = x.Shape[1], product(x.Shape[2:])
	k.tiles = (k.d + lrnTile - 1) / lrnTile
	k.x = normData[T](c, 0)
	if k.y = normOut[T](c, 0, x.Shape...); k.y != nil {
		c.Parallel(x.Shape[0]*k.tiles, normGrain(4*k.c*min(k.d, lrnTile)), k)
	}
	return nil
}

// Range does tiles lo..hi-1.
func (k *lrnKernel[T]) Range(lo, hi int) {
	var ss, bs [lrnTile]T
	for ; lo < hi; lo++ {
		column := lo % k.tiles * lrnTile
		base := lo/k.tiles*k.c*k.d + column
		n := min(k.d-column, lrnTile)
		s, buf := ss[:n], bs[:n]
		for ch := range k.c {
			clear(s)
			first := max(ch-(k.size-1)/2, 0)
			for j := first; j < min(ch+k.size/2+1, k.c); j++ {
				x := k.x[base+j*k.d:][:n]
				normMulAdd(s, x, x, s)
			}
			normScaleShift(s, s, T(k.alpha/float64(k.size)), T(k.bias))
			lrnPower(s, buf, k.beta)
			at := base + ch*k.d
			normDiv(k.y[at:at+n], k.x[at:at+n], s)
		}
	}
}

// lrnPower raises s to the power of beta; 0.75, the usual one, is √s*√√s.
func lrnPower[T normElem](s, buf []T, beta float64) {
	if beta == 0.75 {
		normSqrt(s, s)
		normSqrt(buf, s)
		normMul(s, s, buf)
		return
	}
	for i, v := range s {
		s[i] = T(math.Pow(float64(v), beta))
	}
}
