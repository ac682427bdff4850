package cpu

import (
	"math/bits"

	"memopt/executor"
	"memopt/graph"
)

// What the kernels that move data read before they move.

// moveSize returns the bytes per element of the inputs named, which must be there and have one
// type, that of output 0.
func moveSize(p *executor.Prep, slots ...int) (int, error) {
	if err := moveNeeds(p, slots...); err != nil {
		return 0, err
	}
	d := p.DType(slots[0])
	for _, i := range slots[1:] {
		if p.DType(i) != d {
			return 0, p.Errorf("input %d has type %v and input %d has type %v; they must be equal", slots[0], d, i, p.DType(i))
		}
	}
	if p.Wants(0) && p.Out[0] != d {
		return 0, p.Errorf("output 0 has type %v, wanted %v", p.Out[0], d)
	}
	return moveBytes(p, d)
}

// moveNeeds returns an error where an input is left out.
func moveNeeds(p *executor.Prep, slots ...int) error {
	for _, i := range slots {
		if !p.Has(i) {
			return p.Errorf("input %d is left out", i)
		}
	}
	return nil
}

// moveBytes returns the bytes of an element that can be moved.
func moveBytes(p *executor.Prep, d graph.DType) (int, error) {
	switch n := d.Bits(); n {
	case 8, 16, 32, 64:
		return n / 8, nil
	}
	return 0, p.Unsupported("no kernel for elements of type %v", d)
}

// moveAxis counts an axis from the front.
func moveAxis(c *executor.Ctx, axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, c.Errorf("axis %d; wanted one of a shape of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// moveInts appends the elements of an integer input to a list.
func moveInts(c *executor.Ctx, i int, list []int) ([]int, error) {
	x := c.In(i)
	if x == nil {
		return list, c.Errorf("input %d is left out", i)
	}
	switch x.DType {
	case graph.Int64:
		for _, v := range executor.Of[int64](x) {
			list = append(list, int(v))
		}
	case graph.Int32:
		for _, v := range executor.Of[int32](x) {
			list = append(list, int(v))
		}
	default:
		return list, c.Errorf("input %d has type %v, wanted int32 or int64", i, x.DType)
	}
	return list, nil
}

// moveInt returns the one element of an integer input, or def where it is left out.
func moveInt(c *executor.Ctx, i, def int) (int, error) {
	x := c.In(i)
	if x == nil {
		return def, nil
	}
	if x.Len() != 1 {
		return 0, c.Errorf("input %d is %v, wanted one element", i, x)
	}
	switch x.DType {
	case graph.Int64:
		return int(executor.Of[int64](x)[0]), nil
	case graph.Int32:
		return int(executor.Of[int32](x)[0]), nil
	}
	return 0, c.Errorf("input %d has type %v, wanted int32 or int64", i, x.DType)
}

// moveList appends an attribute's integers to a list.
func moveList(list []int, attr []int64) []int {
	for _, v := range attr {
		list = append(list, int(v))
	}
	return list
}

// moveShape appends the dims that input i lists to a shape; none may be negative.
func moveShape(c *executor.Ctx, i int, shape []int) ([]int, error) {
	first := len(shape)
	shape, err := moveInts(c, i, shape)
	if err != nil {
		return shape, err
	}
	for _, d := range shape[first:] {
		if d < 0 {
			return shape, c.Errorf("input %d lists the dim %d", i, d)
		}
	}
	return shape, nil
}

// moveTimes multiplies two numbers that are not negative. Where the product leaves int it returns a
// number that no tensor's dim can be, which Ctx.Out refuses.
func moveTimes(a, b int) int {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo < 1<<62 {
		return int(lo)
	}
	return -1
}

// moveAxes turns axes that may be negative into flags: which axes of the rank are named.
// None may be named twice.
func moveAxes(c *executor.Ctx, axes []int, rank int, named []bool) ([]bool, error) {
	named = named[:0]
	for range rank {
		named = append(named, false)
	}
	for _, x := range axes {
		axis, err := moveAxis(c, int64(x), rank)
		if err != nil {
			return named, err
		}
		if named[axis] {
			return named, c.Errorf("axes %v name axis %d twice", axes, axis)
		}
		named[axis] = true
	}
	return named, nil
}

// moveSteps sets the strides of a shape in row-major order.
func moveSteps(steps, shape []int) []int {
	steps = append(steps[:0], shape...)
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		steps[i] = n
		n *= shape[i]
	}
	return steps
}

// moveSame reports whether output memory is an input's: the run is in place.
func moveSame(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
