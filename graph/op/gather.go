package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// gatherRule replaces one axis of the data by the shape of the indices.
func gatherRule(c *Ctx) {
	c.want(1, indices)
	data, idx := c.Shape(0), c.Shape(1)
	axis := c.Int("axis", 0)
	if c.Failed() {
		return
	}
	if !data.Ranked || !idx.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	at, ok := c.Axis("attribute axis", axis, len(data.Dims))
	if !ok {
		return
	}
	dims := make([]symbolic.Expr, 0, len(data.Dims)+len(idx.Dims))
	dims = append(append(append(dims, data.Dims[:at]...), idx.Dims...), data.Dims[at+1:]...)
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
	c.foldGather(at)
}

// foldGather picks elements whose indices are numbers.
func (c *Ctx) foldGather(at int) {
	data, ok := c.block(0)
	if !ok {
		return
	}
	idx, ok := c.numberBlock(1, data.dims[at])
	if !ok {
		return
	}
	idxDims, _ := smallDims(c.Shape(1), len(idx))
	dims := append(append(append([]int{}, data.dims[:at]...), idxDims...), data.dims[at+1:]...)
	st, idxSt := strides(data.dims), strides(idxDims)
	if out, ok := data.pick(dims, func(index []int) int {
		from, k := 0, 0
		for i, x := range index {
			switch {
			case i < at:
				from += x * st[i]
			case i < at+len(idxDims):
				k += x * idxSt[i-at]
			default:
				from += x * st[i-len(idxDims)+1]
			}
		}
		return from + idx[k]*st[at]
	}); ok {
		c.setBlock(0, out)
	}
}

// numberBlock returns the contents of input i as indices into an axis of length n, negative
// ones counted from its end. An index outside is an error.
func (c *Ctx) numberBlock(i, n int) ([]int, bool) {
	if _, ok := c.block(i); !ok {
		return nil, false
	}
	ints, ok := c.Ints(i)
	if !ok {
		return nil, false
	}
	out := make([]int, len(ints))
	for k, x := range ints {
		if x < -int64(n) || x >= int64(n) {
			c.Errorf("index %d is outside an axis of length %d", x, n)
			return nil, false
		}
		if x < 0 {
			x += int64(n)
		}
		out[k] = int(x)
	}
	return out, true
}

// gatherElementsRule: the result has the shape of the indices.
func gatherElementsRule(c *Ctx) {
	c.want(1, indices)
	data, idx := c.Shape(0), c.Shape(1)
	if data.Ranked {
		c.Axis("attribute axis", c.Int("axis", 0), len(data.Dims))
		c.wantRank(1, len(data.Dims))
	}
	c.OutTensor(0, c.DType(0), idx)
}

// gatherNDRule: the last axis of the indices addresses the data's axes after the batch dims.
func gatherNDRule(c *Ctx) {
	c.want(1, indices)
	data, idx := c.Shape(0), c.Shape(1)
	batch := c.Int("batch_dims", 0)
	if c.Failed() {
		return
	}
	if idx.Ranked && len(idx.Dims) == 0 || data.Ranked && len(data.Dims) == 0 {
		c.Errorf("inputs have shapes %v and %v, wanted rank 1 or more", data, idx)
		return
	}
	if !data.Ranked || !idx.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	q, r := len(idx.Dims), len(data.Dims)
	if batch < 0 || batch >= int64(min(q, r)) {
		c.Errorf("attribute batch_dims is %d; it must be in [0, %d)", batch, min(q, r))
		return
	}
	c.gatherND(data, idx, int(batch))
}

func (c *Ctx) gatherND(data, idx graph.Shape, batch int) {
	depth, ok := idx.Dims[len(idx.Dims)-1].Const()
	if !ok {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	if depth < 1 || depth > int64(len(data.Dims)-batch) {
		c.Errorf("the last dim of the indices is %d; for data of shape %v and %d batch dims it must be in [1, %d]",
			depth, data, batch, len(data.Dims)-batch)
		return
	}
	for i := range batch {
		c.Unify("batch dims", data.Dims[i], idx.Dims[i])
	}
	dims := append([]symbolic.Expr{}, idx.Dims[:len(idx.Dims)-1]...)
	c.OutTensor(0, c.DType(0), graph.Dims(append(dims, data.Dims[batch+int(depth):]...)...))
}
