package op

import (
	"memopt/symbolic"
)

// lrnRule: Y like X; size is the number of channels that one sum takes in.
func lrnRule(c *Ctx) {
	if size := c.NeedInt("size"); !c.Failed() && size < 1 {
		c.Errorf("attribute size is %d, wanted at least 1", size)
		return
	}
	if c.rankFrom(0, 2) {
		c.Out(0, c.In(0))
	}
}

func lrnFLOPs(c *Ctx) symbolic.Expr {
	return mul(symbolic.Const(2*c.Int("size", 1)+4), c.Shape(0).Elements())
}
