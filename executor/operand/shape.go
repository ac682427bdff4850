package operand

import (
	"math/bits"

	"memopt/executor"
)

// Product multiplies dims: the elements of a shape. Without dims it is 1.
func Product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// Times multiplies two numbers that are not negative. If the product overflows int it returns -1, a
// dim that Ctx.Out rejects.
func Times(a, b int) int {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo < 1<<62 {
		return int(lo)
	}
	return -1
}

// RowMajor sets steps to the distances between neighbours along each axis of a shape, the last axis
// being dense. For example, the shape [2, 3, 4] has the steps [12, 4, 1].
func RowMajor(steps, shape []int) []int {
	steps = append(steps[:0], shape...)
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		steps[i] = n
		n *= shape[i]
	}
	return steps
}

// Joined reports whether a shape is a followed by b.
func Joined(shape, a, b []int) bool {
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

// equalBut reports whether two shapes have the same dims outside an axis of a.
func equalBut(a, b []int, axis int) bool {
	if len(a) != len(b) {
		return false
	}
	for i, d := range a {
		if i != axis && d != b[i] {
			return false
		}
	}
	return true
}

// SameMemory reports whether output memory is an input's: the run is in place.
func SameMemory(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }

// Like rejects input i if its shape is not that of input j.
func Like(c *executor.Ctx, i, j int) error {
	if a, b := c.In(i), c.In(j); !Joined(a.Shape, b.Shape, nil) {
		return c.Errorf("input %d has shape %v, wanted %v as input %d", i, a.Shape, b.Shape, j)
	}
	return nil
}

// OutListed makes output 0 with the shape that input i lists. It returns nil if the output is not
// wanted. The shape is read into the buffer given, which is returned.
func OutListed(c *executor.Ctx, i int, buffer []int) (y *executor.Tensor, shape []int, err error) {
	if shape, err = Shape(c, i, buffer[:0]); err != nil {
		return nil, shape, err
	}
	return c.Out(0, shape...), shape, nil
}

// OutMatrix makes output 0 with the shape of input 0, a matrix. It returns nil if the output is not
// wanted.
func OutMatrix(c *executor.Ctx) (y *executor.Tensor, err error) {
	x := c.In(0)
	if x.Rank() != 2 {
		return nil, c.Errorf("input 0 has shape %v, wanted a matrix", x.Shape)
	}
	return c.Out(0, x.Shape...), nil
}

// outWithElements makes output 0, or returns nil if it is empty or not wanted.
func outWithElements(c *executor.Ctx, shape []int) *executor.Tensor {
	if y := c.Out(0, shape...); y != nil && len(y.Data) > 0 {
		return y
	}
	return nil
}
