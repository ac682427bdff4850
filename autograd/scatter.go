package autograd

import "memopt/graph"

// placed describes, for the gradients of the scatter operators, how elements get to their places,
// and how they are read there.
type placed struct {
	gather  func(v Value) Value
	scatter func(data, updates Value, reduction string) Value
}

// scatterElementsRule: ScatterElements and, the same under its old name, Scatter.
func scatterElementsRule(c *Ctx) {
	axis, at := c.Node.Int("axis", 0), c.In(1)
	c.need(scatterFirst)
	c.scatterGrad(placed{
		gather: func(v Value) Value { return c.Op("GatherElements", Attrs{A("axis", axis)}, v, at) },
		scatter: func(data, updates Value, reduction string) Value {
			return c.Op("ScatterElements", reducing(reduction, A("axis", axis)), data, at, updates)
		},
	})
}

// scatterNDRule: the same with slices in place of elements.
func scatterNDRule(c *Ctx) {
	at := c.In(1)
	c.scatterGrad(placed{
		gather: func(v Value) Value { return c.Op("GatherND", nil, v, at) },
		scatter: func(data, updates Value, reduction string) Value {
			return c.Op("ScatterND", reducing(reduction), data, at, updates)
		},
	})
}

// reducing adds the attribute reduction to attributes where it is not the default.
func reducing(reduction string, attrs ...graph.Attr) Attrs {
	if reduction != "none" {
		attrs = append(attrs, A("reduction", reduction))
	}
	return attrs
}

// scatterGrad: the updates get the gradients at their places; the data get the gradient, where
// updates replaced elements with zeros there. Stashes the indices, and for reductions other than
// "none" and "add" the operands.
func (c *Ctx) scatterGrad(p placed) {
	g := c.Grad(0)
	switch r := c.Node.Str("reduction", "none"); r {
	case "none":
		if c.Wants(2) {
			c.Set(2, p.gather(g))
		}
		if c.Wants(0) {
			c.Set(0, p.scatter(g, c.zerosOf(c.ShapeOf(c.In(2)), g), "none"))
		}
	case "add":
		if c.Wants(2) {
			c.Set(2, p.gather(g))
		}
		c.Set(0, g)
	case "mul":
		if c.Wants(2) {
			c.Unsupported("reduction mul divides by the updates, which may be 0")
		}
		factors := p.scatter(c.filled(1, c.ShapeOf(c.In(0)), g), c.In(2), "mul")
		c.Set(0, c.Mul(g, factors))
	case "max", "min":
		c.scatterExtremum(p)
	default:
		c.Errorf("attribute reduction is %q", r)
	}
}

// scatterExtremum: those that equal the result share its gradient evenly.
func (c *Ctx) scatterExtremum(p placed) {
	c.need(scatterReduce)
	g, x, u, y := c.Grad(0), c.In(0), c.In(2), c.Out(0)
	d := c.DType(g)
	wins := c.Cast(c.Op("Equal", nil, u, p.gather(y)), d)
	stays := c.Cast(c.Op("Equal", nil, x, y), d)
	share := c.Div(g, p.scatter(stays, wins, "add"))
	if c.Wants(2) {
		c.Set(2, c.Mul(wins, p.gather(share)))
	}
	if c.Wants(0) {
		c.Set(0, c.Mul(stays, share))
	}
}
