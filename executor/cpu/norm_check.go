package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// normGrain is a number of items that do about 16k elements of work, for items of n elements.
func normGrain(n int) int { return max(1, (1<<14)/max(n, 1)) }

// normSameShape makes sure that two inputs have the same shape.
func normSameShape(c *executor.Ctx, i, j int) error {
	a, b := c.In(i), c.In(j)
	if !slices.Equal(a.Shape, b.Shape) {
		return c.Errorf("input %d is %v and input %d is %v; the shapes must be equal", i, a, j, b)
	}
	return nil
}

// normVector makes sure that an input that is given is a vector of n elements.
func normVector(c *executor.Ctx, i int, what string, n int) error {
	if t := c.In(i); t != nil && (t.Rank() != 1 || t.Shape[0] != n) {
		return c.Errorf("input %d, the %s, is %v, wanted a vector of %d elements", i, what, t, n)
	}
	return nil
}

// normData returns the elements of an input, or nil if it is left out.
func normData[T normElem](c *executor.Ctx, i int) []T {
	if t := c.In(i); t != nil {
		return executor.Cast[T](t.Data)
	}
	return nil
}

// normOut gives an output its shape and returns its elements, or nil if it is not wanted.
func normOut[T normElem](c *executor.Ctx, i int, shape ...int) []T {
	if t := c.Out(i, shape...); t != nil {
		return executor.Cast[T](t.Data)
	}
	return nil
}

// normOneType reports whether all operands that are given have the same type.
func normOneType(ds ...[]graph.DType) bool {
	first := graph.Undefined
	for _, list := range ds {
		for _, d := range list {
			switch {
			case d == graph.Undefined:
			case first == graph.Undefined:
				first = d
			case d != first:
				return false
			}
		}
	}
	return true
}
