package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(remainderCases) }

// remainderCases are prone to faults of rounding or wrapping.
func remainderCases() []Case {
	x := []float64{1e30, -1e30, 3e-42, 5.5, -5.5, 1e-45, 3e38, 7, math.Inf(1), 7, 0, 16777216, -0.75}
	y := []float64{7, 3e-38, 1.4e-42, 2, 2, 3, 1e-45, math.Inf(1), 7, 0, 7, 3, -0.5}
	want := make([]float64, len(x))
	for i := range x {
		want[i] = math.Mod(float64(float32(x[i])), float64(float32(y[i])))
	}
	f := func(v ...float64) *executor.Tensor { return elemTensor(graph.Float32, []int{len(v)}, v...) }
	trunc := Attr("fmod", int64(1))
	cases := []Case{elemGiven("far apart", op.Mod, f(want...), f(x...), f(y...)).with(trunc)}
	for _, d := range []graph.DType{graph.Int8, graph.Int16, graph.Int32, graph.Int64} {
		least := -math.Exp2(float64(d.Bits() - 1))
		ints := func(v ...float64) *executor.Tensor { return elemTensor(d, []int{len(v)}, v...) }
		a, b := ints(least, least, -7, 7, 7, -7, 6), ints(-1, 2, 2, -2, 2, -2, -3)
		cases = append(cases,
			elemGiven(fmt.Sprint("signs ", d), op.Div, ints(least, least/2, -3, -3, 3, 3, -2), a, b),
			elemGiven(fmt.Sprint("signs ", d), op.Mod, ints(0, 0, 1, -1, 1, -1, 0), a, b),
			elemGiven(fmt.Sprint("signs, truncated ", d), op.Mod, ints(0, 0, -1, 1, 1, -1, 0), a, b).with(trunc),
			elemFails(fmt.Sprint("by zero ", d), op.Div, d, "input 1, element 1: division by zero",
				a, elemTensor(d, []int{3, 1}, 1, 0, 0)))
	}
	return cases
}
