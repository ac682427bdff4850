package autograd

// maxRule and minRule: Max(a, b, c, …) is max(max(max(a, b), c), …), and the gradient of each pair
// goes to the chosen one, or half to each if they are equal. So of three equal ones the first two
// get a quarter each. Stash all inputs, and recompute the earlier results.
func maxRule(c *Ctx) { extremeRule(c, "Less") }

func minRule(c *Ctx) { extremeRule(c, "Greater") }

// extremeRule works from the last input to the first. loses(a, b) says that b is chosen.
func extremeRule(c *Ctx, loses string) {
	g := c.Grad(0)
	for k := len(c.Node.Inputs) - 1; k > 0; k-- {
		before := false // whether one of the inputs before k wants its gradient
		for i := range k {
			before = before || c.Wants(i)
		}
		if !before && !c.Wants(k) {
			continue // and the inputs before it
		}
		a, b := c.In(0), c.In(k)
		if k > 1 {
			a = c.Op(c.Node.Op, nil, c.Node.Inputs[:k]...)
		}
		switch {
		case !before:
			c.Set(k, c.SumTo(c.extremeShare(g, b, a, loses), b))
			return
		case c.Wants(k):
			share := c.extremeShare(g, a, b, loses)
			c.Set(k, c.SumTo(c.Sub(g, share), b))
			g = c.SumTo(share, a)
		default:
			g = c.SumTo(c.extremeShare(g, a, b, loses), a)
		}
	}
	c.Set(0, g)
}

// extremeShare returns the part of g that goes to v and not to other.
func (e *emitter) extremeShare(g, v, other Value, loses string) Value {
	wins := e.mathWhere(e.Op(loses, nil, other, v), g, e.mathScale(g, 0.5))
	return e.mathUnless(e.Op(loses, nil, v, other), wins)
}
