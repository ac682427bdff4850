package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func elemPowCases() []Case {
	pow := func(x []float64) float64 { return math.Pow(x[0], x[1]) }
	var cases []Case
	for _, base := range elemTypes {
		for _, exponent := range elemTypes {
			if base != exponent && base != graph.Float32 && base != graph.Int64 && exponent != graph.Float32 && exponent != graph.Int64 {
				continue
			}
			x, y := elemFill(base, 1, 3, 4, 9), elemFill(exponent, 0, 3, 9)
			want := func(v []float64) float64 {
				if base.IsInteger() {
					return math.Trunc(pow(v))
				}
				return pow(v)
			}
			cases = append(cases, elemCase(fmt.Sprintf("%v by %v", base, exponent), op.Pow, base, want, x, y))
		}
	}
	for _, d := range elemFloats {
		for _, y := range []float64{2, 3, 0.5, -1, 1, 0, 1.5} {
			x := elemFill(d, 0.1, 3, 3, 100)
			exponent := elemTensor(d, []int{}, y)
			cases = append(cases, elemCase(fmt.Sprint(d, " to ", y), op.Pow, d, pow, x, exponent),
				elemCase(fmt.Sprint(d, " to one by one ", y), op.Pow, d, pow, x, elemWant(d, func([]float64) float64 { return y }, x)))
		}
		special := elemTensor(d, []int{4}, math.Inf(-1), math.Copysign(0, -1), math.NaN(), -8)
		for _, y := range []float64{2, 3, 0.5} {
			cases = append(cases, elemCase(fmt.Sprint(d, " special to ", y), op.Pow, d, pow, special, elemTensor(d, nil, y)),
				elemCase(fmt.Sprint(d, " special to all ", y), op.Pow, d, pow, special, elemTensor(d, []int{4}, y, y, y, y)))
		}
	}
	i32 := func(v ...int32) *executor.Tensor { return executor.NewTensor(graph.Int32, []int{len(v)}, v...) }
	f := elemFill(graph.Float32, 1, 2, 3)
	return append(cases,
		elemGiven("negative exponents", op.Pow, i32(1, -1, 1, 0, math.MaxInt32), i32(1, -1, -1, 5, 0), i32(-3, -3, -2, -1, -1)),
		elemGiven("wraps", op.Pow, i32(math.MinInt32, 0, 1), i32(2, 2, -1), i32(31, 32, 1000)),
		elemCase("large", op.Pow, graph.Float32, pow, elemFill(graph.Float32, 0, 2, 30011), elemTensor(graph.Float32, []int{1}, 2)),
		elemCase("opset 7", op.Pow, graph.Float32, pow, f, f).at(7),
		elemFails("bool", op.Pow, graph.Float32, "types", f, elemTensor(graph.Bool, nil, 1)),
		elemFails("shapes", op.Pow, graph.Float32, "[2]", f, elemFill(graph.Float32, 0, 1, 2)))
}

// elemSelectCases are of Where and Clip.
func elemSelectCases() []Case {
	choose := func(x []float64) float64 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	}
	var cases []Case
	for _, d := range append([]graph.DType{graph.Bool}, elemTypes...) {
		hi := 100.0
		if d == graph.Bool {
			hi = 1.99
		}
		for _, s := range [][3][]int{{{3, 40}, {3, 40}, {3, 40}}, {{3, 1, 4}, {5, 1}, {}}, {{90}, {3, 90}, {3, 1}}, {{2, 1, 1}, {3, 1}, {5}}, {{3, 1}, {5}, {2, 1, 1}}, {{70}, {2, 1, 1}, {3, 1}}, {{2, 0}, {1}, {2, 1}}, {{}, {}, {}}} {
			c := elemCase(fmt.Sprintf("%v %v", d, s), op.Where, d, choose, elemFill(graph.Bool, 0, 1.99, s[0]...),
				elemFill(d, 0, hi, s[1]...), elemFill(d, 0, hi, s[2]...))
			cases = append(cases, c)
		}
	}
	cond := elemFill(graph.Bool, 0, 1.99, 30, 1001)
	f := elemFill(graph.Float32, -1, 1, 30, 1001)
	cases = append(cases,
		elemCase("large", op.Where, graph.Float32, choose, cond, f, elemTensor(graph.Float32, nil, 7)),
		elemCase("opset 9", op.Where, graph.Float32, choose, cond, f, f).at(9),
		elemFails("condition", op.Where, graph.Float32, "input 0", f, f, f),
		elemFails("types", op.Where, graph.Float32, "input 2", cond, f, elemTensor(graph.Float64, nil, 7)),
		elemFails("shapes", op.Where, graph.Float32, "[2]", cond, f, elemFill(graph.Float32, 0, 1, 2)))
	return append(cases, elemClipCases()...)
}

