package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// padAndUnflattenRule puts the rows of input [n, d…] at indices [n] into a zero tensor whose first
// dims are the contents of input 2: [dims2…, d…].
func padAndUnflattenRule(c *Ctx) {
	if !c.rankFrom(0, 1) || !c.wantRank(1, 1) {
		return
	}
	c.Unify("the rows and the indices", dimAt(c.Shape(0), 0), dimAt(c.Shape(1), 0))
	lead, s := c.shapeOperand(2), c.Shape(0)
	if c.Failed() {
		return
	}
	if !lead.Ranked || !s.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	dims := append(append([]symbolic.Expr(nil), lead.Dims...), s.Dims[1:]...)
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// flattenAndUnpadRule takes the rows of input [d0, d1, d…] at indices [n] of its first two axes
// flattened: [n, d…]. Output 1 is (d0, d1), for the way back.
func flattenAndUnpadRule(c *Ctx) {
	if !c.rankFrom(0, 2) || !c.wantRank(1, 1) {
		return
	}
	s := c.Shape(0)
	out := graph.Shape{}
	if s.Ranked {
		out = graph.Dims(append([]symbolic.Expr{dimAt(c.Shape(1), 0)}, s.Dims[2:]...)...)
		c.SetContents(1, []symbolic.Expr{s.Dims[0], s.Dims[1]})
	}
	c.OutTensor(0, c.DType(0), out)
	c.OutTensor(1, graph.Int64, graph.Ints(2))
}
