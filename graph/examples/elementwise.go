package examples

import (
	"math"

	"memopt/graph"
)

// addBias computes y = bias + x, where the bias is broadcast over the two leading dims of x.
func (t *tape) addBias(name string, x, bias *value) *value {
	y := t.apply(onnxDomain, "Add", name, []*value{bias, x})
	t.push(name, []*value{bias, x}, func(g *gradient) {
		dy := g.gradientOf(y)
		g.reduceTo(bias, dy, 0, 1)
		g.emit(onnxDomain, "Identity", g.to(x), ids(dy))
	})
	return y
}

// add computes y = a + b for operands of equal dims; both gradients are dy.
func (t *tape) add(name string, a, b *value) *value {
	y := t.apply(onnxDomain, "Add", name, []*value{a, b})
	t.push(name, []*value{a, b}, func(g *gradient) {
		dy := g.gradientOf(y)
		g.emit(onnxDomain, "Identity", g.to(a), ids(dy))
		g.emit(onnxDomain, "Identity", g.to(b), ids(dy))
	})
	return y
}

// scale computes y = c·x for a constant c.
func (t *tape) scale(name string, x *value, c graph.ValueID) *value {
	y := t.apply(onnxDomain, "Mul", name, []*value{x, t.wrap(c, x.dtype)})
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(onnxDomain, "Mul", g.to(x), ids(g.gradientOf(y), c))
	})
	return y
}

// maskedFill computes y = mask ? fill : x, where the mask is broadcast and
// fill is constant: dx = mask ? 0 : dy.
func (t *tape) maskedFill(name string, mask, fill graph.ValueID, x *value) *value {
	y := t.wrap(t.node(onnxDomain, "Where", name, ids(mask, fill, x.id), []string{name + "_output_0"})[0], x.dtype)
	y.tracked = x.tracked
	t.push(name, []*value{x}, func(g *gradient) {
		zero := g.floatScalar("shared_zero", x.dtype, 0)
		g.emit(onnxDomain, "Where", g.to(x), ids(mask, zero, g.gradientOf(y)))
	})
	return y
}

// relu computes y = max(x, 0) with ONNX Runtime's gradient, which reads y.
func (t *tape) relu(name string, x *value) *value {
	y := t.apply(onnxDomain, "Relu", name, []*value{x})
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(msDomain, "ReluGrad", g.to(x), ids(g.gradientOf(y), y.id))
	})
	return y
}

// gelu computes y = x·Φ(x), Φ being the normal distribution function.
func (t *tape) gelu(name string, x *value) *value {
	y := t.apply(msDomain, "Gelu", name, []*value{x})
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(msDomain, "GeluGrad", g.to(x), ids(g.gradientOf(y), x.id))
	})
	return y
}

// biasFastGelu computes y = gelu(x + bias) with the tanh approximation, the
// bias fused into it. As the sum is not kept, its gradient is made from x and bias.
func (t *tape) biasFastGelu(name string, x, bias *value) *value {
	y := t.apply(msDomain, "FastGelu", name, []*value{x, bias})
	t.push(name, []*value{bias, x}, func(g *gradient) {
		sum := g.temp("dX")
		if x.readers == 1 {
			sum = g.to(x)
		}
		dx := g.emit(msDomain, "BiasFastGeluGrad_dX", sum, ids(g.gradientOf(y), x.id, bias.id))
		g.reduceTo(bias, dx, 0, 1)
		if x.readers > 1 {
			g.emit(onnxDomain, "Identity", g.to(x), ids(dx))
		}
	})
	return y
}

// geluErf computes y = x·(1 + erf(x/√2))/2 in ONNX's own operators, as
// PyTorch exports it, in five nodes under the given scope. Its gradient, by the product rule, is
//
//	dx = dy·( (1 + erf(x/√2))/2 + x·exp(-x²/2)/√(2π) )
//
// and reads x and 1 + erf(x/√2).
func (t *tape) geluErf(scope string, x *value) *value {
	one := t.floatScalar("shared_one", x.dtype, 1)
	half := t.floatScalar("shared_half", x.dtype, 0.5)
	op := func(op, out string, in ...graph.ValueID) graph.ValueID {
		return t.node(onnxDomain, op, scope+"/"+out, in, []string{scope + "/" + out + "_output_0"})[0]
	}
	scaled := op("Div", "Div", x.id, t.floatScalar("shared_sqrt_2", x.dtype, math.Sqrt2))
	erf := op("Erf", "Erf", scaled)
	erf1 := op("Add", "Add", erf, one)
	product := op("Mul", "Mul", x.id, erf1)
	y := t.wrap(op("Mul", "Mul_1", product, half), x.dtype)
	y.tracked = x.tracked
	t.push(scope, []*value{x}, func(g *gradient) { g.geluErfGrad(x, erf1, half, g.gradientOf(y)) })
	return y
}

func (g *gradient) geluErfGrad(x *value, erf1, half, dy graph.ValueID) {
	op := func(op, out string, in ...graph.ValueID) graph.ValueID {
		return g.emit(onnxDomain, op, g.temp(out), in)
	}
	cdf := op("Mul", "cdf", erf1, half)
	square := op("Mul", "square", x.id, x.id)
	exponent := op("Mul", "exponent", square, g.floatScalar("shared_minus_half", x.dtype, -0.5))
	density := op("Mul", "density", op("Exp", "exp", exponent),
		g.floatScalar("shared_inv_sqrt_2pi", x.dtype, 1/math.Sqrt(2*math.Pi)))
	slope := op("Add", "slope", cdf, op("Mul", "x_density", x.id, density))
	g.emit(onnxDomain, "Mul", g.to(x), ids(dy, slope))
}
