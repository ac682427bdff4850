package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemPowCases) }

func elemPowCases() []Case {
	pow := func(x []float64) float64 { return math.Pow(x[0], x[1]) }
	var cases []Case
	for _, base := range elemTypes {
		for _, exponent := range elemTypes {
			if base != exponent && base != graph.Float32 && base != graph.Int64 && exponent != graph.Float32 &&
				exponent != graph.Int64 {
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
				elemCase(fmt.Sprint(d, " to one by one ", y), op.Pow, d, pow, x,
					elemWant(d, func([]float64) float64 { return y }, x)))
		}
		special := elemTensor(d, []int{4}, math.Inf(-1), math.Copysign(0, -1), math.NaN(), -8)
		for _, y := range []float64{2, 3, 0.5} {
			cases = append(cases,
				elemCase(fmt.Sprint(d, " special to ", y), op.Pow, d, pow, special, elemTensor(d, nil, y)),
				elemCase(fmt.Sprint(d, " special to all ", y), op.Pow, d, pow, special,
					elemTensor(d, []int{4}, y, y, y, y)))
		}
	}
	i32 := func(v ...int32) *executor.Tensor { return executor.NewTensor(graph.Int32, []int{len(v)}, v...) }
	f := elemFill(graph.Float32, 1, 2, 3)
	return append(cases,
		elemGiven("negative exponents", op.Pow, i32(1, -1, 1, 0, math.MaxInt32), i32(1, -1, -1, 5, 0),
			i32(-3, -3, -2, -1, -1)),
		elemGiven("wraps", op.Pow, i32(math.MinInt32, 0, 1), i32(2, 2, -1), i32(31, 32, 1000)),
		elemCase("large", op.Pow, graph.Float32, pow, elemFill(graph.Float32, 0, 2, 30011),
			elemTensor(graph.Float32, []int{1}, 2)),
		elemCase("opset 7", op.Pow, graph.Float32, pow, f, f).at(7),
		elemFails("bool", op.Pow, graph.Float32, "types", f, elemTensor(graph.Bool, nil, 1)),
		elemFails("shapes", op.Pow, graph.Float32, "[2]", f, elemFill(graph.Float32, 0, 1, 2)))
}
