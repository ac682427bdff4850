package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// nonMaxSuppressionRule: boxes [N, B, 4] and scores [N, classes, B] give the chosen boxes
// [?, 3]; how many is known only after the choice.
func nonMaxSuppressionRule(c *Ctx) {
	if !c.rankIn(0, 3) || !c.rankIn(1, 3) {
		return
	}
	c.Unify("the last dim of the boxes", dimAt(c.Shape(0), 2), symbolic.Const(4))
	c.OutTensor(0, graph.Int64, graph.Dims(symbolic.Unknown(), symbolic.Const(3)))
}