func elemClipCases() []Case {
	var cases []Case
	clip := func(x []float64) float64 { return math.Min(math.Max(x[0], x[1]), x[2]) }
	for _, d := range elemTypes {
		x := elemFill(d, 0, 100, 3, 700)
		low, high := elemTensor(d, []int{}, 20), elemTensor(d, []int{1}, 60)
		from := elemCase(fmt.Sprint("from ", d), op.Clip, d, func(x []float64) float64 { return math.Max(x[0], x[1]) }, x, low)
		to := elemCase(fmt.Sprint("to ", d), op.Clip, d, func(x []float64) float64 { return math.Min(x[0], x[1]) }, x, high)
		to.In = []*executor.Tensor{x, nil, high}
		cases = append(cases, from, to, elemCase(fmt.Sprint("both ", d), op.Clip, d, clip, x, low, high),
			elemCase(fmt.Sprint("crossed ", d), op.Clip, d, clip, x, high, low),
			elemGiven(fmt.Sprint("none ", d), op.Clip, x, x))
	}
	for _, d := range elemFloats {
		x := elemFill(d, -9, 9, 40)
		cases = append(cases,
			elemCase(fmt.Sprint("opset 6 ", d), op.Clip, d, func(x []float64) float64 { return min(max(x[0], -1), 2) }, x).at(6).
				with(Attr("min", float32(-1)), Attr("max", float32(2))),
			elemGiven(fmt.Sprint("opset 6 none ", d), op.Clip, x, x).at(6))
	}
	x := elemFill(graph.Float32, -9, 9, 30001)
	return append(cases,
		elemCase("large", op.Clip, graph.Float32, clip, x, elemTensor(graph.Float32, nil, 0), elemTensor(graph.Float32, nil, 6)).at(11),
		elemCase("one element", op.Clip, graph.Float32, clip, elemTensor(graph.Float32, []int{1, 1}, 9), elemTensor(graph.Float32, nil, 0),
			elemTensor(graph.Float32, nil, 6)),
		elemGiven("NaN", op.Clip, elemTensor(graph.Float32, []int{2}, math.NaN(), 6), elemTensor(graph.Float32, []int{2}, math.NaN(), 7),
			elemTensor(graph.Float32, nil, 0), elemTensor(graph.Float32, nil, 6)),
		elemGiven("empty", op.Clip, elemFill(graph.Float32, 0, 1, 0), elemFill(graph.Float32, 0, 1, 0), elemTensor(graph.Float32, nil, 0),
			elemTensor(graph.Float32, nil, 6)),
		elemFails("bounds", op.Clip, graph.Float32, "scalar", x, elemFill(graph.Float32, 0, 1, 2)))
}

// elemVariadicCases have other numbers of operands than two.
func elemVariadicCases() []Case {
	fold := map[graph.Kind]func(x []float64) float64{
		op.Sum: elemSum, op.Mean: func(x []float64) float64 { return elemSum(x) / float64(len(x)) },
		op.Max: func(x []float64) float64 {
			m := x[0]
			for _, v := range x {
				m = math.Max(m, v)
			}
			return m
		},
		op.Min: func(x []float64) float64 {
			m := x[0]
			for _, v := range x {
				m = math.Min(m, v)
			}
			return m
		},
	}
	nan := math.NaN()
	var cases []Case
	for _, kind := range []graph.Kind{op.Sum, op.Mean, op.Max, op.Min} {
		f := fold[kind]
		for _, d := range elemTypes {
			a, b, c := elemFill(d, 0, 30, 3, 1, 80), elemFill(d, 0, 30, 5, 1), elemFill(d, 0, 30, 3, 5, 80)
			cases = append(cases, elemCase(fmt.Sprint("one ", d), kind, d, f, a), elemCase(fmt.Sprint("three ", d), kind, d, f, a, b, c),
				elemCase(fmt.Sprint("equal ", d), kind, d, f, c, c, c, c), elemCase(fmt.Sprint("scalars ", d), kind, d, f,
					elemTensor(d, nil, 9), elemTensor(d, []int{1}, 5), elemFill(d, 0, 30, 4)))
		}
		x := elemFill(graph.Float32, -1, 1, 30, 1001)
		cases = append(cases,
			elemCase("large", kind, graph.Float32, f, x, elemFill(graph.Float32, -1, 1, 1001), x),
			elemCase("opset 8", kind, graph.Float32, f, x, x, x).at(8),
			elemCase("empty", kind, graph.Float32, f, elemFill(graph.Float32, 0, 1, 0, 2), elemFill(graph.Float32, 0, 1, 2), elemTensor(graph.Float32, nil, 1)),
			elemCase("NaN", kind, graph.Float32, f, elemTensor(graph.Float32, []int{3}, nan, 1, 1), elemTensor(graph.Float32, []int{3}, 1, nan, 1),
				elemTensor(graph.Float32, []int{3}, 1, 1, nan)),
			elemFails("three shapes", kind, graph.Float32, "input 2", x, x, elemFill(graph.Float32, 0, 1, 2)),
			elemFails("left out", kind, graph.Float32, "input 1", x, nil, x),
			elemFails("nothing", kind, graph.Float32, "inputs"))
	}
	return cases
}

func elemSum(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s
}
