package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// ranks is the number of ranks that the attribute says.
func (c *Ctx) ranks() int64 {
	n := c.NeedInt("ranks")
	if n < 1 && !c.Failed() {
		c.Errorf("ranks is %d, wanted at least 1", n)
	}
	return n
}

// rankSumRule: a buffer, and of each rank whether it adds to the sum. pieces says that each rank gets one
// of the sum's.
func rankSumRule(pieces bool) func(*Ctx) {
	return func(c *Ctx) {
		ranks := c.ranks()
		if c.Failed() || !c.wantRank(1, 1) {
			return
		}
		if s := c.Shape(1); s.Ranked {
			c.Unify("the length of input 1 and the number of ranks", s.Dims[0], symbolic.Const(ranks))
		}
		if n, known := c.Shape(0).Elements().Const(); pieces && known && n%ranks != 0 {
			c.Errorf("input 0 has %d elements, which do not fall into %d pieces of equal length", n, ranks)
		}
		c.Out(0, c.In(0))
	}
}

// allGatherRule: a piece of each rank, one after the other.
func allGatherRule(c *Ctx) {
	ranks := c.ranks()
	if c.Failed() || !c.wantRank(0, 1) {
		return
	}
	length := symbolic.Unknown()
	if s := c.Shape(0); s.Ranked {
		length = s.Dims[0].Mul(symbolic.Const(ranks))
	}
	c.OutTensor(0, c.DType(0), graph.Shape{Ranked: true, Dims: []symbolic.Expr{length}})
}

// rankPieceRule: the elements of all inputs fall into a piece for each rank, the last ones with zeros at
// the end.
func rankPieceRule(c *Ctx) {
	ranks := c.ranks()
	if c.Failed() {
		return
	}
	total, known := int64(0), true
	for i := range c.Node.Inputs {
		n, ok := c.Shape(i).Elements().Const()
		total, known = total+n, known && ok
	}
	length := symbolic.Unknown()
	if known {
		length = symbolic.Const((total + ranks - 1) / ranks)
	}
	c.OutTensor(0, c.DType(0), graph.Shape{Ranked: true, Dims: []symbolic.Expr{length}})
}

// unpackRule: as many elements of a vector as input 1 has, in its shape.
func unpackRule(c *Ctx) {
	offset := c.NeedInt("offset")
	if c.Failed() || !c.wantRank(0, 1) {
		return
	}
	n, known := c.Shape(1).Elements().Const()
	have, bound := c.Shape(0).Elements().Const()
	if offset < 0 || known && bound && offset+n > have {
		c.Errorf("%d elements from number %d on, of %d", n, offset, have)
		return
	}
	c.Out(0, c.In(1))
}

// waitRule: the output is the buffer of the operation's Start.
func waitRule(c *Ctx) { c.Out(0, c.In(0)) }
