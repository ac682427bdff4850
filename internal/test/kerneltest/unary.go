package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(elemUnaryCases)
	register(elemSpecialCases)
}

// elemUnary is an operator of one operand with its definition.
type elemUnary struct {
	name   string
	kind   graph.Kind
	attrs  []graph.Attr
	f      func(x float64) float64
	lo, hi float64 // domain
	ints   bool    // whether it takes integers
}

func elemSigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func elemGelu(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }

func elemGeluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*math.Pow(x, 3))))
}

// elemElu is the common form of Elu, Selu and Celu.
func elemElu(alpha, gamma, inner float64) func(x float64) float64 {
	return func(x float64) float64 {
		if x < 0 {
			return gamma * alpha * (math.Exp(x/inner) - 1)
		}
		return gamma * x
	}
}

var elemUnaries = []elemUnary{
	{"", op.Abs, nil, math.Abs, -9, 9, true},
	{"", op.Acos, nil, math.Acos, -1, 1, false},
	{"", op.Acosh, nil, math.Acosh, 1, 9, false},
	{"", op.Asin, nil, math.Asin, -1, 1, false},
	{"", op.Asinh, nil, math.Asinh, -9, 9, false},
	{"", op.Atan, nil, math.Atan, -9, 9, false},
	{"", op.Atanh, nil, math.Atanh, -0.9, 0.9, false},
	{"", op.Ceil, nil, math.Ceil, -9, 9, false},
	{"", op.Celu, nil, elemElu(1, 1, 1), -9, 9, false},
	{" alpha", op.Celu, []graph.Attr{Attr("alpha", float32(2))}, elemElu(2, 1, 2), -9, 9, false},
	{"", op.Cos, nil, math.Cos, -9, 9, false},
	{"", op.Cosh, nil, math.Cosh, -3, 3, false},
	{"", op.Elu, nil, elemElu(1, 1, 1), -9, 9, false},
	{" alpha", op.Elu, []graph.Attr{Attr("alpha", float32(0.25))}, elemElu(0.25, 1, 1), -9, 9, false},
	{"", op.Erf, nil, math.Erf, -3, 3, true},
	{"", op.Exp, nil, math.Exp, -9, 3, false},
	{"", op.Floor, nil, math.Floor, -9, 9, false},
	{"", op.Gelu, nil, elemGelu, -5, 5, false},
	{" tanh", op.Gelu, []graph.Attr{Attr("approximate", "tanh")}, elemGeluTanh, -5, 5, false},
	{"", op.GeluMS, nil, elemGelu, -5, 5, false},
	{"", op.FastGelu, nil, elemGeluTanh, -5, 5, false},
	{"", op.HardSigmoid, nil, func(x float64) float64 { return min(1, max(0, float64(float32(0.2))*x+0.5)) },
		-9, 9, false},
	{" params", op.HardSigmoid, []graph.Attr{Attr("alpha", float32(0.5)), Attr("beta", float32(0.25))},
		func(x float64) float64 { return min(1, max(0, x/2+0.25)) }, -3, 3, false},
	{"", op.HardSwish, nil, func(x float64) float64 { return x * min(1, max(0, x/6+0.5)) }, -5, 5, false},
	{"", op.LeakyRelu, nil, func(x float64) float64 { return max(x, float64(float32(0.01))*x) }, -9, 9, false},
	{" alpha", op.LeakyRelu, []graph.Attr{Attr("alpha", float32(0.5))},
		func(x float64) float64 { return max(x, 0.5*x) }, -9, 9, false},
	{"", op.Log, nil, math.Log, 0.01, 9, false},
	{"", op.Mish, nil, func(x float64) float64 { return x * math.Tanh(math.Log1p(math.Exp(x))) }, -9, 30, false},
	{"", op.Neg, nil, func(x float64) float64 { return -x }, -9, 9, true},
	{"", op.QuickGelu, nil, func(x float64) float64 { return x * elemSigmoid(float64(float32(1.702))*x) },
		-5, 5, false},
	{" alpha", op.QuickGelu, []graph.Attr{Attr("alpha", float32(0.5))},
		func(x float64) float64 { return x * elemSigmoid(0.5*x) }, -5, 5, false},
	{"", op.Reciprocal, nil, func(x float64) float64 { return 1 / x }, 0.5, 9, false},
	{"", op.Relu, nil, func(x float64) float64 { return max(x, 0) }, -9, 9, true},
	{"", op.Round, nil, math.RoundToEven, -9, 9, false},
	{"", op.Selu, nil, elemElu(1.67326319217681884765625, 1.05070102214813232421875, 1), -9, 9, false},
	{" params", op.Selu, []graph.Attr{Attr("alpha", float32(2)), Attr("gamma", float32(3))}, elemElu(2, 3, 1),
		-9, 9, false},
	{"", op.Shrink, nil, func(x float64) float64 { return elemShrink(x, 0.5, 0) }, -2, 2, true},
	{" params", op.Shrink, []graph.Attr{Attr("lambd", float32(1.5)), Attr("bias", float32(1.5))},
		func(x float64) float64 { return elemShrink(x, 1.5, 1.5) }, -4, 4, false},
	{"", op.Sigmoid, nil, elemSigmoid, -20, 20, false},
	{"", op.Sign, nil, func(x float64) float64 { return elemBool(x > 0) - elemBool(x < 0) }, -9, 9, true},
	{"", op.Sin, nil, math.Sin, -9, 9, false},
	{"", op.Sinh, nil, math.Sinh, -3, 3, false},
	{"", op.Softplus, nil, func(x float64) float64 { return math.Log1p(math.Exp(x)) }, -20, 20, false},
	{"", op.Softsign, nil, func(x float64) float64 { return x / (1 + math.Abs(x)) }, -9, 9, false},
	{"", op.Sqrt, nil, math.Sqrt, 0, 9, false},
	{"", op.Swish, nil, func(x float64) float64 { return x * elemSigmoid(x) }, -9, 9, false},
	{" alpha", op.Swish, []graph.Attr{Attr("alpha", float32(2))}, func(x float64) float64 {
		return x * elemSigmoid(2*x)
	}, -9, 9, false},
	{"", op.Tan, nil, math.Tan, -1, 1, false},
	{"", op.Tanh, nil, math.Tanh, -9, 9, false},
	{"", op.ThresholdedRelu, nil, func(x float64) float64 { return x * elemBool(x > 1) }, -3, 3, false},
	{" alpha", op.ThresholdedRelu, []graph.Attr{Attr("alpha", float32(-1))},
		func(x float64) float64 { return x * elemBool(x > -1) }, -3, 3, false},
}

