package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// randomRule: a tensor of the shape that an attribute lists.
func randomRule(c *Ctx) {
	dims, given := c.IntList("shape")
	if !given {
		c.Errorf("lacks the attribute shape")
	}
	c.OutTensor(0, c.DTypeAttr("dtype", graph.Float32), graph.Ints(dims...))
}

// randomLikeRule: a tensor of the input's shape, of the type that an attribute may name.
func randomLikeRule(c *Ctx) {
	c.OutTensor(0, c.DTypeAttr("dtype", c.DType(0)), c.Shape(0))
}

// multinomialRule: sample_size classes drawn for each row of the input.
func multinomialRule(c *Ctx) {
	c.wantRank(0, 2)
	rows := symbolic.Unknown()
	if in := c.Shape(0); len(in.Dims) == 2 {
		rows = in.Dims[0]
	}
	n := c.Int("sample_size", 1)
	c.OutTensor(0, c.DTypeAttr("dtype", graph.Int32), graph.Dims(rows, symbolic.Const(n)))
}
