package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// atenExtreme finds the largest or smallest elements of X along an axis, or of all of X, and where the first of them
// is; NaN wins. Inputs besides X are the axis, left out for all axes, and whether it stays as a dim of 1.
// https://docs.pytorch.org/docs/stable/generated/torch.max.html
type atenExtreme[T reduceElem] struct {
	least     bool
	value, at int // outputs, -1 for none
	shape     []int
	x, y      []T
	index     []int64
	n, inner  int // X is [outer, n, inner]
}

// newATenExtreme makes max and min of all elements, max.dim, min.dim and argmax.
func newATenExtreme(least bool, value, at int) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		switch p.DType(0) {
		case graph.Float32:
			return &atenExtreme[float32]{least: least, value: value, at: at}, nil
		case graph.Float64:
			return &atenExtreme[float64]{least: least, value: value, at: at}, nil
		case graph.Int64:
			return &atenExtreme[int64]{least: least, value: value, at: at}, nil
		case graph.Int32:
			return &atenExtreme[int32]{least: least, value: value, at: at}, nil
		case graph.Uint8:
			return &atenExtreme[uint8]{least: least, value: value, at: at}, nil
		}
		return nil, unsupportedTypes(p)
	})
}

// Run splits the shape and searches.
func (k *atenExtreme[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	outer, err := k.split(c, x.Shape)
	if err != nil {
		return err
	}
	if k.n == 0 && outer*k.inner > 0 {
		return c.Errorf("X has shape %v, which has no elements there", x.Shape)
	}
	k.x, k.y, k.index = executor.Of[T](x), nil, nil
	if k.value >= 0 {
		if y := c.Out(k.value, k.shape...); y != nil {
			k.y = executor.Of[T](y)
		}
	}
	if k.at >= 0 {
		if index := c.Out(k.at, k.shape...); index != nil {
			k.index = executor.Of[int64](index)
		}
	}
	c.Parallel(outer*k.inner, 1+1<<14/max(1, k.n), k)
	return nil
}

// split reads axis and flag; it returns the elements before the axis.
func (k *atenExtreme[T]) split(c *executor.Ctx, x []int) (outer int, err error) {
	keep := moveFlag(c.In(2))
	k.shape = k.shape[:0]
	if c.In(1) == nil || len(x) == 0 {
		k.n, k.inner = product(x), 1
		for range x {
			if keep {
				k.shape = append(k.shape, 1)
			}
		}
		return 1, nil
	}
	axis, err := atenAxis(c, 1, len(x))
	if err != nil {
		return 0, err
	}
	k.n, k.inner = x[axis], product(x[axis+1:])
	k.shape = append(k.shape, x[:axis]...)
	if keep {
		k.shape = append(k.shape, 1)
	}
	k.shape = append(k.shape, x[axis+1:]...)
	return product(x[:axis]), nil
}

// atenAxis reads an axis of a tensor of a rank.
func atenAxis(c *executor.Ctx, slot, rank int) (int, error) {
	axis, err := operand.Int(c, slot, 0)
	if err != nil {
		return 0, err
	}
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return 0, c.Errorf("input %d, an axis, is outside the rank %d", slot, rank)
	}
	return axis, nil
}

// Range searches for the results lo..hi-1.
func (k *atenExtreme[T]) Range(lo, hi int) {
	for r := lo; r < hi; r++ {
		base := r/k.inner*k.n*k.inner + r%k.inner
		best, at := k.x[base], 0
		for i := 1; i < k.n && best == best; i++ {
			v := k.x[base+i*k.inner]
			if v != v || !k.least && v > best || k.least && v < best {
				best, at = v, i
			}
		}
		if k.y != nil {
			k.y[r] = best
		}
		if k.index != nil {
			k.index[r] = int64(at)
		}
	}
}

// atenSelected is value_selecting_reduction_backward: each element of dY goes to the element that the reduction
// chose. Inputs are dY, the axis, the indices, the shape of X, and whether the axis stayed.
type atenSelected[T convFloat] struct {
	shape []int
}

func newATenSelected[T convFloat]() executor.Kernel { return &atenSelected[T]{} }

// Run scatters.
func (k *atenSelected[T]) Run(c *executor.Ctx) (err error) {
	if k.shape, err = operand.Shape(c, 3, k.shape[:0]); err != nil {
		return err
	}
	dy, index := c.In(0), c.In(2)
	if index == nil || index.DType != graph.Int64 || index.Len() != dy.Len() {
		return c.Errorf("input 2, the indices, is %v, wanted %d of int64", index, dy.Len())
	}
	n, inner, outer := 1, 1, 1
	if len(k.shape) > 0 {
		axis, err := atenAxis(c, 1, len(k.shape))
		if err != nil {
			return err
		}
		n, inner, outer = k.shape[axis], product(k.shape[axis+1:]), product(k.shape[:axis])
	}
	if outer*inner != dy.Len() {
		return c.Errorf("input 0 has %d elements; a reduction of %v has %d", dy.Len(), append([]int(nil), k.shape...),
			outer*inner)
	}
	dx := c.Out(0, k.shape...)
	if dx == nil {
		return nil
	}
	to := executor.Of[T](dx)
	clear(to)
	g, at := executor.Of[T](dy), executor.Of[int64](index)
	for r, v := range g {
		if at[r] < 0 || at[r] >= int64(n) {
			return c.Errorf("input 2 has index %d at element %d; the axis has %d elements", at[r], r, n)
		}
		to[(r/inner*n+int(at[r]))*inner+r%inner] = v
	}
	return nil
}
