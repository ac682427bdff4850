package op

import (
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// Broadcast returns the common shape of the given inputs under numpy's rules: shapes are aligned at
// their last dims, and a 1 stretches to its partner.
//
// With symbols the rule is: equal dims stay; 1 gives way; a number other than 1 wins over a symbol,
// because a run with another value fails. Two different expressions are equal in a legal run or one
// of them is 1: the larger one is the result, for sizes of at least 1. So batch beside 2*batch, for
// example, gives 2*batch. An unknown dim or a label gives way to the dim that the caller decides
// on, as if it were equal; careful inference (NewExtender) leaves it open.
func (c *Ctx) Broadcast(slots ...int) graph.Shape {
	out := c.Shape(slots[0])
	for _, slot := range slots[1:] {
		out = c.BroadcastShapes(out, c.Shape(slot))
	}
	return out
}

// BroadcastShapes is Broadcast for two shapes. It calls Errorf if they contradict each other.
func (c *Ctx) BroadcastShapes(a, b graph.Shape) graph.Shape {
	s, fault := c.inf.broadcastShapes(a, b)
	if fault != "" {
		c.Errorf("shapes %v and %v cannot be broadcast: %s", a, b, fault)
	}
	return s
}

// broadcastShapes applies the rule of Broadcast; fault names a pair of dims that
// contradict each other.
func (inf *inference) broadcastShapes(a, b graph.Shape) (s graph.Shape, fault string) {
	if !a.Ranked || !b.Ranked {
		return graph.Shape{}, ""
	}
	if len(b.Dims) > len(a.Dims) {
		a, b = b, a
	}
	skip := len(a.Dims) - len(b.Dims)
	var dims []symbolic.Expr // nil while the result is a
	for i, db := range b.Dims {
		da := a.Dims[skip+i]
		d, ok := inf.broadcastDim(da, db)
		if !ok {
			return graph.Shape{}, fmt.Sprintf("%v meets %v", da, db)
		}
		if dims == nil && !d.Identical(da) {
			dims = append(make([]symbolic.Expr, 0, len(a.Dims)), a.Dims...)
		}
		if dims != nil {
			dims[skip+i] = d
		}
	}
	if dims == nil {
		return a, ""
	}
	return graph.Dims(dims...), ""
}

// broadcastDim applies the rule of Broadcast to one pair; ok is false where two
// numbers contradict each other.
func (inf *inference) broadcastDim(a, b symbolic.Expr) (d symbolic.Expr, ok bool) {
	an, aConst := a.Const()
	bn, bConst := b.Const()
	switch {
	case aConst && bConst:
		if an == 1 {
			return b, true
		}
		return a, bn == 1 || an == bn
	case aConst && an == 1:
		return b, true
	case bConst && bn == 1:
		return a, true
	case aConst || bConst:
		return sameDim(a, b), true
	}
	inf.meet(a, b)
	switch {
	case inf.careful:
		return symbolic.Max(a, b), true
	}
	switch guessA, guessB := inf.isGuess(a), inf.isGuess(b); {
	case guessA && guessB:
		return sameDim(a, b), true
	case guessA:
		return b, true
	case guessB:
		return a, true
	}
	return symbolic.Max(a, b), true
}

// isGuess reports whether a dim is unknown or made of labels: symbols that no graph input has, so
// that the caller cannot bind them.
func (inf *inference) isGuess(d symbolic.Expr) bool {
	if !d.IsKnown() {
		return true
	}
	return inf.hasLabel(d)
}

// sameDim returns the better description of a dim that two operands share: a
// number, then a lone symbol, then the first, then anything known.
func sameDim(a, b symbolic.Expr) symbolic.Expr {
	switch {
	case a.IsUnknown():
		return b
	case b.IsUnknown():
		return a
	}
	if _, ok := a.Const(); ok {
		return a
	}
	if _, ok := b.Const(); ok {
		return b
	}
	if !isSymbol(a) && isSymbol(b) {
		return b
	}
	return a
}

// isSymbol reports whether an expression is one symbol alone.
func isSymbol(e symbolic.Expr) bool {
	names := e.Symbols()
	return len(names) == 1 && e.Equal(symbolic.Sym(names[0]))
}

// Unify returns the description of a dim that must be equal in two operands, and calls Errorf where
// two numbers contradict each other. The error calls the dim by name.
func (c *Ctx) Unify(name string, a, b symbolic.Expr) symbolic.Expr {
	if an, ok := a.Const(); ok {
		if bn, ok := b.Const(); ok && an != bn {
			c.Errorf("%s: %d and %d must be equal", name, an, bn)
		}
	}
	c.inf.meet(a, b)
	return sameDim(a, b)
}

// broadcastTo checks that shape s can be stretched to the shape target, which stays.
func (c *Ctx) broadcastTo(what string, s, target graph.Shape) {
	if !s.Ranked || !target.Ranked {
		return
	}
	skip := len(target.Dims) - len(s.Dims)
	if skip < 0 {
		c.Errorf("%s has shape %v, which cannot be stretched to %v", what, s, target)
		return
	}
	for i, d := range s.Dims {
		n, isConst := d.Const()
		t, known := target.Dims[skip+i].Const()
		if isConst && known && n != 1 && n != t {
			c.Errorf("%s has shape %v, which cannot be stretched to %v", what, s, target)
			return
		}
	}
}
