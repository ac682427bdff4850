package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// rangeKernel counts: element i is start + i*delta, until limit is reached.
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
	if err := operand.CheckSpan(c); err != nil {
		return err
	}
	k.start, k.delta = rangeElement[T](c.In(0)), rangeElement[T](c.In(2))
	limit := rangeElement[T](c.In(1))
	if k.delta == 0 {
		return c.Errorf("input 2, the difference, is 0")
	}
	n, ok := rangeCount(k.start, limit, k.delta)
	if !ok {
		return c.Errorf("from %v to %v by %v is not a range", k.start, limit, k.delta)
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
	if isFraction := T(1)/2 != 0; isFraction {
		return operand.FloatSpan(float64(start), float64(limit), float64(delta))
	}
	return operand.IntSpan(int64(start), int64(limit), int64(delta))
}

// Range computes the elements lo..hi-1.
func (k *rangeKernel[T]) Range(lo, hi int) {
	for i := range k.y[lo:hi] {
		step := T(lo+i) * k.delta
		k.y[lo+i] = k.start + step
	}
}
