package autograd

import (
	"slices"

	"memopt/graph"
)

// reduceNode holds the axes that a node reduces its input 0 over.
type reduceNode struct {
	c     *Ctx
	keep  bool    // the result has dims of 1 there
	all   bool    // over all axes
	known bool    // list holds the axes, and may be empty
	list  []int64 // ascending and in [0, rank) where the rank is known
	input Value   // the axes, where they are not known
	noop  bool    // attribute noop_with_empty_axes
}

// reduceNodeOf reads a node. The axes were an attribute before some schema version and are an input
// since.
func reduceNodeOf(c *Ctx) *reduceNode {
	r := &reduceNode{c: c, keep: c.Node.Int("keepdims", 1) == 1, known: true}
	r.noop = c.Node.Int("noop_with_empty_axes", 0) == 1
	switch {
	case c.Version < opInfo(c.Node).InputSince("axes"):
		r.list = slices.Clone(c.Node.IntList("axes", nil))
	case c.Has(1):
		if r.list, r.known = c.Ints(c.In(1)); !r.known {
			r.input = c.In(1)
		}
	}
	r.all = r.known && len(r.list) == 0 && !r.noop
	if dims, ok := c.Dims(c.In(0)); ok {
		for i := range r.list {
			r.list[i] = c.Axis(r.list[i], len(dims))
		}
	}
	slices.Sort(r.list)
	return r
}

// kept gives v, of the shape of the result, dims of 1 on the reduced axes, so that it broadcasts to
// the shape of the input. Leading dims need no 1.
func (r *reduceNode) kept(v Value) Value {
	switch {
	case !r.known:
		r.c.need(axesInput)
		switch {
		case r.keep && r.noop:
			return v // the list may be empty, which to Squeeze means all dims of 1
		case r.keep:
			// The declared dims hide that some are 1: they are removed and come back as unknown.
			v = r.c.Op("Squeeze", nil, v, r.input)
		}
		return r.c.Op("Unsqueeze", nil, v, r.input)
	case r.keep || r.all:
		return v
	}
	for i, axis := range r.list {
		if axis != int64(i) {
			return r.c.Unsqueeze(v, r.list...)
		}
	}
	return v
}

// over reduces v, of the shape of the node's input, over the same axes, and keeps them as dims of
// 1.
func (r *reduceNode) over(name string, v Value) Value {
	keep := A("keepdims", int64(1))
	switch {
	case r.all:
		return r.c.Op(name, Attrs{keep}, v)
	case r.known:
		return r.c.Reduce(name, v, true, r.list...)
	}
	attrs := Attrs{keep}
	if r.noop {
		attrs = append(attrs, A("noop_with_empty_axes", int64(1)))
	}
	return r.c.Op(name, attrs, v, r.input)
}

// count returns how many elements are reduced to one, if that is known.
func (r *reduceNode) count() (int64, bool) {
	dims, ok := r.c.Dims(r.c.In(0))
	if !ok || !r.known {
		return 0, false
	}
	n := int64(1)
	for i, d := range dims {
		if !r.all && !slices.Contains(r.list, int64(i)) {
			continue
		}
		k, ok := d.Const()
		if !ok {
			return 0, false
		}
		n *= k
	}
	return n, true
}

// countType is the type to count folded elements in: that of x, but not float16, which ends at
// 65504, where there may be more.
func (r *reduceNode) countType() graph.DType {
	d := r.c.DType(r.c.In(0))
	if n, ok := r.count(); d == graph.Float16 && !(ok && n <= 65504) {
		return graph.Float32
	}
	return d
}

// divide returns g / n, in the type of n, as a value of the type of g.
func (r *reduceNode) divide(g, n Value) Value {
	return r.c.Cast(r.c.Div(r.c.Cast(g, r.c.DType(n)), n), r.c.DType(g))
}

// reduceSumRule: the gradient, stretched. No stash but the shape of x where it is not known.
func reduceSumRule(c *Ctx) {
	r := reduceNodeOf(c)
	c.Set(0, r.stretch(r.kept(c.Grad(0))))
}