func elemShrink(x, lambd, bias float64) float64 {
	switch {
	case x < -lambd:
		return x + bias
	case x > lambd:
		return x - bias
	}
	return 0
}

func elemUnaryCases() []Case {
	var cases []Case
	for _, u := range elemUnaries {
		f := func(x []float64) float64 { return u.f(x[0]) }
		types := elemFloats
		if u.ints {
			types = elemTypes
		}
		for _, d := range types {
			lo := u.lo
			if d == graph.Uint8 || d == graph.Uint16 || d == graph.Uint32 || d == graph.Uint64 {
				if u.kind == op.Neg {
					continue
				}
				lo = max(lo, 0)
			}
			cases = append(cases,
				elemCase(fmt.Sprint(d, u.name), u.kind, d, f, elemFill(d, lo, u.hi, 3, 347)).with(u.attrs...))
		}
		cases = append(cases,
			elemCase("large"+u.name, u.kind, graph.Float32, f,
				elemFill(graph.Float32, u.lo, u.hi, 20011)).with(u.attrs...),
			elemCase("empty"+u.name, u.kind, graph.Float32, f,
				elemFill(graph.Float32, u.lo, u.hi, 2, 0)).with(u.attrs...),
			elemCase("rank 0"+u.name, u.kind, graph.Float16, f, elemFill(graph.Float16, u.lo, u.hi)).with(u.attrs...))
		if u.kind != op.FastGelu { // the bias is checked
			cases = append(cases,
				elemFails("bool"+u.name, u.kind, graph.Bool, "types",
					elemTensor(graph.Bool, []int{1}, 1)).with(u.attrs...))
		}
	}
	for _, d := range elemFloats {
		x := elemTensor(d, []int{6}, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
		cases = append(cases,
			elemGiven(fmt.Sprint("halves ", d), op.Round,
				elemTensor(d, []int{6}, -2, -2, math.Copysign(0, -1), 0, 2, 2), x))
	}
	return append(cases,
		elemFails("approximate", op.Gelu, graph.Float32, "approximate",
			elemFill(graph.Float32, 0, 1, 2)).with(Attr("approximate", "erf")),
		elemFails("alpha 0", op.Celu, graph.Float32, "alpha",
			elemFill(graph.Float32, 0, 1, 2)).with(Attr("alpha", float32(0))))
}

// elemSpecialCases have infinities, NaN and zeros, and tests for them.
func elemSpecialCases() []Case {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	var cases []Case
	given := func(kind graph.Kind, d graph.DType, x, want []float64) {
		out := d
		if kind == op.IsInf || kind == op.IsNaN || kind == op.IsFinite {
			out = graph.Bool
		}
		cases = append(cases,
			elemGiven(fmt.Sprint("special ", d), kind, elemTensor(out, []int{len(want)}, want...),
				elemTensor(d, []int{len(x)}, x...)))
	}
	for _, d := range elemFloats {
		x := []float64{inf, -inf, nan, 0, zero, 1}
		given(op.IsInf, d, x, []float64{1, 1, 0, 0, 0, 0})
		given(op.IsNaN, d, x, []float64{0, 0, 1, 0, 0, 0})
		given(op.IsFinite, d, x, []float64{0, 0, 0, 1, 1, 1})
		given(op.Abs, d, x, []float64{inf, inf, nan, 0, 0, 1})
		given(op.Neg, d, x, []float64{-inf, inf, nan, zero, 0, -1})
		given(op.Relu, d, x, []float64{inf, 0, nan, 0, 0, 1})
		given(op.Sign, d, x, []float64{1, -1, nan, 0, 0, 1})
		given(op.LeakyRelu, d, x, []float64{inf, -inf, nan, 0, zero, 1})
		given(op.Elu, d, x, []float64{inf, -1, nan, 0, 0, 1})
		given(op.Softplus, d, x, []float64{inf, 0, nan, math.Ln2, math.Ln2, math.Log1p(math.E)})
		given(op.Sigmoid, d, x, []float64{1, 0, nan, 0.5, 0.5, 1 / (1 + math.Exp(-1))})
		given(op.Tanh, d, x, []float64{1, -1, nan, 0, zero, math.Tanh(1)})
		given(op.Exp, d, x, []float64{inf, 0, nan, 1, 1, math.E})
		given(op.Reciprocal, d, x, []float64{0, zero, nan, inf, -inf, 1})
		given(op.ThresholdedRelu, d, x, []float64{inf, 0, 0, 0, 0, 0})
		given(op.HardSwish, d, x, []float64{inf, nan, nan, 0, zero, 1.0 * 4 / 6})
		cases = append(cases,
			elemGiven(fmt.Sprint("positive ", d), op.IsInf, elemTensor(graph.Bool, []int{3}, 1, 0, 0),
				elemTensor(d, []int{3}, inf, -inf, nan)).
				with(Attr("detect_negative", int64(0))),
			elemGiven(fmt.Sprint("negative ", d), op.IsInf, elemTensor(graph.Bool, []int{3}, 0, 1, 0),
				elemTensor(d, []int{3}, inf, -inf, nan)).
				with(Attr("detect_positive", int64(0))))
	}
	least := executor.NewTensor[int32](graph.Int32, []int{2}, math.MinInt32, 5)
	return append(cases,
		elemGiven("least", op.Abs, executor.NewTensor[int32](graph.Int32, []int{2}, math.MinInt32, 5), least),
		elemGiven("least", op.Neg, executor.NewTensor[int32](graph.Int32, []int{2}, math.MinInt32, -5), least),
		elemGiven("bools", op.Not, elemTensor(graph.Bool, []int{2, 2}, 0, 1, 1, 0),
			elemTensor(graph.Bool, []int{2, 2}, 1, 0, 0, 1)),
		elemFails("ints", op.Not, graph.Int32, "types", least),
		elemFails("ints", op.IsNaN, graph.Bool, "types", least))
}
