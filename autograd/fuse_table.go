package autograd

import (
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// fusedRows are the patterns that are recognised, as exporters write them. Among those with the same
// last node the first that fits counts. Each is here because its operator's gradient reads less of the
// forward half than those of its nodes:
//
//	norms         the output and the deviation, in place of the input less its mean as well
//	gelus         the input, in place of three values of its size
//	softmaxes     the output, in place of the input and the exponentials
//
// The scale and shift behind a norm are not part of it: the gradient of the scale reads the output,
// too.
var fusedRows = []fusedRow{
	{name: "layer norm", widths: op.Wide, rule: fusedLayerNorm,
		form: `Div(` + pattern.Centred + `, s: ` + pattern.Spread + `)`},
	{name: "layer norm", widths: op.Wide, rule: fusedLayerNorm,
		form: `Mul(` + pattern.Centred + `, ` + pattern.Inverse + `)`},
	{name: "RMS norm", widths: op.Wide, rule: fusedRMSNorm, form: `Div(d, s: ` + pattern.Spread + `)`},
	{name: "RMS norm", widths: op.Wide, rule: fusedRMSNorm, form: `Mul(d, ` + pattern.Inverse + `)`},
	{name: "GELU", widths: op.Either, rule: fusedGelu, form: `Mul(Mul(x, ` + pattern.Twice + `), 0.5)`},
	{name: "GELU", widths: op.Either, rule: fusedGelu, form: `Mul(Mul(x, 0.5), ` + pattern.Twice + `)`},
	{name: "GELU", widths: op.Either, rule: fusedGelu, form: `Mul(x, Mul(` + pattern.Twice + `, 0.5))`},
	{name: "GELU by tanh", widths: op.Either, rule: fusedTanhGelu, form: `Mul(Mul(x, ` + pattern.NearTwice + `), 0.5)`},
	{name: "GELU by tanh", widths: op.Either, rule: fusedTanhGelu, form: `Mul(Mul(x, 0.5), ` + pattern.NearTwice + `)`},
	{name: "GELU by tanh", widths: op.Either, rule: fusedTanhGelu, form: `Mul(x, Mul(` + pattern.NearTwice + `, 0.5))`},
	{name: "softmax", widths: op.Wide, rule: fusedSoftmax, form: `Div(e: Exp(Sub(x, ReduceMax(x))), ReduceSum(e))`},
	{name: "softmax", widths: op.Wide, rule: fusedSoftmax, form: `Div(e: Exp(x), ReduceSum(e))`},
	{name: "log-softmax", widths: op.Wide, rule: fusedLogSoftmax,
		form: `Sub(d: Sub(x, ReduceMax(x)), Log(ReduceSum(Exp(d))))`},
}

// fusedLayerNorm: with y = (x - mean)/s, dx = (dY - mean(dY) - y·mean(dY·y))/s.
func fusedLayerNorm(f *fusion) Value {
	return f.norm(func(g Value) Value { return f.Sub(g, f.over("ReduceMean", g)) })
}

// fusedRMSNorm: with y = d/s, dd = (dY - y·mean(dY·y))/s.
func fusedRMSNorm(f *fusion) Value { return f.norm(func(g Value) Value { return g }) }

// norm is the gradient of the input that a norm divides by the root of its mean square, or
// multiplies by the inverse. project removes from dY the part that does not reach the input. 16-bit
// values are converted to float32.
func (f *fusion) norm(project func(Value) Value) Value {
	d := f.normType(f.Out(0))
	y, g := f.Cast(f.Out(0), d), f.Cast(f.Grad(0), d)
	along := f.Mul(y, f.over("ReduceMean", f.Mul(g, y)))
	g = f.Sub(project(g), along)
	if s := f.Named("s"); s != None {
		g = f.Div(g, f.Cast(f.read(s), d))
	} else {
		g = f.Mul(g, f.Cast(f.read(f.Named("i")), d))
	}
	return f.Cast(g, f.DType(f.Out(0)))
}

// fusedGelu is geluRule for y = x·Φ(x).
func fusedGelu(f *fusion) Value { return f.Mul(f.Grad(0), f.geluSlope(f.read(f.Input()))) }

// fusedTanhGelu is geluRule for the approximation by tanh.
func fusedTanhGelu(f *fusion) Value { return f.Mul(f.Grad(0), f.geluTanhSlope(f.read(f.Input()))) }

// fusedSoftmax is softmaxRule.
func fusedSoftmax(f *fusion) Value {
	g, y := f.Grad(0), f.softmaxOut()
	return f.Mul(f.Sub(g, f.over("ReduceSum", f.Mul(g, y))), y)
}

// fusedLogSoftmax is logSoftmaxRule.
func fusedLogSoftmax(f *fusion) Value {
	g, y := f.Grad(0), f.Out(0)
	return f.Sub(g, f.Mul(f.Op("Exp", nil, y), f.over("ReduceSum", g)))
}
