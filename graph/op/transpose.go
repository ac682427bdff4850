package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// transposeRule permutes the axes; by default it reverses them.
func transposeRule(c *Ctx) {
	in := c.Shape(0)
	list, given := c.IntList("perm")
	if c.Failed() {
		return
	}
	if !in.Ranked {
		out := graph.Shape{}
		if given {
			out = graph.UnknownDims(len(list))
		}
		c.OutTensor(0, c.DType(0), out)
		return
	}
	perm, ok := c.permutation(list, given, len(in.Dims))
	if !ok {
		return
	}
	dims := make([]symbolic.Expr, len(perm))
	for i, axis := range perm {
		dims[i] = in.Dims[axis]
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
	c.foldTranspose(perm)
}

// permutation checks the attribute perm.
func (c *Ctx) permutation(list []int64, given bool, rank int) ([]int, bool) {
	perm := make([]int, rank)
	if !given {
		for i := range perm {
			perm[i] = rank - 1 - i
		}
		return perm, true
	}
	seen := make([]bool, rank)
	if len(list) != rank {
		c.Errorf("attribute perm is %v and the input has rank %d", list, rank)
		return nil, false
	}
	for i, axis := range list {
		if axis < 0 || axis >= int64(rank) || seen[axis] {
			c.Errorf("attribute perm is %v, which is not a permutation of 0 to %d", list, rank-1)
			return nil, false
		}
		perm[i], seen[axis] = int(axis), true
	}
	return perm, true
}

func (c *Ctx) foldTranspose(perm []int) {
	b, ok := c.block(0)
	if !ok {
		return
	}
	st, dims := strides(b.dims), make([]int, len(perm))
	for i, axis := range perm {
		dims[i] = b.dims[axis]
	}
	if out, ok := b.pick(dims, func(index []int) int {
		at := 0
		for i, x := range index {
			at += x * st[perm[i]]
		}
		return at
	}); ok {
		c.setBlock(0, out)
	}
}
