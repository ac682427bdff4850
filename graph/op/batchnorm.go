package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// batchNormalizationRule: X [N, C, d…] and four vectors [C] give Y like X and
//
//	versions 1 to 9   mean, var, saved_mean, saved_var, where the node asks for them
//	from 14 on        running_mean and running_var, in training mode only
func batchNormalizationRule(c *Ctx) {
	if !c.rankFrom(0, 1) {
		return
	}
	channels := dimAt(c.Shape(0), 1)
	perPlace := c.Version < 9 && c.Int("spatial", 1) == 0
	for i := 1; i < 5 && !perPlace; i++ {
		if !c.wantRank(i, 1) {
			return
		}
		channels = c.Unify("the number of channels", channels, dimAt(c.Shape(i), 0))
	}
	c.Out(0, c.In(0))
	if c.Version >= 14 {
		if c.Int("training_mode", 0) == 0 && (c.Node.Output(1) != graph.NoValue || c.Node.Output(2) != graph.NoValue) {
			c.Errorf("has running statistics as outputs, which it gives only with training_mode = 1")
			return
		}
		c.OutTensor(1, c.DType(3), graph.Dims(channels))
		c.OutTensor(2, c.DType(4), graph.Dims(channels))
		return
	}
	for k := 1; k < 5; k++ {
		t := graph.Tensor(c.DType(0), graph.Dims(channels))
		if perPlace {
			t.Shape = c.Shape(1)
		}
		c.Out(k, t)
	}
}

// statsShape is the shape of a norm's statistics: the dims before the axis, then ones.
func statsShape(s graph.Shape, axis int) graph.Shape {
	if !s.Ranked {
		return s
	}
	out := graph.Dims(append([]symbolic.Expr(nil), s.Dims...)...)
	for i := axis; i < len(out.Dims); i++ {
		out.Dims[i] = symbolic.Const(1)
	}
	return out
}
