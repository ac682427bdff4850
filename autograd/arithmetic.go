package autograd

// numpyBroadcast rejects nodes from before operator set 7 that broadcast an operand from an axis
// on, which no later operator does.
func numpyBroadcast(c *Ctx) {
	if c.Version < 7 && c.Node.Int("broadcast", 0) != 0 {
		c.Unsupported("schema version %d broadcasts by attributes", c.Version)
	}
}

// addRule: both inputs get the gradient, summed over the broadcast axes. No stash.
func addRule(c *Ctx) {
	numpyBroadcast(c)
	sumRule(c)
}

// sumRule: every input gets the gradient, summed over the broadcast axes. No stash.
func sumRule(c *Ctx) {
	for i := range c.Node.Inputs {
		if c.Wants(i) {
			c.Set(i, c.SumToInput(c.Grad(0), i))
		}
	}
}

// meanRule: every one of n inputs gets the gradient / n. No stash.
func meanRule(c *Ctx) {
	g := c.mathScale(c.Grad(0), 1/float64(len(c.Node.Inputs)))
	for i, v := range c.Node.Inputs {
		if c.Wants(i) {
			c.Set(i, c.SumTo(g, v))
		}
	}
}

// subRule: the gradient, and its negative for the subtrahend. No stash.
func subRule(c *Ctx) {
	numpyBroadcast(c)
	if c.Wants(0) {
		c.Set(0, c.SumTo(c.Grad(0), c.In(0)))
	}
	if c.Wants(1) {
		c.Set(1, c.Neg(c.SumTo(c.Grad(0), c.In(1))))
	}
}

// mulRule: each input gets the gradient times the other one. Stashes the other input.
func mulRule(c *Ctx) {
	numpyBroadcast(c)
	if c.In(0) == c.In(1) {
		half := c.Mul(c.Grad(0), c.In(0))
		c.Set(0, half)
		c.Set(1, half)
		return
	}
	for _, i := range []int{1, 0} {
		if c.Wants(i) {
			c.Set(i, c.SumTo(c.Mul(c.Grad(0), c.In(1-i)), c.In(i)))
		}
	}
}

// divRule: y = a / b. The dividend gets g/b, the divisor -(g/b)*y. Stashes b, and for its gradient
// y; where a was stretched, and so is smaller than y, it uses -(g/b)*a/b with a instead.
func divRule(c *Ctx) {
	numpyBroadcast(c)
	a, b := c.In(0), c.In(1)
	over := c.Div(c.Grad(0), b)
	if c.Wants(1) {
		var t Value
		if mathSameDims(c, a, c.Out(0)) {
			t = c.Mul(over, c.Out(0))
		} else {
			t = c.Div(c.Mul(over, a), b)
		}
		c.Set(1, c.Neg(c.SumTo(t, b)))
	}
	if c.Wants(0) {
		c.Set(0, c.SumTo(over, a))
	}
}

// mathSameDims reports whether two values are known to have the same shape, or not both have a
// known rank.
func mathSameDims(c *Ctx, a, b Value) bool {
	p, ok := c.Dims(a)
	q, ok2 := c.Dims(b)
	if !ok || !ok2 {
		return true
	}
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if !p[i].Equal(q[i]) {
			return false
		}
	}
	return true
}

// modRule: y = a - b*trunc(a/b), the float form. The dividend gets g; the divisor -g*trunc(a/b),
// where the quotient is (a-y)/b. Stashes a, b and y, for the divisor only.
func modRule(c *Ctx) {
	g, a, b := c.Grad(0), c.In(0), c.In(1)
	if c.Node.Int("fmod", 0) == 0 {
		c.Unsupported("for floats, attribute fmod must be 1")
	}
	if c.Wants(1) {
		quotient := c.Div(c.Sub(a, c.Out(0)), b)
		c.Set(1, c.Neg(c.SumTo(c.Mul(g, quotient), b)))
	}
	if c.Wants(0) {
		c.Set(0, c.SumTo(g, a))
	}
}

// negRule: -g. No stash.
func negRule(c *Ctx) { c.Set(0, c.Neg(c.Grad(0))) }

// absRule: g * sign(x). Stashes x.
func absRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.mathSign(c.In(0)))) }

// reciprocalRule: -g * y². Stashes the output.
func reciprocalRule(c *Ctx) {
	y := c.Out(0)
	c.Set(0, c.Neg(c.Mul(c.Grad(0), c.Mul(y, y))))
}

// sqrtRule: g / (2y). Stashes the output.
func sqrtRule(c *Ctx) {
	c.Set(0, c.Div(c.mathScale(c.Grad(0), 0.5), c.Out(0)))
}

// castRule: the gradient in the type of the input. No stash.
func castRule(c *Ctx) { c.setCast(c.Grad(0)) }

// whereRule: the gradient goes to the operand that each element was taken from. Stashes the
// condition.
func whereRule(c *Ctx) {
	g, cond := c.Grad(0), c.In(0)
	c.noteCleaned()
	if c.Wants(1) {
		c.Set(1, c.SumTo(c.mathIf(cond, g), c.In(1)))
	}
	if c.Wants(2) {
		c.Set(2, c.SumTo(c.mathUnless(cond, g), c.In(2)))
	}
}
