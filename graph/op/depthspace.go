package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// depthToSpaceRule moves blocks of channels into the plane: C becomes C/b², H and W
// grow b-fold.
func depthToSpaceRule(c *Ctx) {
	if b, ok := c.blockSize(); ok {
		in := c.Shape(0).Dims
		c.OutTensor(0, c.DType(0), graph.Dims(in[0], c.split(in[1], b.Mul(b)), in[2].Mul(b), in[3].Mul(b)))
	}
}

// spaceToDepthRule is the inverse.
func spaceToDepthRule(c *Ctx) {
	if b, ok := c.blockSize(); ok {
		in := c.Shape(0).Dims
		c.OutTensor(0, c.DType(0), graph.Dims(in[0], in[1].Mul(b).Mul(b), c.split(in[2], b), c.split(in[3], b)))
	}
}

// blockSize reads the attribute; ok is false where the rule ends without it: the input's
// rank is not known, or something is wrong.
func (c *Ctx) blockSize() (symbolic.Expr, bool) {
	n := c.NeedInt("blocksize")
	if !c.Failed() && (n < 1 || n > 1<<30) {
		c.Errorf("attribute blocksize is %d", n)
	}
	if !c.wantRank(0, 4) || c.Failed() {
		return symbolic.Expr{}, false
	}
	if !c.Shape(0).Ranked {
		c.OutTensor(0, c.DType(0), graph.UnknownDims(4))
		return symbolic.Expr{}, false
	}
	return symbolic.Const(n), true
}

// split divides a dim by a number that must divide it.
func (c *Ctx) split(d, by symbolic.Expr) symbolic.Expr {
	n, ok := d.Const()
	if k, _ := by.Const(); ok && n%k != 0 {
		c.Errorf("a dim of %d is not a multiple of %d", n, k)
	}
	return divide(d, by)
}
