package op

import (
	"math"

	"memopt/graph"
	"memopt/symbolic"
)

// This file computes elementwise operators on contents. Sizes are assumed to be those of legal
// runs, with symbols bounded as in package symbolic. Anything else stays unknown.

// binary is an elementwise function of two numbers over one denominator.
type binary func(x, y symbolic.Expr) symbolic.Expr

// foldSame computes output 0 from inputs 0 and 1, brought to a common
// denominator, which the result keeps.
func (c *Ctx) foldSame(f binary) {
	if a, b, den, ok := c.pair(0, 1); ok {
		c.setZip(a, b, den, f)
	}
}

// foldCompare is foldSame with bools as the result.
func (c *Ctx) foldCompare(f binary) {
	if a, b, _, ok := c.pair(0, 1); ok {
		c.setZip(a, b, 1, f)
	}
}

// pair returns the contents of two inputs over a common denominator.
func (c *Ctx) pair(i, j int) (a, b block, den int64, ok bool) {
	if a, ok = c.block(i); !ok {
		return
	}
	if b, ok = c.block(j); !ok {
		return
	}
	if den, ok = commonDen(a.den, b.den); ok {
		a.elems, b.elems = a.over(den), b.over(den)
	}
	return
}

// setZip sets the contents of output 0 to f of the elements of a and b.
func (c *Ctx) setZip(a, b block, den int64, f binary) {
	dims, ok := broadcastInts(a.dims, b.dims)
	if !ok || size(dims) < 0 {
		return
	}
	out := block{dims: dims, den: den, elems: make([]symbolic.Expr, 0, size(dims))}
	eachIndex(dims, func(index []int) {
		out.elems = append(out.elems, f(a.elems[a.stretched(index)], b.elems[b.stretched(index)]))
	})
	c.setBlock(0, out)
}

func broadcastInts(a, b []int) ([]int, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]int(nil), a...)
	for i, d := range b {
		at := len(a) - len(b) + i
		switch {
		case out[at] == 1:
			out[at] = d
		case d != 1 && d != out[at]:
			return nil, false
		}
	}
	return out, true
}

// foldUnary computes output 0 from input 0. f gets an element and the block's denominator;
// the result has denominator den, or the input's where den is 0.
func (c *Ctx) foldUnary(den int64, f func(x symbolic.Expr, den int64) symbolic.Expr) {
	b, ok := c.block(0)
	if !ok {
		return
	}
	out := block{dims: b.dims, den: den, elems: make([]symbolic.Expr, len(b.elems))}
	if den == 0 {
		out.den = b.den
	}
	for i, e := range b.elems {
		out.elems[i] = f(e, b.den)
	}
	c.setBlock(0, out)
}

func add(x, y symbolic.Expr) symbolic.Expr { return x.Add(y) }
func sub(x, y symbolic.Expr) symbolic.Expr { return x.Sub(y) }

func foldAdd(c *Ctx) { c.foldSame(add) }
func foldSub(c *Ctx) { c.foldSame(sub) }
func foldMax(c *Ctx) { c.foldVariadic(larger) }
func foldMin(c *Ctx) { c.foldVariadic(smaller) }
func foldSum(c *Ctx) { c.foldVariadic(add) }

// foldVariadic applies f to one or two inputs; more inputs do not occur in shape arithmetic.
func (c *Ctx) foldVariadic(f binary) {
	switch len(c.Node.Inputs) {
	case 1:
		c.passContents()
	case 2:
		c.foldSame(f)
	}
}

// foldMul multiplies numerators and denominators.
func foldMul(c *Ctx) {
	a, aok := c.block(0)
	b, bok := c.block(1)
	switch {
	case aok && bok && a.den <= maxDen/b.den:
		c.setReduced(a, b, a.den*b.den, symbolic.Expr.Mul)
	case aok && !bok:
		c.foldZeros(a, 1)
	case bok && !aok:
		c.foldZeros(b, 0)
	}
}

// foldZeros knows a product with a factor of zeros, whatever the other integers are.
func (c *Ctx) foldZeros(zeros block, other int) {
	for _, e := range zeros.elems {
		if n, ok := e.Const(); !ok || n != 0 {
			return
		}
	}
	shape := c.Shape(other)
	if !c.DType(other).IsInteger() || !shape.Ranked {
		return
	}
	dims := make([]int, len(shape.Dims))
	for i, d := range shape.Dims {
		n, ok := d.Const()
		if !ok || n < 0 || n > int64(len(zeros.elems))+1 {
			return
		}
		dims[i] = int(n)
	}
	unknown := block{dims: dims, den: 1, elems: make([]symbolic.Expr, size(dims))}
	c.setZip(zeros, unknown, 1, func(symbolic.Expr, symbolic.Expr) symbolic.Expr { return symbolic.Const(0) })
}

// setReduced is setZip, then reduces the fractions by the common factor of all constants among
// them: 1/2 times 4 is 2, not 4/2.
func (c *Ctx) setReduced(a, b block, den int64, f binary) {
	if den == 1 {
		c.setZip(a, b, 1, f)
		return
	}
	c.setZip(a, b, den, f)
	c.reduceFractions(den)
}

// reduceFractions makes the contents of output 0 whole where they are constants divisible
// by the denominator.
func (c *Ctx) reduceFractions(den int64) {
	id := c.Node.Output(0)
	if id == graph.NoValue {
		return
	}
	elems := c.inf.res.contents.get(id)
	if elems == nil {
		return
	}
	whole := make([]symbolic.Expr, len(elems))
	for i, e := range elems {
		if whole[i] = quotient(e, den); whole[i].IsUnknown() {
			return
		}
	}
	c.inf.res.setContents(id, whole)
	c.inf.res.setDen(id, 1)
}

