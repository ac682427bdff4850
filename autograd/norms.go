package autograd

import "memopt/graph"

// simplifiedLayerNormalizationRule: layerNormalizationRule without the mean. Stashes X and the
// output that is the inverse root of the mean square, which is small.
func simplifiedLayerNormalizationRule(c *Ctx) {
	c.rmsGradients(func(Value, []int64) Value { return c.Out(1) })
}

// rmsNormalizationRule: the same where the node has no such output. Stashes X, of which the root is
// made again.
func rmsNormalizationRule(c *Ctx) {
	c.rmsGradients(func(x Value, axes []int64) Value {
		return c.inverseDeviation(c.meanSquare(x, c.countOver(x, x, axes...), axes),
			float64(c.Node.Float("epsilon", 1e-5)))
	})
}

func (c *Ctx) rmsGradients(inverse func(x Value, axes []int64) Value) {
	rank := c.Rank(c.In(0))
	axes := axesFrom(c.Axis(c.Node.Int("axis", -1), rank), int64(rank))
	d := c.normType(c.In(0))
	x := c.Cast(c.In(0), d)
	inv := c.Cast(inverse(x, axes), d)
	hat := c.Mul(x, inv)
	g := c.Grad(0)
	if g == None {
		g = c.Zeros(c.In(0)) // the inverse root alone has a gradient
	}
	c.normScale(g, hat, d)
	if c.Wants(0) {
		dx := c.normData(hat, inv, c.Mul(c.Cast(g, d), c.Cast(c.In(1), d)), false, axes)
		c.Set(0, c.Cast(c.deviationGradient(dx, c.Grad(1), hat, inv, x, axes), c.DType(c.In(0))))
	}
}

// meanSquare averages squares, n at a time, without a tensor of them.
func (c *Ctx) meanSquare(x, n Value, axes []int64) Value {
	return c.Div(c.Reduce("ReduceSumSquare", x, true, axes...), n)
}

// statistics returns x less its mean over the axes, and the inverse deviation, n being the number
// of elements that they are of.
func (c *Ctx) statistics(x, n Value, axes []int64) (off, inv Value) {
	off = c.Sub(x, c.meanOver(x, axes...))
	return off, c.inverseDeviation(c.meanSquare(off, n, axes), float64(c.Node.Float("epsilon", 1e-5)))
}

// instanceNormalizationRule: as layerNormalizationRule, over the spatial axes, with a scale and a
// bias per channel. Stashes X, of which the statistics are made again.
func instanceNormalizationRule(c *Ctx) {
	rank := c.Rank(c.In(0))
	d := c.normType(c.In(0))
	g := c.Cast(c.Grad(0), d)
	c.channelBiasCast(g)
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	axes := axesFrom(2, int64(rank))
	x := c.Cast(c.In(0), d)
	off, inv := c.statistics(x, c.countOver(x, x, axes...), axes)
	hat := c.Mul(off, inv)
	if c.Wants(1) {
		c.Set(1, c.Cast(c.ReduceSum(c.Mul(g, hat), false, c.channelAxes(hat)...), c.DType(c.In(1))))
	}
	if c.Wants(0) {
		g = c.Mul(g, c.alongChannels(c.Cast(c.In(1), d), rank))
		c.Set(0, c.Cast(c.normData(hat, inv, g, true, axes), c.DType(c.In(0))))
	}
}

// channelBiasCast is channelBias for a gradient in a wider type.
func (c *Ctx) channelBiasCast(g Value) {
	if c.Wants(2) {
		c.Set(2, c.Cast(c.ReduceSum(g, false, c.channelAxes(g)...), c.DType(c.In(2))))
	}
}

// groupNormalizationRule: as layerNormalizationRule, over groups of neighbouring channels of each
// sample, the data lying as [N, groups, …]. Scale and bias have one element per channel, before
// version 21 one per group. Stashes X, of which the statistics are made again.
func groupNormalizationRule(c *Ctx) {
	x, groups := c.In(0), c.Node.Int("num_groups", 1)
	d := c.normType(x)
	grouped := c.Vector(0, groups, -1)
	lie := grouped // the layout of the data where scale and bias are applied
	if c.Version >= 21 {
		lie = c.joinInts(c.Vector(0), c.Dim(x, 1), c.Vector(-1))
	}
	g := c.Reshape(c.Cast(c.Grad(0), d), lie)
	c.channelBiasCast(g)
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	axes := []int64{2}
	wide := c.Reshape(c.Cast(x, d), grouped)
	off, inv := c.statistics(wide, c.countOver(wide, wide, axes...), axes)
	hat := c.Mul(off, inv)
	if c.Wants(1) {
		c.Set(1, c.Cast(c.ReduceSum(c.Mul(g, c.reshaped(hat, lie, grouped)), false, 0, 2), c.DType(c.In(1))))
	}
	if c.Wants(0) {
		g = c.reshaped(c.Mul(g, c.alongChannels(c.Cast(c.In(1), d), 3)), grouped, lie)
		dx := c.normData(hat, inv, g, true, axes)
		c.Set(0, c.Cast(c.formVia(dx, x, c.Grad(0)), c.DType(x)))
	}
}

