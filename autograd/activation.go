package autograd

// reluRule: the gradient where the output is positive. Stashes the output, which the next node
// often keeps anyway, and lets the input go.
func reluRule(c *Ctx) { c.Set(0, c.mathIf(c.mathAbove(c.Out(0), 0), c.Grad(0))) }

// leakyReluRule: the gradient where x is positive, else alpha times it. Stashes the output, which
// has the sign of x; x for a negative alpha.
func leakyReluRule(c *Ctx) {
	alpha, sign := float64(c.Node.Float("alpha", 0.01)), c.In(0)
	if alpha >= 0 {
		sign = c.Out(0)
	}
	g := c.Grad(0)
	c.Set(0, c.mathWhere(c.mathAbove(sign, 0), g, c.mathScale(g, alpha)))
}

// preluRule: the gradient where x is positive, else times the slope; the slope gets g*x where x is
// not positive, summed over its broadcast axes. Stashes x, and for its gradient the slope.
func preluRule(c *Ctx) {
	if c.Version < 7 {
		c.Unsupported("schema version %d broadcasts the slope differently", c.Version)
	}
	g, x, slope := c.Grad(0), c.In(0), c.In(1)
	positive := c.mathAbove(x, 0)
	if c.Wants(1) {
		c.Set(1, c.SumTo(c.mathUnless(positive, c.Mul(g, x)), slope))
	}
	if c.Wants(0) {
		c.Set(0, c.mathWhere(positive, g, c.Mul(g, slope)))
	}
}

// thresholdedReluRule: the gradient where x is above alpha. Stashes the output, which is 0
// elsewhere; x for a negative alpha.
func thresholdedReluRule(c *Ctx) {
	alpha := float64(c.Node.Float("alpha", 1))
	if alpha >= 0 {
		reluRule(c)
		return
	}
	c.Set(0, c.mathIf(c.mathAbove(c.In(0), alpha), c.Grad(0)))
}

// shrinkRule: the gradient where |x| is above lambd. Stashes x.
func shrinkRule(c *Ctx) {
	lambd := float64(c.Node.Float("lambd", 0.5))
	c.Set(0, c.mathIf(c.mathAbove(c.mathOf("Abs", c.In(0)), lambd), c.Grad(0)))
}

// eluRule: 1 for positive x, else alpha * e^x.
func eluRule(c *Ctx) {
	expUnitRule(c, 1, float64(c.Node.Float("alpha", 1)), 1)
}

// seluRule: gamma for positive x, else gamma * alpha * e^x.
func seluRule(c *Ctx) {
	alpha := float64(c.Node.Float("alpha", 1.67326319217681884765625))
	gamma := float64(c.Node.Float("gamma", 1.05070102214813232421875))
	expUnitRule(c, gamma, gamma*alpha, 1)
}

// celuRule: 1 for positive x, else e^(x/alpha).
func celuRule(c *Ctx) {
	alpha := float64(c.Node.Float("alpha", 1))
	expUnitRule(c, 1, alpha, 1/alpha)
}

// expUnitRule: y is up*x for positive x, else down*(e^(x*inner)-1). The slope there is
// down*inner*e^(x*inner), which is inner*y + down*inner. Stashes the output; x where the signs of
// the constants are such that y does not tell that of x.
func expUnitRule(c *Ctx, up, down, inner float64) {
	x, y := c.In(0), c.Out(0)
	var positive, slope Value
	if up > 0 && down*inner >= 0 {
		positive, slope = c.mathAbove(y, 0), c.mathShift(c.mathScale(y, inner), down*inner)
	} else {
		positive, slope = c.mathAbove(x, 0), c.mathScale(c.mathOf("Exp", c.mathScale(x, inner)), down*inner)
	}
	c.Set(0, c.Mul(c.Grad(0), c.mathWhere(positive, c.Scalar(up, x), slope)))
}

// hardSigmoidRule: alpha times the gradient where the output is strictly between 0 and 1. Stashes
// the output.
func hardSigmoidRule(c *Ctx) {
	y := c.Out(0)
	inside := c.Op("And", nil, c.mathAbove(y, 0), c.mathBelow(y, 1))
	c.Set(0, c.mathIf(inside, c.mathScale(c.Grad(0), float64(c.Node.Float("alpha", 0.2)))))
}

// hardSwishRule: y = x * clip(x/6 + 1/2, 0, 1). The slope is 0 below -3, 1 above 3, and x/3 + 1/2
// from -3 to 3, both included. Stashes x.
func hardSwishRule(c *Ctx) {
	x := c.In(0)
	middle := c.mathShift(c.mathScale(x, 1.0/3), 0.5)
	slope := c.mathWhere(c.mathAbove(x, 3), c.Scalar(1, x), middle)
	c.Set(0, c.Mul(c.Grad(0), c.mathUnless(c.mathBelow(x, -3), slope)))
}

// softplusRule: y = log(1+e^x), with the slope sigmoid(x). Stashes x.
func softplusRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.mathOf("Sigmoid", c.In(0)))) }

// softsignRule: y = x/(1+|x|), with the slope 1/(1+|x|)². Stashes x.
func softsignRule(c *Ctx) {
	t := c.mathShift(c.mathOf("Abs", c.In(0)), 1)
	c.Set(0, c.Div(c.Grad(0), c.Mul(t, t)))
}

// mishRule: y = x*t with t = tanh(softplus(x)), with the slope t + x*(1-t²)*sigmoid(x). Stashes x.
func mishRule(c *Ctx) {
	x := c.In(0)
	t := c.mathOf("Tanh", c.mathOf("Softplus", x))
	rest := c.Mul(c.Mul(x, c.mathOf("Sigmoid", x)), c.mathFromOne(c.Mul(t, t)))
	c.Set(0, c.Mul(c.Grad(0), c.Add(t, rest)))
}

// swishRule: y = x*s with s = sigmoid(alpha*x), with the slope s + alpha*x*s*(1-s). Stashes x.
func swishRule(c *Ctx) { swishOf(c, float64(c.Node.Float("alpha", 1))) }

// quickGeluRule is swishRule with alpha 1.702.
func quickGeluRule(c *Ctx) { swishOf(c, float64(c.Node.Float("alpha", 1.702))) }

func swishOf(c *Ctx, alpha float64) {
	v := c.mathScale(c.In(0), alpha)
	s := c.mathOf("Sigmoid", v)
	slope := c.Mul(s, c.mathShift(c.Mul(v, c.mathFromOne(s)), 1))
	c.Set(0, c.Mul(c.Grad(0), slope))
}
