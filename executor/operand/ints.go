package operand

import (
	"memopt/executor"
	"memopt/graph"
)

// ElementBytes returns the bytes of an element, or 0 if an element does not fill 1, 2, 4 or 8 of
// them.
func ElementBytes(d graph.DType) int {
	switch n := d.Bits(); n {
	case 8, 16, 32, 64:
		return n / 8
	}
	return 0
}

// Ints appends the elements of integer input i to a list. It is an error if the input is left out
// or of another type.
func Ints(c *executor.Ctx, i int, list []int) ([]int, error) {
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

// Int returns the one element of integer input i, or def if the input is left out.
func Int(c *executor.Ctx, i, def int) (int, error) {
	x := c.In(i)
	if x == nil {
		return def, nil
	}
	if x.Len() != 1 {
		return 0, c.Errorf("input %d is %v, wanted one element", i, x)
	}
	v, ok := first(x)
	if !ok {
		return 0, c.Errorf("input %d has type %v, wanted int32 or int64", i, x.DType)
	}
	return int(v), nil
}

// Scalar returns the one element of integer input i, which must be there. Errors call it by name.
func Scalar(c *executor.Ctx, i int, name string) (int64, error) {
	x := c.In(i)
	if x == nil || x.Len() != 1 {
		return 0, c.Errorf("input %d, %s, is %v, wanted one element", i, name, x)
	}
	v, ok := first(x)
	if !ok {
		return 0, c.Errorf("input %d, %s, has type %v, wanted int64", i, name, x.DType)
	}
	return v, nil
}

// first returns the first element of a tensor of int32 or int64; ok is false for other types.
func first(x *executor.Tensor) (v int64, ok bool) {
	switch x.DType {
	case graph.Int64:
		return executor.Of[int64](x)[0], true
	case graph.Int32:
		return int64(executor.Of[int32](x)[0]), true
	}
	return 0, false
}

// Shape appends the dims that input i lists to a shape. It is an error if one is negative.
func Shape(c *executor.Ctx, i int, shape []int) ([]int, error) {
	before := len(shape)
	shape, err := Ints(c, i, shape)
	if err != nil {
		return shape, err
	}
	for _, d := range shape[before:] {
		if d < 0 {
			return shape, c.Errorf("input %d lists the dim %d", i, d)
		}
	}
	return shape, nil
}

// List appends an attribute's integers to a list.
func List(list []int, attr []int64) []int {
	for _, v := range attr {
		list = append(list, int(v))
	}
	return list
}
