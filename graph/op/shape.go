package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// shapeRule: the dims from start to end, as a list; both are clamped into the rank.
func shapeRule(c *Ctx) {
	in := c.Shape(0)
	if !in.Ranked {
		c.Int("start", 0)
		c.Int("end", 0)
		c.OutTensor(0, graph.Int64, graph.UnknownDims(1))
		return
	}
	rank := len(in.Dims)
	start, end := 0, rank
	if c.Version >= 15 {
		start = clampAxis(c.Int("start", 0), rank)
		end = clampAxis(c.Int("end", int64(rank)), rank)
	}
	dims := in.Dims[start:max(start, end)]
	c.OutTensor(0, graph.Int64, graph.Ints(int64(len(dims))))
	c.setBlock(0, block{elems: dims, den: 1})
}

func clampAxis(axis int64, rank int) int {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(min(max(axis, 0), int64(rank)))
}

// sizeRule: the number of elements, as a scalar.
func sizeRule(c *Ctx) {
	c.OutTensor(0, graph.Int64, graph.Dims())
	c.setBlock(0, block{elems: []symbolic.Expr{c.Shape(0).Elements()}, den: 1})
}

// identityRule: any value, also a sequence or an optional.
func identityRule(c *Ctx) {
	c.Out(0, c.In(0))
	c.passContents()
}
