package operand

import "memopt/executor"

// Index says how tuples of indices address data: tuple i has an index per element of Dims and means
// the offset that is the sum of index*step.
type Index struct {
	Count       int   // tuples
	Dims, Steps []int // per element of a tuple: length of its axis, and step in the data
}

// Single sets the index to count tuples of one index into an axis of length n.
func (x *Index) Single(count, n, step int) {
	x.Count = count
	x.Dims, x.Steps = append(x.Dims[:0], n), append(x.Steps[:0], step)
}

// Tuples sets the index to the tuples in the last axis of input slot, which address the axes of
// data of a shape that come after the first batch ones: those are shared by the data and the
// indices. It returns how many axes they address.
func (x *Index) Tuples(c *executor.Ctx, slot int, shape []int, batch int64) (depth int, err error) {
	at := c.In(slot)
	if at == nil || at.Rank() == 0 || len(shape) == 0 {
		return 0, c.Errorf("input %d is %v for data of shape %v, wanted rank 1 or more of both", slot, at, shape)
	}
	if batch < 0 || batch >= int64(min(at.Rank(), len(shape))) {
		return 0, c.Errorf("attribute batch_dims is %d; input %d has shape %v and the data %v",
			batch, slot, at.Shape, shape)
	}
	b, lead := int(batch), at.Shape[:at.Rank()-1]
	depth = at.Shape[at.Rank()-1]
	if depth > len(shape)-b {
		return 0, c.Errorf("input %d has shape %v, whose last dim addresses more axes than the data has: %v",
			slot, at.Shape, shape[b:])
	}
	if !Joined(lead[:b], shape[:b], nil) {
		return 0, c.Errorf("input %d has shape %v and the data %v; the first %d dims must be equal",
			slot, at.Shape, shape, b)
	}
	x.Count, x.Dims, x.Steps = Product(lead), append(x.Dims[:0], shape[b:b+depth]...), x.Steps[:0]
	for j := range depth {
		x.Steps = append(x.Steps, Product(shape[b+j+1:]))
	}
	return depth, nil
}

// TupleCount returns the number of tuples in indices of a shape, 0 if the shape is empty.
func TupleCount(shape []int) int {
	if len(shape) == 0 {
		return 0
	}
	return Product(shape[:len(shape)-1])
}

// CheckSlices refuses input slot unless it holds one slice of the data for each tuple in input 1:
// the tuples address depth axes of data of a shape after the batch ones. It returns the shape of a
// slice.
func CheckSlices(c *executor.Ctx, slot int, shape []int, batch int64, depth int) (rest []int, err error) {
	at, u := c.In(1), c.In(slot)
	lead, rest := at.Shape[:at.Rank()-1], shape[int(batch)+depth:]
	if !Joined(u.Shape, lead, rest) {
		return nil, c.Errorf("input %d has shape %v, wanted %v and %v", slot, u.Shape, lead, rest)
	}
	return rest, nil
}