// stretch returns v, which broadcasts to the shape of the input, in that shape.
func (r *reduceNode) stretch(v Value) Value {
	if r.known && !r.all && len(r.list) == 0 {
		return v
	}
	r.c.need(8) // for Expand
	return r.c.ExpandLike(v, r.c.In(0))
}

// reduceMeanRule: the gradient divided by the number of elements, stretched. No stash but the shape
// of x where it is not known.
func reduceMeanRule(c *Ctx) {
	r := reduceNodeOf(c)
	g, x, d := c.Grad(0), c.In(0), r.countType()
	switch n, ok := r.count(); {
	case ok && n == 1:
	case ok:
		as := c.Cast(g, d)
		g = c.Cast(c.Div(as, c.Scalar(float64(n), as)), c.DType(g))
	default:
		size := c.Cast(c.mathOf("Size", x), d)
		if !r.all {
			size = c.Div(size, c.Cast(c.mathOf("Size", g), d))
		}
		g = r.divide(g, size)
	}
	c.Set(0, r.stretch(r.kept(g)))
}

// reduceSumSquareRule: 2 * g * x. Stashes x.
func reduceSumSquareRule(c *Ctx) {
	g := reduceNodeOf(c).kept(c.mathScale(c.Grad(0), 2))
	c.Set(0, c.Mul(c.In(0), g))
}

// reduceL1Rule: g * sign(x). Stashes x.
func reduceL1Rule(c *Ctx) {
	g := reduceNodeOf(c).kept(c.Grad(0))
	c.Set(0, c.Mul(c.mathSign(c.In(0)), g))
}

// reduceL2Rule: x * g/y, and 0 where the norm y is 0. Stashes x and y.
func reduceL2Rule(c *Ctx) {
	y := c.Out(0)
	t := c.mathIf(c.mathAbove(y, 0), c.Div(c.Grad(0), y))
	c.Set(0, c.Mul(c.In(0), reduceNodeOf(c).kept(t)))
}

// reduceLogSumRule: y = log(sum of x), so that the gradient is g / e^y, stretched. Stashes y.
func reduceLogSumRule(c *Ctx) {
	r := reduceNodeOf(c)
	c.Set(0, r.stretch(r.kept(c.Div(c.Grad(0), c.mathOf("Exp", c.Out(0))))))
}

// reduceLogSumExpRule: g * e^(x-y). Stashes x and y.
func reduceLogSumExpRule(c *Ctx) {
	r := reduceNodeOf(c)
	y, g := r.kept(c.Out(0)), r.kept(c.Grad(0))
	c.Set(0, c.Mul(c.mathOf("Exp", c.Sub(c.In(0), y)), g))
}

// reduceExtremeRule, of ReduceMax and ReduceMin: the elements that are equal to the result share
// the gradient evenly. Stashes x and y.
func reduceExtremeRule(c *Ctx) {
	r := reduceNodeOf(c)
	chosen := c.mathEqual(c.In(0), r.kept(c.Out(0)))
	ties := r.over("ReduceSum", c.Cast(chosen, r.countType()))
	c.Set(0, c.mathIf(chosen, r.divide(r.kept(c.Grad(0)), ties)))
}

// reduceProdRule: g times the product of the other elements. With the zeros of x made 1 and p their
// product, that is g*p/x, and 0 for an element among whose others is a zero: the number of all
// zeros differs from its own. Stashes x.
func reduceProdRule(c *Ctx) {
	r, x := reduceNodeOf(c), c.In(0)
	isZero := c.mathEqual(x, c.Scalar(0, x))
	safe := c.mathWhere(isZero, c.Scalar(1, x), x)
	own := c.Cast(isZero, c.DType(x))
	alone := c.mathEqual(r.over("ReduceSum", own), own)
	g := c.Mul(r.kept(c.Grad(0)), r.over("ReduceProd", safe))
	c.Set(0, c.mathIf(alone, c.Div(g, safe)))
}
