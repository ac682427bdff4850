package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// atenViewBackward is the gradient of diagonal and unfold: each element of dY is added to the element of dX that it
// is a copy of; other elements are 0. Inputs are dY, the shape of X and those of the view.
type atenViewBackward[T convFloat] struct {
	view  operand.StridedView
	shape []int
}

func newATenViewBackward(of func(*operand.StridedView, *executor.Ctx, []int, int) error,
) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		switch p.DType(0) {
		case graph.Float32:
			return &atenViewBackward[float32]{view: operand.StridedView{Of: of}}, nil
		case graph.Float64:
			return &atenViewBackward[float64]{view: operand.StridedView{Of: of}}, nil
		}
		return nil, unsupportedTypes(p)
	})
}

// Run adds up.
func (k *atenViewBackward[T]) Run(c *executor.Ctx) (err error) {
	if k.shape, err = operand.Shape(c, 1, k.shape[:0]); err != nil {
		return err
	}
	v := &k.view
	if err := v.Of(v, c, k.shape, 2); err != nil {
		return err
	}
	dy := c.In(0)
	if !sameInts(dy.Shape, v.Shape) {
		return c.Errorf("input 0 has shape %v, wanted %v", dy.Shape, append([]int(nil), v.Shape...))
	}
	dx := c.Out(0, k.shape...)
	if dx == nil {
		return nil
	}
	to, g := executor.Of[T](dx), executor.Of[T](dy)
	clear(to)
	for i := range g {
		at, rest := v.First, i
		for axis := len(v.Shape) - 1; axis >= 0; axis-- {
			at += rest % v.Shape[axis] * v.Step[axis]
			rest /= v.Shape[axis]
		}
		to[at] += g[i]
	}
	return nil
}
