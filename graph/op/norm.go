package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// normFLOPs is the convention for norms: about eight operations per element of the input (mean,
// variance, two for normalising, scale, shift, and their rounding up).
var normFLOPs = perElement(8, 0)

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

// normAxis reads the attribute axis, -1 where it is absent; ok is false for an unknown rank.
func (c *Ctx) normAxis() (axis int, ok bool) {
	s := c.Shape(0)
	if !s.Ranked || !c.rankFrom(0, 1) {
		return 0, false
	}
	return c.Axis("attribute axis", c.Int("axis", -1), len(s.Dims))
}

// stats returns the type of the statistics: of type stash_type, float where it is not said.
func (c *Ctx) stats() graph.Type {
	axis, ok := c.normAxis()
	t := graph.Tensor(c.DTypeAttr("stash_type", graph.Float32), graph.Shape{})
	if ok {
		t.Shape = statsShape(c.Shape(0), axis)
	}
	return t
}

// normOperand checks that scale or bias can be stretched to the normalised axes.
func (c *Ctx) normOperand(what string, i int) {
	if c.Has(i) {
		c.broadcastTo(what, c.Shape(i), c.Shape(0))
	}
}

// layerNormalizationRule: X, scale, bias give Y, mean and inverse deviation. In version 1, which is
// ONNX Runtime's own, Y has the type of the scale.
func layerNormalizationRule(c *Ctx) {
	c.normOperand("the scale", 1)
	c.normOperand("the bias", 2)
	stats := c.stats()
	if c.Failed() {
		return
	}
	y := c.In(0)
	if d := c.DType(1); c.Version == 1 && d != graph.Undefined {
		y = graph.Tensor(d, c.Shape(0))
	}
	c.Out(0, y)
	c.Out(1, stats)
	c.Out(2, stats)
}

// rmsNormalizationRule: Y has the type of the scale.
func rmsNormalizationRule(c *Ctx) {
	c.normOperand("the scale", 1)
	if c.normAxis(); !c.Failed() {
		c.OutTensor(0, c.DType(1), c.Shape(0))
	}
}

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

// lpNormalizationRule: Y like X.
func lpNormalizationRule(c *Ctx) {
	if p := c.Int("p", 2); p != 1 && p != 2 {
		c.Errorf("attribute p is %d, wanted 1 or 2", p)
		return
	}
	if c.normAxis(); !c.Failed() {
		c.Out(0, c.In(0))
	}
}

// meanVarianceNormalizationRule: Y like X; the axes are 0, 2 and 3 unless given.
func meanVarianceNormalizationRule(c *Ctx) {
	s := c.Shape(0)
	axes, given := c.IntList("axes")
	if !given {
		axes = []int64{0, 2, 3}
	}
	for _, a := range axes {
		if !s.Ranked {
			break
		}
		if _, ok := c.Axis("an axis", a, len(s.Dims)); !ok {
			return
		}
	}
	c.Out(0, c.In(0))
}
