package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// like returns the rule of an operator whose outputs have the types of inputs: output k that of
// input from[k]. A negative entry leaves the output alone.
func like(from ...int) func(*Ctx) {
	return func(c *Ctx) {
		for k, i := range from {
			if i >= 0 {
				c.Out(k, c.In(i))
			}
		}
	}
}

// rankIn reports whether input i has one of the given ranks, calling Errorf if not. A shape of
// unknown rank may have any.
func (c *Ctx) rankIn(i int, ranks ...int) bool {
	s := c.Shape(i)
	if !s.Ranked || slices.Contains(ranks, len(s.Dims)) {
		return true
	}
	c.Errorf("input %d has shape %v, wanted a rank in %v", i, s, ranks)
	return false
}

// rankFrom is rankIn for a lower bound.
func (c *Ctx) rankFrom(i, least int) bool {
	if s := c.Shape(i); s.Ranked && len(s.Dims) < least {
		c.Errorf("input %d has shape %v, wanted rank %d or more", i, s, least)
		return false
	}
	return true
}

// dimAt returns dim i of a shape, counted from the end if i is negative; unknown if the shape has
// no such dim.
func dimAt(s graph.Shape, i int) symbolic.Expr {
	if i < 0 {
		i += len(s.Dims)
	}
	if !s.Ranked || i < 0 || i >= len(s.Dims) {
		return symbolic.Unknown()
	}
	return s.Dims[i]
}

// divided returns n/d for a number n that d must divide; the error calls n by name.
func (c *Ctx) divided(what string, n symbolic.Expr, d int64) symbolic.Expr {
	if d < 1 {
		c.Errorf("%s is to be divided into %d parts, wanted at least 1", what, d)
		return symbolic.Unknown()
	}
	if v, ok := n.Const(); ok && v%d != 0 {
		c.Errorf("%s is %d, which is not a multiple of %d", what, v, d)
		return symbolic.Unknown()
	}
	if n.IsUnknown() {
		return n
	}
	return n.FloorDiv(symbolic.Const(d))
}

// shapeOperand is ShapeFrom for operators that give no meaning to a negative dim.
func (c *Ctx) shapeOperand(i int) graph.Shape {
	s := c.ShapeFrom(i)
	for k, d := range s.Dims {
		if v, ok := d.Const(); ok && v < 0 {
			c.Errorf("element %d of input %d is %d; a dim cannot be negative", k, i, v)
			return graph.Shape{}
		}
	}
	return s
}

// listAttr returns an attribute that lists integers; nil where the node lacks it.
func (c *Ctx) listAttr(name string) []int64 {
	list, _ := c.IntList(name)
	return list
}

// perElement returns the FLOPs of an operator that spends n on each element of input i.
func perElement(n int64, i int) func(*Ctx) symbolic.Expr {
	return func(c *Ctx) symbolic.Expr { return c.Shape(i).Elements().Mul(symbolic.Const(n)) }
}

// mul multiplies expressions.
func mul(factors ...symbolic.Expr) symbolic.Expr { return product(factors) }

// noFLOPs is the cost of operators that only move data or count.
func noFLOPs(*Ctx) symbolic.Expr { return symbolic.Const(0) }
