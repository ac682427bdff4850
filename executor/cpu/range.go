package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// rangeKernel counts: element i is start + i*delta, as long as it has not come to limit.
// https://onnx.ai/onnx/operators/onnx__Range.html
type rangeKernel[T float32 | float64 | int16 | int32 | int64] struct {
	start, delta T
	y            []T
}

func newRange(p *executor.Prep) (executor.Kernel, error) {
	if _, err := moveSize(p, 0, 1, 2); err != nil {
		return nil, err
	}
	switch p.DType(0) {
	case graph.Float32:
		return &rangeKernel[float32]{}, nil
	case graph.Float64:
		return &rangeKernel[float64]{}, nil
	case graph.Int16:
		return &rangeKernel[int16]{}, nil
	case graph.Int32:
		return &rangeKernel[int32]{}, nil
	case graph.Int64:
		return &rangeKernel[int64]{}, nil
	case graph.Float16, graph.BFloat16:
		return widened(newRange)(p)
	}
	return nil, unsupportedTypes(p)
}

// Run fills the output.
func (k *rangeKernel[T]) Run(c *executor.Ctx) error {
	for i := range 3 {
		if c.In(i).Len() != 1 {
			return c.Errorf("input %d is %v, wanted one element", i, c.In(i))
		}
	}
	k.start, k.delta = rangeElement[T](c.In(0)), rangeElement[T](c.In(2))
	limit := rangeElement[T](c.In(1))
	if k.delta == 0 {
		return c.Errorf("input 2, the difference, is 0")
	}
	n, ok := rangeCount(k.start, limit, k.delta)
	if !ok {
		return c.Errorf("from %v to %v by %v is no range", k.start, limit, k.delta)
	}
	y := c.Out(0, n)
	if y == nil {
		return nil
	}
	k.y = executor.Cast[T](y.Data)
	c.Parallel(n, 1<<14, k)
	return nil
}

func rangeElement[T executor.Elem](x *executor.Tensor) T { return executor.Of[T](x)[0] }

// rangeCount is max(0, ceil((limit-start)/delta)).
func rangeCount[T float32 | float64 | int16 | int32 | int64](start, limit, delta T) (int, bool) {
	// Integers are counted as such, since float64 has not all int64. Their distance fits uint64.
	if isFraction := T(1)/2 != 0; !isFraction {
		a, b, d := int64(start), int64(limit), int64(delta)
		if a < b != (d > 0) || a == b {
			return 0, true
		}
		distance, step := uint64(b)-uint64(a), uint64(d)
		if d < 0 {
			distance, step = -distance, -step
		}
		n := (distance-1)/step + 1
		return int(n), n < 1<<48
	}
	n := math.Ceil((float64(limit) - float64(start)) / float64(delta))
	if math.IsNaN(n) || n > 1<<48 {
		return 0, false
	}
	return int(max(n, 0)), true
}

// Range computes the elements lo..hi-1.
func (k *rangeKernel[T]) Range(lo, hi int) {
	for i := range k.y[lo:hi] {
		step := T(lo+i) * k.delta
		k.y[lo+i] = k.start + step
	}
}