// reshaped is Reshape from one shape to another, or nothing if they are equal.
func (c *Ctx) reshaped(v, to, from Value) Value {
	if to == from {
		return v
	}
	return c.Reshape(v, to)
}

// meanVarianceEpsilon is added to the deviation, as the operator's function body says.
const meanVarianceEpsilon = 1e-9

// meanVarianceNormalizationRule: Y = (X-m)/(σ+ε) gives, with q = dY/(σ+ε),
//
//	dX = q - mean(q) - (X-m)·mean(q·(X-m))/(σ·(σ+ε))
//
// Stashes X, of which the statistics are made again.
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

// lpNormalizationRule: Y = X/n gives, with n the sum of absolute values or the root of the sum of
// squares,
//
//	dX = (dY - sign(X)·Σ dY·Y)/n   for p = 1
//	dX = (dY - Y·Σ dY·Y)/n         for p = 2
//
// and zero where n is. Stashes X, of which n is made again.
func lpNormalizationRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	axis := c.Axis(c.Node.Int("axis", -1), c.Rank(x))
	name, one := "ReduceL2", c.Node.Int("p", 2) == 1
	if one {
		name = "ReduceL1"
	}
	n := c.Reduce(name, x, true, axis)
	some := c.Op("Greater", nil, n, c.Scalar(0, n))
	inv := c.Where(some, c.Op("Reciprocal", nil, n), c.Scalar(0, n))
	y := c.Mul(x, inv)
	sum := c.ReduceSum(c.Mul(g, y), true, axis)
	if one {
		y = c.Op("Sign", nil, x)
	}
	c.Set(0, c.Mul(c.Sub(g, c.Mul(y, sum)), inv))
}

// lrnRule: Y = X·d^-β with d = bias + α·(the mean of X² in a window of channels) gives
//
//	dX = dY·d^-β - 2αβ·X·(the mean of dY·X·d^(-β-1) in the mirrored window)
//
// The window slides as an average pool over the axis of channels. Stashes X.
func lrnRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	rank := c.Rank(x)
	if rank > 4 {
		c.Unsupported("with rank %d", rank)
	}
	size := c.Node.Int("size", 1)
	alpha, beta, bias := float64(c.Node.Float("alpha", 1e-4)), float64(c.Node.Float("beta", 0.75)),
		float64(c.Node.Float("bias", 1))
	before, after := (size-1)/2, size-1-(size-1)/2
	d := c.mathScale(c.channelMeans(c.Mul(x, x), size, before, after), alpha)
	d = c.Add(d, c.Scalar(bias, d))
	direct := c.Mul(g, c.Op("Pow", nil, d, c.Scalar(-beta, d)))
	around := c.channelMeans(c.Div(c.Mul(direct, x), d), size, after, before)
	c.Set(0, c.Sub(direct, c.Mul(x, c.mathScale(around, 2*alpha*beta))))
}

// channelMeans averages windows over axis 1, counting what lies beyond it as zeros.
func (c *Ctx) channelMeans(v Value, size, before, after int64) Value {
	spatial := c.Rank(v) - 1
	kernel, pads := make([]int64, spatial), make([]int64, 2*spatial)
	for i := range kernel {
		kernel[i] = 1
	}
	kernel[0], pads[0], pads[spatial] = size, before, after
	pool := c.Op("AveragePool", Attrs{A("count_include_pad", int64(1)), A("kernel_shape", kernel), A("pads", pads)},
		c.Unsqueeze(v, 1))
	return c.Squeeze(pool, 1)
}

// expandSkipLayerNormalization: the sum of input, skip and bias, and its norm over the last axis.
func expandSkipLayerNormalization(c *Ctx) []Value {
	c.Need(17) // LayerNormalization
	sum := c.skipSum(4)
	attrs := Attrs{A("axis", int64(-1)), A("epsilon", c.Node.Float("epsilon", 1e-12))}
	in := []Value{sum, c.In(2)}
	if c.Has(3) {
		in = append(in, c.In(3))
	}
	out := c.Ops("LayerNormalization", 3, attrs, in...)
	return []Value{out[0], out[1], out[2], sum}
}

// expandSkipSimplified: the same without mean and shift, from its parts.
func expandSkipSimplified(c *Ctx) []Value {
	sum := c.skipSum(3)
	rank := int64(c.Rank(sum))
	square := c.meanOver(c.Mul(sum, sum), rank-1)
	inv := c.inverseDeviation(square, float64(c.Node.Float("epsilon", 1e-12)))
	y := c.Mul(c.Mul(sum, inv), c.In(2))
	return []Value{y, None, c.Cast(inv, graph.Float32), sum}
}

// skipSum adds input and skip, and the bias where there is one.
func (c *Ctx) skipSum(bias int) Value {
	sum := c.Add(c.In(0), c.In(1))
	if c.Has(bias) {
		sum = c.Add(sum, c.In(bias))
	}
	return sum
}
