package autograd

import "math"

// expRule: g * y. Stashes the output.
func expRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.Out(0))) }

// logRule: g / x. Stashes x.
func logRule(c *Ctx) { c.Set(0, c.Div(c.Grad(0), c.In(0))) }

// erfRule: g * 2/√π * e^(-x²). Stashes x.
func erfRule(c *Ctx) {
	x := c.In(0)
	bell := c.mathOf("Exp", c.Neg(c.Mul(x, x)))
	c.Set(0, c.Mul(c.mathScale(c.Grad(0), 2/math.SqrtPi), bell))
}

// sinRule: g * cos(x). Stashes x.
func sinRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.mathOf("Cos", c.In(0)))) }

// cosRule: -g * sin(x). Stashes x.
func cosRule(c *Ctx) { c.Set(0, c.Neg(c.Mul(c.Grad(0), c.mathOf("Sin", c.In(0))))) }

// tanRule: g * (1 + y²). Stashes the output.
func tanRule(c *Ctx) {
	y := c.Out(0)
	c.Set(0, c.Mul(c.Grad(0), c.mathShift(c.Mul(y, y), 1)))
}

// sinhRule: g * cosh(x). Stashes x.
func sinhRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.mathOf("Cosh", c.In(0)))) }

// coshRule: g * sinh(x). Stashes x.
func coshRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.mathOf("Sinh", c.In(0)))) }

// tanhRule: g * (1 - y²). Stashes the output.
func tanhRule(c *Ctx) {
	y := c.Out(0)
	c.Set(0, c.Mul(c.Grad(0), c.mathFromOne(c.Mul(y, y))))
}

// sigmoidRule: g * y * (1-y). Stashes the output.
func sigmoidRule(c *Ctx) {
	y := c.Out(0)
	c.Set(0, c.Mul(c.Grad(0), c.Mul(y, c.mathFromOne(y))))
}

// asinRule: g / √(1-x²). Stashes x.
func asinRule(c *Ctx) {
	x := c.In(0)
	c.Set(0, c.Div(c.Grad(0), c.mathOf("Sqrt", c.mathFromOne(c.Mul(x, x)))))
}

// acosRule: -g / √(1-x²). Stashes x.
func acosRule(c *Ctx) {
	x := c.In(0)
	c.Set(0, c.Neg(c.Div(c.Grad(0), c.mathOf("Sqrt", c.mathFromOne(c.Mul(x, x))))))
}

// atanRule: g / (1+x²). Stashes x.
func atanRule(c *Ctx) {
	x := c.In(0)
	c.Set(0, c.Div(c.Grad(0), c.mathShift(c.Mul(x, x), 1)))
}

// asinhRule: g / √(x²+1). Stashes x.
func asinhRule(c *Ctx) {
	x := c.In(0)
	c.Set(0, c.Div(c.Grad(0), c.mathOf("Sqrt", c.mathShift(c.Mul(x, x), 1))))
}

// acoshRule: g / √(x²-1). Stashes x.
func acoshRule(c *Ctx) {
	x := c.In(0)
	c.Set(0, c.Div(c.Grad(0), c.mathOf("Sqrt", c.mathShift(c.Mul(x, x), -1))))
}

// atanhRule: g / (1-x²). Stashes x.
func atanhRule(c *Ctx) {
	x := c.In(0)
	c.Set(0, c.Div(c.Grad(0), c.mathFromOne(c.Mul(x, x))))
}
