package autograd_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// unaryCases makes cases of y = call(x) for x of known and of symbolic dims.
func unaryCases(opset int64, lo, hi float64, calls ...string) []gradCase {
	var out []gradCase
	for _, call := range calls {
		op, attrs := call, ""
		if i := strings.IndexByte(call, '<'); i >= 0 {
			op, attrs = call[:i], call[i:]
		}
		for _, dims := range []string{"3, 4", "N, M", ""} {
			shape := "double[" + dims + "]"
			if dims == "" {
				shape = "double"
			}
			out = append(out, gradCase{
				Name:  fmt.Sprintf("%s %d [%s]", call, opset, dims),
				Graph: fmt.Sprintf("g (%s x) => (%s y) { y = %s%s(x) }", shape, shape, op, attrs),
				Opset: opset, Range: [2]float64{lo, hi}, Dims: symbolic.Env{"N": 2, "M": 5},
			})
		}
	}
	return out
}

func TestUnary(t *testing.T) {
	checkGradients(t, unaryCases(8, -2, 2, "Abs", "Relu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Tanh", "Softplus",
		"Softsign"))
	for _, opset := range []int64{9, 13, 17, 22} {
		checkGradients(t, unaryCases(opset, -2, 2, "Abs", "Asinh", "Atan", "Cos", "Cosh", "Erf", "Exp", "Neg",
			"Reciprocal", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Tanh"))
		checkGradients(t, unaryCases(opset, 0.1, 3, "Log", "Sqrt"))
		checkGradients(t, unaryCases(opset, -0.9, 0.9, "Acos", "Asin", "Atanh", "Tan"))
		checkGradients(t, unaryCases(opset, 1.1, 3, "Acosh"))
	}
}

func TestActivations(t *testing.T) {
	checkGradients(t, unaryCases(17, -3, 3, "Relu", "LeakyRelu", "LeakyRelu<alpha=0.3>", "LeakyRelu<alpha=0.0>",
		"LeakyRelu<alpha=-0.3>",
		"Elu", "Elu<alpha=0.4>", "Elu<alpha=-0.4>", "Elu<alpha=0.0>", "Selu", "Selu<alpha=1.2,gamma=0.7>",
		"Selu<alpha=-1.2>", "Selu<gamma=-0.5>",
		"Celu", "Celu<alpha=2.5>", "Celu<alpha=-1.5>", "ThresholdedRelu", "ThresholdedRelu<alpha=0.0>",
		"ThresholdedRelu<alpha=-1.0>",
		"Shrink", "Shrink<lambd=1.5,bias=1.5>", "Shrink<lambd=-1.0,bias=0.5>"))
	checkGradients(t, unaryCases(17, -6, 6, "HardSwish", "HardSigmoid", "HardSigmoid<alpha=0.4,beta=0.1>",
		"HardSigmoid<alpha=-0.4>"))
	checkGradients(t, unaryCases(18, -3, 3, "Mish"))
	checkGradients(t, unaryCases(20, -3, 3, "Gelu", `Gelu<approximate="tanh">`))
	checkGradients(t, unaryCases(24, -3, 3, "Swish", "Swish<alpha=1.7>", "Relu", "Elu", "Mish", "HardSwish"))
	checkGradients(t, unaryCases(17, -3, 3, "com.microsoft.Gelu", "com.microsoft.QuickGelu",
		"com.microsoft.QuickGelu<alpha=0.8>", "com.microsoft.FastGelu"))
}

// TestNoGradient: no gradient flows, and that is no fault.
func TestNoGradient(t *testing.T) {
	checkGradients(t, unaryCases(17, 0.1, 0.4, "Floor", "Ceil", "Round", "Sign"))
	checkGradients(t, []gradCase{
		{Name: "masks",
			Graph: `g (double[4] x, double[4] z) => (double[4] y) { a = Greater(x, z)  b = Less(x, z)  c = Or(a, b)  d = Not(c)  e = Xor(d, a)
			f = IsNaN(x)  h = IsInf(x)  i = And(f, h)  j = Equal(i, e)  k = Or(j, i)  l = GreaterOrEqual(x, z)  m = LessOrEqual(x, z)  n = And(l, m) o = Or(n, k)
			p = Cast<to=11>(o)  y = Mul(x, p) }`},
		{Name: "cast to integers",
			Graph: `g (double[4] x) => (double[4] y) { a = Cast<to=7>(x)  b = Cast<to=11>(a)  y = Mul(x, b) }`,
			Range: [2]float64{1.1, 1.9}},
		{Name: "finite",
			Graph: `g (double[4] x) => (double[4] y) { a = com.microsoft.IsFinite(x)  b = Cast<to=11>(a)  y = Mul(x, b) }`},
		{Name: "all finite",
			Graph: `g (double[4] x) => (double[4] y) { a = com.microsoft.IsAllFinite(x)  b = Cast<to=11>(a)  y = Mul(x, b) }`},
	})
}

// binaryCases makes cases of y = call(a, b) with all sorts of broadcasting.
func binaryCases(opset int64, lo, hi float64, call string) []gradCase {
	env := symbolic.Env{"N": 3, "M": 4}
	shapes := [][3]string{
		{"[2, 3]", "[2, 3]", "[2, 3]"}, {"[2, 3]", "[3]", "[2, 3]"}, {"[3]", "[2, 3]", "[2, 3]"},
		{"[2, 1]", "[1, 3]", "[2, 3]"},
		{"[2, 3]", "", "[2, 3]"}, {"", "[2, 3]", "[2, 3]"}, {"[2, 3]", "[1]", "[2, 3]"},
		{"[3]", "[1, 1, 1]", "[1, 1, 3]"}, {"", "", ""},
		{"[N, M]", "[N, M]", "[N, M]"}, {"[N, M]", "[M]", "[N, M]"}, {"[N, 1]", "[M]", "[N, M]"},
		{"[2, 0]", "[2, 1]", "[2, 0]"},
	}
	var out []gradCase
	for _, s := range shapes {
		out = append(out, gradCase{
			Name:  fmt.Sprintf("%s %d %s %s", call, opset, s[0], s[1]),
			Graph: fmt.Sprintf("g (double%s a, double%s b) => (double%s y) { y = %s(a, b) }", s[0], s[1], s[2], call),
			Opset: opset, Range: [2]float64{lo, hi}, Dims: env,
		})
	}
	return out
}

func TestBinary(t *testing.T) {
	for _, opset := range []int64{13, 17, 18} {
		for _, op := range []string{"Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"} {
			checkGradients(t, binaryCases(opset, -2, 2, op))
		}
		for _, op := range []string{"Div", "Pow"} {
			checkGradients(t, binaryCases(opset, 0.4, 2, op))
		}
		checkGradients(t, binaryCases(opset, 0.4, 5, "Mod<fmod=1>"))
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"} {
		checkGradients(t, binaryCases(8, -2, 2, op)[:8])
	}
	checkGradients(t, binaryCases(8, 0.4, 2, "Pow")[:8])
	checkGradients(t, []gradCase{
		{Name: "mod of mixed signs",
			Graph: `g (double[5, 6] a, double[6] b) => (double[5, 6] y) { y = Mod<fmod=1>(a, b) }`,
			Range: [2]float64{-5, 5}},
		{Name: "one side", Graph: `g (double[5] a, double[5] b) => (double[5] y) { y = Div(a, b) }`, Wrt: []string{"b"},
			Range: [2]float64{1, 2}},
		{Name: "division of 1", Graph: `g (double[5] b) => (double[5] y) <double a = {1}> { y = Div(a, b) }`,
			Range: [2]float64{1, 2}},
		{Name: "square",
			Graph: `g (double[5] x) => (double[5] y, double[5] z) { y = Div(x, x)  a = Sub(x, x)  b = Mul(x, x)  z = Add(a, b) }`},
	})
}

// TestUnknownRank: what broadcasting added is found at run time.
func TestUnknownRank(t *testing.T) {
	env, axes := symbolic.Env{
		"A": 1,
	}, map[string]*executor.Tensor{"a": executor.NewTensor[int64](graph.Int64, []int{1}, 1)}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Mod<fmod = 1>"} {
		var cases []gradCase
		for _, operands := range []string{"(r, b)", "(b, r)"} {
			cases = append(cases,
				gradCase{Name: op + operands,
					Graph: `g (double[2, 3, 4] x, int64[A] a, double[5, 1, 1] b) => (double y) { r = ReduceMax<keepdims = 0>(x, a)  s = ` + op + operands + `  y = ReduceSum<keepdims = 0>(s) }`,
					Opset: 18, Dims: env, In: axes, Range: [2]float64{0.5, 2}})
		}
		checkGradients(t, cases)
	}
}

func TestVariadic(t *testing.T) {
	n := symbolic.Env{"N": 3, "M": 4}
	for _, op := range []string{"Max", "Min", "Sum", "Mean"} {
		checkGradients(t, []gradCase{
			{Name: op + " of one", Graph: `g (double[3] a) => (double[3] y) { y = ` + op + `(a) }`},
			{
				Name: op + " of three",
				Graph: `g (double[2, 3] a, double[3] b, double[2, 1] c) => (double[2, 3] y) { y = ` + op +
					`(a, b, c) }`,
			},
			{Name: op + " of four",
				Graph: `g (double[3] a, double[2, 1] b, double c, double[M, N] d) => (double[K, L] y) { y = ` + op +
					`(a, b, c, d) }`,
				Dims: symbolic.Env{"M": 2, "N": 3}},
			{Name: op + " symbolic",
				Graph: `g (double[N, M] a, double[M] b, double[N, 1] c) => (double[N, M] y) { y = ` + op +
					`(a, b, c) }`,
				Dims: n},
			{Name: op + " last only", Graph: `g (double[3] a, double[3] b, double[3] c) => (double[3] y) { y = ` + op +
				`(a, b, c) }`,
				Wrt: []string{"c"}},
			{Name: op + " first only", Graph: `g (double[3] a, double[3] b, double[3] c) => (double[3] y) { y = ` + op +
				`(a, b, c) }`,
				Wrt: []string{"a"}},
			{Name: op + " middle only", Graph: `g (double[3] a, double[3] b, double[3] c) => (double[3] y) { y = ` +
				op + `(a, b, c) }`,
				Wrt: []string{"b"}},
			{
				Name: op + " twice the same", Graph: `g (double[3] a, double[3] b) => (double[3] y) { y = ` + op +
					`(a, b, a) }`,
			},
		})
	}
}

func TestPow(t *testing.T) {
	var cases []gradCase
	for _, e := range []string{"0", "1", "2", "3", "0.5", "-1", "2.7", "-0.5", "4"} {
		for _, form := range []string{"double e = {%s}", "double[1] e = {%s}", "double[1, 1] e = {%s}",
			"float e = {%s}"} {
			y := "double[3]"
			if strings.Contains(form, "[1, 1]") {
				y = "double[1, 3]"
			}
			cases = append(cases,
				gradCase{Name: e + " as " + form, Graph: `g (double[3] x) => (` + y + ` y) <` + fmt.Sprintf(form, e) +
					`> { y = Pow(x, e) }`,
					Range: [2]float64{0.2, 2}})
		}
	}
	cases = append(cases,
		gradCase{Name: "integer", Graph: `g (double[3] x) => (double[3] y) <int64 e = {3}> { y = Pow(x, e) }`},
		gradCase{
			Name: "integer, minus 2", Graph: `g (double[3] x) => (double[3] y) <int32 e = {-2}> { y = Pow(x, e) }`,
		},
		gradCase{
			Name:  "integers",
			Graph: `g (double[2, 4] x) => (double[2, 4] y) <int64[4] e = {0, 1, 2, 3}> { y = Pow(x, e) }`,
		},
		gradCase{
			Name:  "node",
			Graph: `g (double[3] x) => (double[3] y) { e = Constant<value_float = 3.0>()  y = Pow(x, e) }`,
		},
		gradCase{
			Name:  "cast",
			Graph: `g (double[3] x) => (double[3] y) { c = Constant<value = int64 {2}>() e = Cast<to=11>(c)  y = Pow(x, e) }`,
		},
		gradCase{Name: "cast exponents",
			Graph: `g (double[N, 2] x, double[2] e) => (double[N, 2] y) { f = Cast<to=1>(e)  y = Pow(x, f) }`,
			Wrt:   []string{"x"}, Range: [2]float64{0.3, 2}, Dims: symbolic.Env{"N": 2}},
		gradCase{Name: "exponent only", Graph: `g (double[3] x, double[3] e) => (double[3] y) { y = Pow(x, e) }`,
			Wrt: []string{"e"}, Range: [2]float64{0.3, 2}},
	)
	checkGradients(t, cases)
}

func TestSelect(t *testing.T) {
	n := symbolic.Env{"N": 3, "M": 4}
	checkGradients(t, []gradCase{
		{Name: "where",
			Graph: `g (double[2, 3] a, double[3] b, double[2, 1] c) => (double[2, 3] y) { m = Greater(a, c)  y = Where(m, b, c) }`},
		{Name: "where of scalars",
			Graph: `g (double[N, M] a, double b, double c) => (double[N, M] y) { m = Greater(a, b)  y = Where(m, b, c) }`,
			Dims:  n},
		{Name: "where, one",
			Graph: `g (double[N, M] a, double b) => (double[N, M] y) { m = Greater(a, b)  y = Where(m, a, b) }`,
			Dims:  n, Opset: 9},
		{Name: "clip 6", Graph: `g (double[20] x) => (double[20] y) { y = Clip<min=-0.5, max=1.0>(x) }`, Opset: 10},
		{Name: "clip 6, no bounds", Graph: `g (double[20] x) => (double[20] y) { y = Clip(x) }`, Opset: 9},
		{Name: "clip", Graph: `g (double[N, 20] x) => (double[N, 20] y) <double lo = {-0.5}, double hi = {1}> { y = Clip(x, lo, hi) }`,
			Opset: 11, Dims: n},
		{Name: "clip below", Graph: `g (double[20] x) => (double[20] y) <double lo = {-0.5}> { y = Clip(x, lo) }`,
			Opset: 13},
		{Name: "clip above", Graph: `g (double[20] x) => (double[20] y) <double hi = {0.5}> { y = Clip(x, , hi) }`,
			Opset: 12},
		{Name: "clip, no bounds", Graph: `g (double[20] x) => (double[20] y) { y = Clip(x) }`},
		{Name: "cast", Graph: `g (double[N] x) => (double[N] y) { a = Cast<to=1>(x)  b = Cast<to=11>(a)  y = Mul(b, x) }`,
			Dims: n, Tol: 0.1},
		{Name: "cast like",
			Graph: `g (double[4] x) => (double[4] y) <float f = {1}> { a = CastLike(x, f)  b = CastLike(a, x)  y = Mul(b, x) }`,
			Tol:   0.1},
		{Name: "prelu", Graph: `g (double[2, 3, 4] x, double[3, 1] s) => (double[2, 3, 4] y) { y = PRelu(x, s) }`},
		{Name: "prelu, scalar", Graph: `g (double[N, M] x, double[1] s) => (double[N, M] y) { y = PRelu(x, s) }`,
			Dims: n, Opset: 9},
		{Name: "prelu, slope only", Graph: `g (double[N, M] x, double[M] s) => (double[N, M] y) { y = PRelu(x, s) }`,
			Dims: n, Wrt: []string{"s"}},
	})
}

func TestMicrosoft(t *testing.T) {
	n := symbolic.Env{"N": 2, "S": 3, "C": 4}
	checkGradients(t, []gradCase{
		{Name: "BiasAdd",
			Graph: `g (double[N, S, C] x, double[C] b, double[N, S, C] s) => (double[N, S, C] y) { y = com.microsoft.BiasAdd(x, b, s) }`,
			Dims:  n},
		{Name: "BiasGelu",
			Graph: `g (double[N, 4] x, double[4] b) => (double[N, 4] y) { y = com.microsoft.BiasGelu(x, b) }`,
			Dims:  n},
		{Name: "BiasGelu, bias",
			Graph: `g (double[N, C] x, double[C] b) => (double[N, C] y) { y = com.microsoft.BiasGelu(x, b) }`,
			Dims:  n, Wrt: []string{"b"}},
		{Name: "FastGelu",
			Graph: `g (double[N, C] x, double[C] b) => (double[N, C] y) { y = com.microsoft.FastGelu(x, b) }`,
			Dims:  n},
		{Name: "BiasSplitGelu",
			Graph: `g (double[2, 3, 4] x, double[4] b) => (double[2, 3, 2] y) { y = com.microsoft.BiasSplitGelu(x, b) }`},
		{Name: "BiasSplitGelu, symbolic",
			Graph: `g (double[N, S, C] x, double[C] b) => (double[N, S, D] y) { y = com.microsoft.BiasSplitGelu(x, b) }`,
			Dims:  n, Opset: 18},
		{Name: "Scale", Graph: `g (double[N, C] x, double s) => (double[N, C] y) { y = com.microsoft.Scale(x, s) }`,
			Dims: n},
		{Name: "Scale down",
			Graph: `g (double[N, C] x, double[1] s) => (double[N, C] y) { y = com.microsoft.Scale<scale_down=1>(x, s) }`,
			Dims:  n},
		{Name: "Scale float",
			Graph: `g (double[N, C] x) => (double[N, C] y) <float s = {3}> { y = com.microsoft.Scale<scale_down=1>(x, s) }`,
			Dims:  n},
		{Name: "ScaledSum",
			Graph: `g (double[N, C] a, double[N, C] b, double[N, C] c) => (double[N, C] y) { y = com.microsoft.ScaledSum<scale_0=0.5, scale_1=1.0, scale_2=-2.0>(a, b, c) }`,
			Dims:  n},
		{Name: "ScaledSum of two",
			Graph: `g (double[3] a, double[3] b) => (double[3] y) { y = com.microsoft.ScaledSum<scale_0=0.5, scale_1=2.0>(a, b) }`},
	})
}
