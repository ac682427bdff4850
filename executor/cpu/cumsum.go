package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// cumSumKernel adds up along an axis, which is input 1: y[i] = x[0]+…+x[i], without x[i] if
// exclusive, and from the end if reverse. Sums run in the order of the axis in the element type.
// https://onnx.ai/onnx/operators/onnx__CumSum.html
type cumSumKernel[T reduceElem] struct {
	operand.RunningSum

	x, y     []T
	n, inner int // [outer, n, inner]
	tiles    int
}

func newCumSum(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return makeCumSum[float32](p), nil
	case graph.Float64:
		return makeCumSum[float64](p), nil
	case graph.Int8:
		return makeCumSum[int8](p), nil
	case graph.Int16:
		return makeCumSum[int16](p), nil
	case graph.Int32:
		return makeCumSum[int32](p), nil
	case graph.Int64:
		return makeCumSum[int64](p), nil
	case graph.Uint8:
		return makeCumSum[uint8](p), nil
	case graph.Uint16:
		return makeCumSum[uint16](p), nil
	case graph.Uint32:
		return makeCumSum[uint32](p), nil
	case graph.Uint64:
		return makeCumSum[uint64](p), nil
	}
	return nil, unsupportedTypes(p)
}

func makeCumSum[T reduceElem](p *executor.Prep) executor.Kernel {
	return &cumSumKernel[T]{RunningSum: operand.NewRunningSum(p)}
}

// cumSumTile is how many neighbouring columns are added up together.
const cumSumTile = 1024

// Run adds up.
func (k *cumSumKernel[T]) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	k.x, k.y = executor.Cast[T](x.Data), executor.Cast[T](y.Data)
	k.n, k.inner = x.Shape[k.Axis], product(x.Shape[k.Axis+1:])
	k.tiles = (k.inner + cumSumTile - 1) / cumSumTile
	c.Parallel(product(x.Shape[:k.Axis])*k.tiles, normGrain(k.n*min(k.inner, cumSumTile)), k)
	return nil
}

// Range adds up tiles lo..hi-1.
func (k *cumSumKernel[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		outer, column := lo/k.tiles, lo%k.tiles*cumSumTile
		base := outer*k.n*k.inner + column
		if k.inner == 1 {
			k.row(k.y[base:base+k.n], k.x[base:base+k.n])
		} else {
			k.columns(base, min(k.inner-column, cumSumTile))
		}
	}
}

func (k *cumSumKernel[T]) row(y, x []T) {
	var s T
	for j := range x {
		i := j
		if k.Reverse {
			i = len(x) - 1 - j
		}
		before := s
		s += x[i]
		if y[i] = s; k.Exclusive {
			y[i] = before
		}
	}
}

func (k *cumSumKernel[T]) columns(base, n int) {
	step := k.inner
	if k.Reverse {
		base, step = base+(k.n-1)*k.inner, -k.inner
	}
	before := k.y[base : base+n]
	if k.Exclusive {
		clear(before)
	} else {
		copy(before, k.x[base:])
	}
	for j := 1; j < k.n; j++ {
		base += step
		y, x := k.y[base:base+n], k.x[base:base+n]
		if k.Exclusive {
			x = k.x[base-step:][:n]
		}
		for i := range y {
			y[i] = before[i] + x[i]
		}
		before = y
	}
}