// quotient returns e/den where that is exact, else unknown.
func quotient(e symbolic.Expr, den int64) symbolic.Expr {
	if q, ok := e.ExactDiv(symbolic.Const(den)); ok {
		return q
	}
	return symbolic.Unknown()
}

// foldDiv divides: integers toward zero, as ONNX defines it, floats by constants exactly.
func foldDiv(c *Ctx) {
	a, aok := c.block(0)
	b, bok := c.block(1)
	switch {
	case !aok || !bok:
	case c.DType(0).IsInteger():
		c.setZip(a, b, 1, truncDiv)
	case c.DType(0).IsFloat() && len(b.elems) == 1:
		c.divideBy(a, b)
	}
}

// divideBy divides floats by one constant p/q: it multiplies by q/p.
func (c *Ctx) divideBy(a, b block) {
	p, ok := b.elems[0].Const()
	if !ok || p == 0 || p == math.MinInt64 {
		return
	}
	q := b.den
	if p < 0 {
		p, q = -p, -q
	}
	if a.den > maxDen/p {
		return
	}
	factor := block{dims: b.dims, elems: []symbolic.Expr{symbolic.Const(q)}, den: 1}
	c.setReduced(a, factor, a.den*p, symbolic.Expr.Mul)
}

// truncDiv is x/y rounded toward zero, for a positive y; other divisors only as numbers.
func truncDiv(x, y symbolic.Expr) symbolic.Expr {
	xn, xConst := x.Const()
	yn, yConst := y.Const()
	switch {
	case yConst && yn == 0:
		return symbolic.Unknown()
	case xConst && yConst && yn != -1:
		return symbolic.Const(xn / yn)
	case yConst && yn == -1:
		return x.Neg()
	case !positive(y):
		return symbolic.Unknown()
	case nonNegative(x):
		return x.FloorDiv(y)
	}
	zero := symbolic.Const(0)
	return larger(x, zero).FloorDiv(y).Sub(larger(x.Neg(), zero).FloorDiv(y))
}

// foldMod is the remainder with the sign of the divisor, or with fmod set that of
// the dividend, for positive divisors.
func foldMod(c *Ctx) {
	if !c.DType(0).IsInteger() {
		return
	}
	c.foldSame(func(x, y symbolic.Expr) symbolic.Expr {
		switch {
		case !positive(y):
			return symbolic.Unknown()
		case c.Int("fmod", 0) != 0 && !nonNegative(x):
			return x.Sub(truncDiv(x, y).Mul(y))
		}
		return x.Mod(y)
	})
}

func foldNeg(c *Ctx) {
	c.foldUnary(0, func(x symbolic.Expr, _ int64) symbolic.Expr { return x.Neg() })
}

func foldAbs(c *Ctx) {
	c.foldUnary(0, func(x symbolic.Expr, _ int64) symbolic.Expr { return larger(x, x.Neg()) })
}

func foldRelu(c *Ctx) {
	c.foldUnary(0, func(x symbolic.Expr, _ int64) symbolic.Expr { return larger(x, symbolic.Const(0)) })
}

func foldFloor(c *Ctx) { c.foldUnary(1, floorOf) }

func floorOf(x symbolic.Expr, den int64) symbolic.Expr {
	if den == 1 {
		return x
	}
	return x.FloorDiv(symbolic.Const(den))
}

func foldCeil(c *Ctx) {
	c.foldUnary(1, func(x symbolic.Expr, den int64) symbolic.Expr {
		if den == 1 {
			return x
		}
		return x.CeilDiv(symbolic.Const(den))
	})
}

// truth returns a bool as contents have it.
func truth(b bool) symbolic.Expr {
	if b {
		return symbolic.Const(1)
	}
	return symbolic.Const(0)
}

// decide turns the known order of x and y into a bool; unknown if the order does not settle it.
func decide(f func(o order) (result, known bool)) binary {
	return func(x, y symbolic.Expr) symbolic.Expr {
		if r, known := f(compare(x, y)); known {
			return truth(r)
		}
		return symbolic.Unknown()
	}
}

func foldEqual(c *Ctx) {
	c.foldCompare(decide(func(o order) (bool, bool) {
		return o == equal, o != unordered && o != atMost && o != atLeast
	}))
}

func foldLess(c *Ctx) {
	c.foldCompare(decide(func(o order) (bool, bool) { return o == less, o != unordered && o != atMost }))
}

func foldGreater(c *Ctx) {
	c.foldCompare(decide(func(o order) (bool, bool) { return o == greater, o != unordered && o != atLeast }))
}

func foldLessOrEqual(c *Ctx) {
	c.foldCompare(decide(func(o order) (bool, bool) {
		return o == less || o == equal || o == atMost, o != unordered && o != atLeast
	}))
}

func foldGreaterOrEqual(c *Ctx) {
	c.foldCompare(decide(func(o order) (bool, bool) {
		return o == greater || o == equal || o == atLeast, o != unordered && o != atMost
	}))
}

func foldNot(c *Ctx) {
	c.foldUnary(1, func(x symbolic.Expr, _ int64) symbolic.Expr { return symbolic.Const(1).Sub(x) })
}

// For bools, and is the product and or the maximum.
func foldAnd(c *Ctx) { c.foldSame(func(x, y symbolic.Expr) symbolic.Expr { return x.Mul(y) }) }
func foldOr(c *Ctx)  { c.foldSame(larger) }
func foldXor(c *Ctx) {
	c.foldSame(func(x, y symbolic.Expr) symbolic.Expr {
		return x.Add(y).Sub(symbolic.Const(2).Mul(x).Mul(y))
	})
}
