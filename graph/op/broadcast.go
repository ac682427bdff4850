package op

import (
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// Broadcast returns the shape that the given inputs have together under numpy's
// rules: shapes are aligned at their last dims, and a 1 stretches to its partner.
//
// With symbols the rule is: equal dims stay; 1 gives way; a number other than 1
// wins over a symbol, because a run with another value fails. Two different
// symbols, neither of which is the number 1, are taken not to stretch, so they are
// equal in every legal run and either describes the result: a lone symbol is preferred to
// a compound expression, then the operand of higher rank, then the earlier one. An unknown
// dim gives way to a known one for the same reason.
func (c *Ctx) Broadcast(slots ...int) graph.Shape {
	out := c.Shape(slots[0])
	for _, slot := range slots[1:] {
		out = c.BroadcastShapes(out, c.Shape(slot))
	}
	return out
}

// BroadcastShapes is Broadcast for two shapes. It calls Errorf where they
// contradict each other.
func (c *Ctx) BroadcastShapes(a, b graph.Shape) graph.Shape {
	s, fault := broadcastShapes(a, b)
	if fault != "" {
		c.Errorf("shapes %v and %v cannot be broadcast: %s", a, b, fault)
	}
	return s
}

// broadcastShapes applies the rule of Broadcast; fault names a pair of dims that
// contradict each other.
func broadcastShapes(a, b graph.Shape) (s graph.Shape, fault string) {
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
		d, ok := broadcastDim(da, db)
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
func broadcastDim(a, b symbolic.Expr) (d symbolic.Expr, ok bool) {
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
	}
	return sameDim(a, b), true
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

// isSymbol reports whether an expression is one symbol and nothing else.
func isSymbol(e symbolic.Expr) bool {
	names := e.Symbols()
	return len(names) == 1 && e.Equal(symbolic.Sym(names[0]))
}

// Unify returns the description of a dim that must be equal in two operands, and calls
// Errorf where two numbers contradict each other; what names the dim.
func (c *Ctx) Unify(what string, a, b symbolic.Expr) symbolic.Expr {
	if an, ok := a.Const(); ok {
		if bn, ok := b.Const(); ok && an != bn {
			c.Errorf("%s: %d and %d must be equal", what, an, bn)
		}
	}
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
