package operand

import "memopt/executor"

// Axis counts an axis of a shape from the front: negative ones count from the end. For example, -1
// of rank 3 is axis 2.
func Axis(c *executor.Ctx, axis int64, rank int) (int, error) {
	at, ok := fromFront(axis, rank)
	if !ok {
		return 0, c.Errorf("axis %d; wanted one of a shape of rank %d", axis, rank)
	}
	return at, nil
}

// DataAxis is Axis for axes of input 0, which the error names.
func DataAxis(c *executor.Ctx, axis int64, rank int) (int, error) {
	at, ok := fromFront(axis, rank)
	if !ok {
		return 0, c.Errorf("axis %d; input 0 has rank %d", axis, rank)
	}
	return at, nil
}

func fromFront(axis int64, rank int) (at int, ok bool) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, false
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), true
}

// Named sets, for each axis of a rank, whether a list names it, counting from either end. It is an
// error if one is named twice or does not exist.
func Named(c *executor.Ctx, axes []int, rank int, named []bool) ([]bool, error) {
	named = named[:0]
	for range rank {
		named = append(named, false)
	}
	for _, x := range axes {
		axis, err := Axis(c, int64(x), rank)
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
