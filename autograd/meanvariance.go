package autograd

// meanVarianceEpsilon is added to the deviation, as the operator's function body says.
const meanVarianceEpsilon = 1e-9

// meanVarianceNormalizationRule: Y = (X-m)/(σ+ε) gives, with q = dY/(σ+ε),
//
//	dX = q - mean(q) - (X-m)·mean(q·(X-m))/(σ·(σ+ε))
//
// Stashes X, and recomputes the statistics.
func meanVarianceNormalizationRule(c *Ctx) {
	x, rank := c.In(0), c.Rank(c.In(0))
	var axes []int64
	for _, a := range c.Node.IntList("axes", []int64{0, 2, 3}) {
		axes = append(axes, c.Axis(a, rank))
	}
	d := c.normType(x)
	wide := c.Cast(x, d)
	off := c.Sub(wide, c.meanOver(wide, axes...))
	sigma := c.Op("Sqrt", nil, c.meanSquare(off, c.countOver(x, off, axes...), axes))
	plus := c.Add(sigma, c.Scalar(meanVarianceEpsilon, sigma))
	q := c.Div(c.Cast(c.Grad(0), d), plus)
	along := c.Mul(off, c.Div(c.meanOver(c.Mul(q, off), axes...), c.Mul(sigma, plus)))
	c.Set(0, c.Cast(c.Sub(c.Sub(q, c.meanOver(q, axes...)), along), c.DType(x)))
}
