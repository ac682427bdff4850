package op

import (
	"memopt/symbolic"
)

// groupNormalizationRule: scale and bias have one element per group in version 18 and one per
// channel from 21 on.
func groupNormalizationRule(c *Ctx) {
	if !c.rankFrom(0, 2) || !c.wantRank(1, 1) || !c.wantRank(2, 1) {
		return
	}
	groups := c.NeedInt("num_groups")
	if c.Failed() {
		return
	}
	c.divided("the number of channels", dimAt(c.Shape(0), 1), groups)
	want := dimAt(c.Shape(0), 1)
	if c.Version < 21 {
		want = symbolic.Const(groups)
	}
	c.Unify("the length of the scale", dimAt(c.Shape(1), 0), want)
	c.Unify("the length of the bias", dimAt(c.Shape(2), 0), want)
	c.Out(0, c.In(0))
}

// instanceNormalizationRule: X [N, C, d…], scale [C], bias [C].
func instanceNormalizationRule(c *Ctx) {
	if !c.rankFrom(0, 3) || !c.wantRank(1, 1) || !c.wantRank(2, 1) {
		return
	}
	c.Unify("the length of the scale", dimAt(c.Shape(1), 0), dimAt(c.Shape(0), 1))
	c.Unify("the length of the bias", dimAt(c.Shape(2), 0), dimAt(c.Shape(0), 1))
	c.Out(0, c.In(0))
}
