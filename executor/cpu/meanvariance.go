package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// meanVarianceKernel is MeanVarianceNormalization: y = (x-m)/(√v + 1e-9), where m and v are the
// mean and variance over the axes, by default 0, 2 and 3.
// https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
type meanVarianceKernel[T normElem] struct {
	axes   []int64
	folded []bool
	plan   reducePlan
	tiles  int
	x, y   normTensor[T]
}

func newMeanVariance(p *executor.Prep) (executor.Kernel, error) {
	axes := p.Node.IntList("axes", []int64{0, 2, 3})
	switch normAccumulates(p.DType(0)) {
	case graph.Float32:
		return &meanVarianceKernel[float32]{axes: axes}, nil
	case graph.Float64:
		return &meanVarianceKernel[float64]{axes: axes}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run normalises.
func (k *meanVarianceKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	k.folded = k.folded[:0]
	for range x.Shape {
		k.folded = append(k.folded, false)
	}
	for _, a := range k.axes {
		axis, err := operand.DataAxis(c, a, x.Rank())
		if err != nil {
			return err
		}
		k.folded[axis] = true
	}
	k.plan.build(x.Shape, k.folded)
	k.x = normOpen[T](x)
	k.y = normOpen[T](c.Out(0, x.Shape...))
	if !k.y.given() {
		return nil
	}
	if k.tiles = 1; k.plan.innerKept {
		k.tiles = (k.plan.inner + softmaxTile - 1) / softmaxTile
	}
	c.Parallel(k.plan.outs*k.tiles, normGrain(2*k.plan.count*min(k.plan.inner, softmaxTile)), k)
	return nil
}

// Range normalises groups, or tiles of neighbouring groups, lo..hi-1.
func (k *meanVarianceKernel[T]) Range(lo, hi int) {
	var block [normBlock]T
	for ; lo < hi; lo++ {
		base := k.plan.kept(lo / k.tiles)
		if !k.plan.innerKept {
			k.group(block[:], base)
			continue
		}
		column := lo % k.tiles * softmaxTile
		k.columns(block[:], base+column, min(k.plan.inner-column, softmaxTile))
	}
}

// group normalises the runs of one group.
func (k *meanVarianceKernel[T]) group(buf []T, base int) {
	p := &k.plan
	var sum, squares T
	for r := range p.runs {
		sum += k.x.sum(buf, base+p.fold(r), p.inner)
	}
	m := sum / T(p.count)
	for r := range p.runs {
		squares += k.x.sumSquares(buf, base+p.fold(r), p.inner, m)
	}
	s := meanVarianceScale(squares / T(p.count))
	for r := range p.runs {
		normPlane(buf, &k.y, &k.x, base+p.fold(r), p.inner, m, s, 0)
	}
}

func meanVarianceScale[T normElem](v T) T { return T(1 / (math.Sqrt(float64(v)) + 1e-9)) }

// columns normalises n groups that have one element of each run.
func (k *meanVarianceKernel[T]) columns(buf []T, base, n int) {
	var ms, vs [softmaxTile]T
	m, v := ms[:n], vs[:n]
	p := &k.plan
	for r := range p.runs {
		normAdd(m, m, k.x.load(buf, base+p.fold(r), n))
	}
	normMulScalar(m, m, 1/T(p.count))
	for r := range p.runs {
		d := buf[:n]
		normSub(d, k.x.load(buf, base+p.fold(r), n), m)
		normMulAdd(v, d, d, v)
	}
	for i := range v {
		v[i] = meanVarianceScale(v[i] / T(p.count))
	}
	for r := range p.runs {
		at := base + p.fold(r)
		y := k.y.place(buf, at, n)
		normSub(y, k.x.load(buf, at, n), m)
		normMul(y, y, v)
		k.y.store(at, y)
	}
}
