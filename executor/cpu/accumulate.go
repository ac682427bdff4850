package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// accumulateInto is InPlaceAccumulatorV2 without its second output: it adds a value to the buffer
// in input 0, or replaces the buffer with the value if the scalar in input 2 is given and true.
type accumulateInto struct{ sum, value *executor.Tensor }

func newAccumulateInto(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != p.DType(1) || p.DType(0) != graph.Float32 && p.DType(0) != graph.Float64 {
		return nil, unsupportedTypes(p)
	}
	return &accumulateInto{}, nil
}

// Run updates the buffer.
func (k *accumulateInto) Run(c *executor.Ctx) error {
	k.sum, k.value = c.In(0), c.In(1)
	if !slices.Equal(k.sum.Shape, k.value.Shape) {
		return c.Errorf("input 1 is %v, wanted %v as the buffer", k.value, k.sum)
	}
	if done := c.Out(0, 1); done != nil {
		done.Data[0] = 1
	}
	if flag := c.In(2); flag != nil && len(flag.Data) > 0 && flag.Data[0] != 0 {
		copy(k.sum.Data, k.value.Data)
		return nil
	}
	c.Parallel(k.sum.Len(), 1<<14, k)
	return nil
}

// Range adds the elements lo..hi-1.
func (k *accumulateInto) Range(lo, hi int) {
	if k.sum.DType == graph.Float32 {
		dst := executor.Of[float32](k.sum)[lo:hi]
		simd.Add(dst, dst, executor.Of[float32](k.value)[lo:hi])
		return
	}
	dst, src := executor.Of[float64](k.sum)[lo:hi], executor.Of[float64](k.value)[lo:hi]
	for i, v := range src {
		dst[i] += v
	}
}
