package autograd

import (
	"memopt/graph"
	"memopt/graph/op"
)

// softmaxAxes returns the axes over which a softmax sums: one, or before version 13 all from axis
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

// noteCleaned notes that a Where replaces the NaNs of a value, as in
//
//	Where(IsNaN(y), 0, y)
//
// by which exporters write the attention of queries that may attend to no key: a softmax of -∞
// alone is NaN. Casts and copies in between have the same NaNs.
func (c *Ctx) noteCleaned() {
	v := c.Node.Input(2)
	test := c.defOf(c.Node.Input(0))
	if c.cut != nil || test == nil || test.Kind != op.IsNaN || test.Input(0) != v {
		return
	}
	clean := c.Out(0)
	if x, known := c.j.fixedNumber(c.Node.Input(1)); !known || x != 0 {
		clean = c.Where(c.In(0), c.Scalar(0, v), v)
	}
	if c.j.cleaned == nil {
		c.j.cleaned = map[Value]Value{}
	}
	for {
		c.j.cleaned[v] = clean
		n := c.defOf(v)
		if n == nil || !op.Of(n.Kind).Has(op.CastRole) && !op.Of(n.Kind).Has(op.IdentityRole) {
			return
		}
		v = n.Input(0)
	}
}

// defOf is the node that makes a value; nil: no node does.
func (c *Ctx) defOf(v Value) *graph.Node {
	if def := c.j.g.Values[v].Def; def != graph.NoNode {
		return c.j.g.Nodes[def]
	}
	return nil
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
