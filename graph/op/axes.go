package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// axesOf holds a node's axes, from an attribute or an input.
type axesOf struct {
	list  []int // ascending, in [0, rank)
	given bool  // the node has a list, which may be empty
	known bool  // list holds it
	count int   // how many there are, even if the list is not known, or -1
}

// Axes reads the axes of an operator that has them as the attribute "axes" before
// schema version since, and in input slot from then on. They count in a shape of
// the given rank.
func (c *Ctx) axesOf(slot, since, rank int) axesOf {
	raw, given, known := c.rawAxes(slot, since)
	a := axesOf{given: given, known: known, count: len(raw)}
	if !known {
		if a.count = -1; given {
			if n, ok := c.length(slot); ok && n <= maxRank {
				a.count = int(n)
			}
		}
		return a
	}
	if rank < 0 {
		a.known = len(raw) == 0
		return a
	}
	for _, x := range raw {
		axis, ok := c.Axis("an axis", x, rank)
		if !ok {
			return axesOf{}
		}
		if slices.Contains(a.list, axis) {
			c.Errorf("axes %v lists axis %d twice", raw, axis)
			return axesOf{}
		}
		a.list = append(a.list, axis)
	}
	slices.Sort(a.list)
	return a
}

func (c *Ctx) rawAxes(slot, since int) (raw []int64, given, known bool) {
	if c.Version < since {
		raw, given = c.IntList("axes")
		return raw, given, true
	}
	if !c.Has(slot) {
		return nil, false, true
	}
	raw, known = c.Ints(slot)
	return raw, true, known
}

// with returns a copy of the shape with one dim replaced.
func with(s graph.Shape, axis int, d symbolic.Expr) graph.Shape {
	dims := slices.Clone(s.Dims)
	dims[axis] = d
	return graph.Dims(dims...)
}

// without returns a copy of the shape without one axis.
func without(s graph.Shape, axis int) graph.Shape {
	return graph.Dims(slices.Delete(slices.Clone(s.Dims), axis, axis+1)...)
}

// product multiplies dims; the empty product is 1.
func product(dims []symbolic.Expr) symbolic.Expr {
	n := symbolic.Const(1)
	for _, d := range dims {
		n = n.Mul(d)
	}
	return n
}

// wantRank calls Errorf where the rank of input i is known and not the given one.
func (c *Ctx) wantRank(i, rank int) bool {
	if s := c.Shape(i); s.Ranked && len(s.Dims) != rank {
		c.Errorf("input %d has shape %v, wanted rank %d", i, s, rank)
		return false
	}
	return true
}

// sameTypes returns the element type that the given inputs share, and calls Errorf
// where two of them differ. Inputs that are left out do not count.
func (c *Ctx) sameTypes(slots ...int) graph.DType {
	first, out := -1, graph.Undefined
	for _, slot := range slots {
		d := c.DType(slot)
		switch {
		case d == graph.Undefined:
		case out == graph.Undefined:
			first, out = slot, d
		case d != out:
			c.Errorf("input %d has type %v and input %d has type %v; they must be equal", first, out, slot, d)
		}
	}
	return out
}

// dtypeSet is a set of element types that a schema admits.
type dtypeSet struct {
	name string
	has  func(graph.DType) bool
}

var (
	anyType  = dtypeSet{"any type", func(graph.DType) bool { return true }}
	numbers  = dtypeSet{"numbers", func(d graph.DType) bool { return d != graph.Bool && d != graph.String }}
	floats   = dtypeSet{"floating-point numbers", graph.DType.IsFloat}
	integers = dtypeSet{"integers", graph.DType.IsInteger}
	bools    = dtypeSet{"bools", func(d graph.DType) bool { return d == graph.Bool }}
	indices  = dtypeSet{"int32 or int64", func(d graph.DType) bool { return d == graph.Int32 || d == graph.Int64 }}
)

// want calls Errorf where the element type of input i is known and not in the set.
func (c *Ctx) want(i int, set dtypeSet) bool {
	if d := c.DType(i); d != graph.Undefined && !set.has(d) {
		c.Errorf("input %d has type %v, wanted %s", i, d, set.name)
		return false
	}
	return true
}
