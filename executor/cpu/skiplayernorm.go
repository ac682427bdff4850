package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// skipNormKernel is ONNX Runtime's SkipLayerNormalization: the norm of s = input + skip + bias over
// the last axis, times gamma, plus beta; the simplified form has neither mean nor beta. It also
// gives the statistics and s. A skip without the batch dim, or with 1 for it, is the same for all.
type skipNormKernel[T normElem] struct {
	epsilon float64
	simple  bool
	biasAt  int // input slot of the bias

	n                 int
	x, skip           []T
	gamma, beta, bias []T
	y, sum            normTensor[T]
	mean, inv         normStats
	shape             []int
}

func newSkipNorm(simple bool) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		q := *p
		q.Out = append([]graph.DType(nil), p.Out...)
		for i := 1; i < min(len(q.Out), 3); i++ {
			q.Out[i] = graph.Undefined // statistics, which may have another type
		}
		if !normOneType(q.In, q.Out) {
			return nil, unsupportedTypes(p)
		}
		switch p.DType(0) {
		case graph.Float32:
			return makeSkipNorm[float32](p, simple), nil
		case graph.Float64:
			return makeSkipNorm[float64](p, simple), nil
		}
		return nil, unsupportedTypes(p)
	})
}

func makeSkipNorm[T normElem](p *executor.Prep, simple bool) executor.Kernel {
	k := &skipNormKernel[T]{simple: simple, biasAt: 4, epsilon: float64(p.Node.Float("epsilon", 1e-12))}
	if simple {
		k.biasAt = 3
	}
	return k
}

// Run adds and normalises.
func (k *skipNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 1 {
		return c.Errorf("input 0 is %v, wanted rank 2 or 3", x)
	}
	k.n = x.Shape[x.Rank()-1]
	if err := k.readOperands(c, x.Shape); err != nil {
		return err
	}
	k.shape = append(k.shape[:0], x.Shape...)
	k.shape[len(k.shape)-1] = 1
	k.y = normOpen[T](c.Out(0, x.Shape...))
	k.mean.open(c, 1, k.shape...)
	k.inv.open(c, 2, k.shape...)
	if k.sum = normOpen[T](c.Out(3, x.Shape...)); !k.sum.given() {
		k.sum = k.y
	}
	if c.Wants(0) {
		c.Parallel(product(x.Shape[:x.Rank()-1]), normGrain(3*k.n), k)
	}
	return nil
}

func (k *skipNormKernel[T]) readOperands(c *executor.Ctx, shape []int) error {
	skip := c.In(1).Shape
	for len(skip) > 0 && skip[0] == 1 {
		skip = skip[1:]
	}
	own := shape
	for len(own) > len(skip) {
		own = own[1:]
	}
	if !slices.Equal(own, skip) || c.In(1).Len()%max(k.n, 1) != 0 {
		return c.Errorf("input 1, the skip, has shape %v, which cannot be stretched to %v", c.In(1).Shape, shape)
	}
	k.x, k.skip, k.gamma = normData[T](c, 0), normData[T](c, 1), normData[T](c, 2)
	k.beta, k.bias = nil, normData[T](c, k.biasAt)
	if err := normVector(c, 2, "scale", k.n); err != nil {
		return err
	}
	if !k.simple {
		k.beta = normData[T](c, 3)
		if err := normVector(c, 3, "shift", k.n); err != nil {
			return err
		}
	}
	return normVector(c, k.biasAt, "bias", k.n)
}

// Range does rows lo..hi-1.
func (k *skipNormKernel[T]) Range(lo, hi int) {
	var buf [normBlock]T
	n := k.n
	for ; lo < hi; lo++ {
		sum, at := k.sum.data[lo*n:(lo+1)*n], lo*n%max(len(k.skip), 1)
		normAdd(sum, k.x[lo*n:(lo+1)*n], k.skip[at:at+n])
		if k.bias != nil {
			normAdd(sum, sum, k.bias)
		}
		m, inv := normRowStats(buf[:], &k.sum, lo*n, n, k.simple, k.epsilon)
		normRow(buf[:], &k.y, &k.sum, lo*n, n, k.gamma, k.beta, m, inv)
		k.mean.put(lo, float64(m))
		k.inv.put(lo, float64(inv))
	}
}
