package cuda

import (
	"math/bits"

	"memopt/executor"
	"memopt/graph"
)

// What kernels that move data read on the host before they move.

// elementBytes returns the bytes of an element, 0 where kernels cannot move it.
func elementBytes(d graph.DType) int {
	switch n := d.Bits(); n {
	case 8, 16, 32, 64:
		return n / 8
	}
	return 0
}

// lengths returns the product of dims.
func lengths(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// rowMajor sets the strides of a shape.
func rowMajor(steps, shape []int) []int {
	steps = append(steps[:0], shape...)
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		steps[i] = n
		n *= shape[i]
	}
	return steps
}

// dimTimes multiplies two numbers that are not negative. Where the product leaves int it returns -1, which Ctx.Out refuses.
func dimTimes(a, b int) int {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo < 1<<62 {
		return int(lo)
	}
	return -1
}

// hostInts appends the elements of an integer input that is in host memory.
func hostInts(c *executor.Ctx, i int, list []int) ([]int, error) {
	x := c.In(i)
	switch {
	case x == nil:
		return list, c.Errorf("input %d is left out", i)
	case x.DType == graph.Int64:
		for _, v := range executor.Of[int64](x) {
			list = append(list, int(v))
		}
	case x.DType == graph.Int32:
		for _, v := range executor.Of[int32](x) {
			list = append(list, int(v))
		}
	default:
		return list, c.Errorf("input %d has type %v, wanted int32 or int64", i, x.DType)
	}
	return list, nil
}

// hostShape appends the dims that an input in host memory lists.
func hostShape(c *executor.Ctx, i int, shape []int) ([]int, error) {
	first := len(shape)
	shape, err := hostInts(c, i, shape)
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

// attrInts appends an attribute's integers.
func attrInts(list []int, attr []int64) []int {
	for _, v := range attr {
		list = append(list, int(v))
	}
	return list
}

// axisOf counts an axis from the front.
func axisOf(c *executor.Ctx, axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, c.Errorf("axis %d; wanted one of a shape of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// frontAxes turns axes that may be negative into such that are not. None may be named twice.
func frontAxes(c *executor.Ctx, axes []int, rank int) error {
	for i, x := range axes {
		axis, err := axisOf(c, int64(x), rank)
		if err != nil {
			return err
		}
		axes[i] = axis
		for _, before := range axes[:i] { // a handful
			if before == axis {
				return c.Errorf("axes %v name axis %d twice", axes, axis)
			}
		}
	}
	return nil
}

// joined reports whether a shape is a followed by b.
func joined(shape, a, b []int) bool {
	if len(shape) != len(a)+len(b) {
		return false
	}
	for i, d := range shape {
		if i < len(a) && d != a[i] || i >= len(a) && d != b[i-len(a)] {
			return false
		}
	}
	return true
}

// sameMemory reports whether output memory is an input's: the run is in place.
func sameMemory(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
