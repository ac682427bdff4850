package autograd

import (
	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// softmaxAxes returns the axes that a softmax sums over: one, or before version 13 all from axis
// on.
func (c *Ctx) softmaxAxes() []int64 {
	rank := c.Rank(c.In(0))
	if c.Version >= 13 {
		return []int64{c.Axis(c.Node.Int("axis", -1), rank)}
	}
	axis := c.Node.Int("axis", 1)
	if axis == int64(rank) {
		return nil // every element is a row of its own
	}
	return axesFrom(c.Axis(axis, rank), int64(rank))
}

// cleaning replaces the NaNs of a value.
var cleaning = pattern.Parse(`Where(IsNaN(y), other, y)`)

// noteCleaned notes that a Where replaces the NaNs of a value. So exporters write the attention of
// queries that may attend to no key: a softmax of -∞ alone is NaN. Casts and copies in between have
// the same NaNs.
func (c *Ctx) noteCleaned() {
	m := cleaning.Find(c.j.g, c.Node, c.j.fixedNumber)
	if c.cut != nil || m == nil {
		return
	}
	v, clean := m.Named("y"), c.Out(0)
	in, known := c.Dims(v)
	out, known2 := c.Dims(clean) // more than y's where other has more
	sameRank := known && known2 && len(in) == len(out)
	if x, number := c.j.fixedNumber(m.Named("other")); !number || x != 0 || !sameRank {
		clean = c.Where(c.In(0), c.Scalar(0, v), v)
	}
	if c.j.cleaned == nil {
		c.j.cleaned = map[Value]Value{}
	}
	for {
		c.j.cleaned[v] = clean
		def := c.j.g.Values[v].Def
		if def == graph.NoNode {
			return
		}
		n := c.j.g.Nodes[def]
		if !op.Of(n.Kind).Has(op.CastRole) && !op.Of(n.Kind).Has(op.IdentityRole) {
			return
		}
		v = n.Input(0)
	}
}

// softmaxOut is the softmax's output, with zeros for rows of NaNs that the forward half replaces: no
// gradient passes through them, but a product with NaN is NaN.
func (c *Ctx) softmaxOut() Value {
	y := c.Out(0)
	if clean, replaced := c.j.cleaned[y]; replaced {
		return c.Cast(clean, c.DType(y))
	}
	return y
}

// softmaxRule: dX = Y·(dY - Σ dY·Y) over the softmax's axes. Stashes the output, or the one without
// NaNs that the forward half makes of it.
func softmaxRule(c *Ctx) {
	axes := c.softmaxAxes()
	if len(axes) == 0 {
		c.Set(0, c.Zeros(c.In(0)))
		return
	}
	g, y := c.Grad(0), c.softmaxOut()
	c.Set(0, c.Mul(c.Sub(g, c.ReduceSum(c.Mul(g, y), true, axes...)), y))
}

// logSoftmaxRule: dX = dY - exp(Y)·Σ dY over the softmax's axes. Stashes the output.
func logSoftmaxRule(c *Ctx) {
	axes := c.softmaxAxes()
	if len(axes) == 0 {
		c.Set(0, c.Zeros(c.In(0)))
		return
	}
	g, y := c.Grad(0), c.Out(0)
	sum := c.ReduceSum(g, true, axes...)
	c.Set(0, c.Sub(g, c.Mul(c.Op("Exp", nil, y), sum)))
}
