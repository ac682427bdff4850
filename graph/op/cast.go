package op

import (
	"strings"

	"memopt/graph"
	"memopt/symbolic"
)

// castRule: the attribute "to" numbers the type; before version 6 it named it.
func castRule(c *Ctx) {
	var to graph.DType
	if c.Version >= 6 {
		if c.NeedInt("to"); !c.Failed() {
			to = c.DTypeAttr("to", graph.Undefined)
		}
	} else {
		to = c.namedType("to")
	}
	if c.Failed() {
		return
	}
	c.OutTensor(0, to, c.Shape(0))
	c.foldCast(to)
}

// namedType reads an attribute such as "FLOAT" of Cast-1.
func (c *Ctx) namedType(name string) graph.DType {
	text := c.Str(name, "")
	d, ok := graph.ParseDType(strings.ToLower(text))
	if !ok && !c.Failed() {
		c.Errorf("attribute %q is %q, which names no element type", name, text)
	}
	return d
}

// castLikeRule: the type is that of input 1.
func castLikeRule(c *Ctx) {
	c.OutTensor(0, c.DType(1), c.Shape(0))
	if c.DType(1) != graph.Undefined {
		c.foldCast(c.DType(1))
	}
}

// foldCast converts contents: to integers by cutting off the fraction, to bools by comparing with
// 0.
func (c *Ctx) foldCast(to graph.DType) {
	switch {
	case to.IsFloat() && to.Bits() <= 8: // which rounds the numbers of shapes
	case to.IsFloat():
		c.passContents()
	case to == graph.Bool:
		c.foldUnary(1, func(x symbolic.Expr, _ int64) symbolic.Expr {
			switch compare(x, symbolic.Const(0)) {
			case equal:
				return truth(false)
			case less, greater:
				return truth(true)
			}
			return symbolic.Unknown()
		})
	case to.IsInteger():
		c.foldUnary(1, func(x symbolic.Expr, den int64) symbolic.Expr {
			if den != 1 {
				x = truncDiv(x, symbolic.Const(den))
			}
			if n, ok := x.Const(); ok {
				return symbolic.Const(wrap(n, to))
			}
			return x
		})
	}
}

// wrap cuts a number to the bits of an integer type, as machines convert integers.
func wrap(n int64, to graph.DType) int64 {
	bits := to.Bits()
	if bits == 64 {
		return n
	}
	low := n & (1<<bits - 1)
	signed := to == graph.Int32 || to == graph.Int16 || to == graph.Int8 || to == graph.Int4 || to == graph.Int2
	if signed && low>>(bits-1) == 1 {
		low -= 1 << bits
	}
	return low
}
