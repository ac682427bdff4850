package autograd

// globalMaxPoolRule: the gradient goes to the largest element of each plane, the first of equal
// ones. Stashes X.
func globalMaxPoolRule(c *Ctx) {
	c.Need(11) // ScatterElements
	x, g := c.In(0), c.Grad(0)
	planes := c.Reshape(x, c.Vector(0, 0, -1))
	at := c.Op("ArgMax", Attrs{A("axis", int64(2)), A("keepdims", int64(1))}, planes)
	zeros := c.zerosOf(c.ShapeOf(planes), g)
	dx := c.Op("ScatterElements", Attrs{A("axis", int64(2))}, zeros, at, c.Reshape(g, c.Vector(0, 0, 1)))
	c.Set(0, c.formVia(dx, x))
}

// lpOrder reads the attribute p.
func (c *Ctx) lpOrder() int64 {
	if c.Version < 2 && c.Node.Attr("p") != nil {
		c.Unsupported("with an order p that is not an integer")
	}
	return c.Node.Int("p", 2)
}

// lpShare is dY·Y^(1-p), zero where Y is: the common factor of the elements' gradients.
func (c *Ctx) lpShare(p int64) Value {
	g, y := c.Grad(0), c.Out(0)
	switch p {
	case 1:
		return g
	case 2:
		g = c.Div(g, y)
	default:
		g = c.Mul(g, c.Op("Pow", nil, y, c.Scalar(float64(1-p), y)))
	}
	return c.Where(c.Op("Greater", nil, y, c.Scalar(0, y)), g, c.Scalar(0, g))
}

// lpTimes is v·sign(X)·|X|^(p-1).
func (c *Ctx) lpTimes(v Value, p int64) Value {
	x := c.In(0)
	switch p {
	case 1:
		return c.Mul(v, c.Op("Sign", nil, x))
	case 2:
		return c.Mul(v, x)
	}
	power := c.Op("Pow", nil, c.Op("Abs", nil, x), c.Scalar(float64(p-1), x))
	return c.Mul(v, c.Mul(power, c.Op("Sign", nil, x)))
}

// globalLpPoolRule: for Y = (Σ|X|^p)^(1/p), dX = sign(X)·|X|^(p-1)·Y^(1-p)·dY. Stashes X and the
// output.
func globalLpPoolRule(c *Ctx) {
	p := c.lpOrder()
	c.Set(0, c.lpTimes(c.lpShare(p), p))
}

// lpPoolRule: the same, each element getting the sum over the places that read it. Stashes X and
// the output.
func lpPoolRule(c *Ctx) {
	p := c.lpOrder()
	x := c.In(0)
	s := c.newSlide(x, c.Grad(0), c.kernelOf(None))
	c.Set(0, c.lpTimes(c.spreadPlanes(s, c.lpShare(p), x, 1), p))
}
