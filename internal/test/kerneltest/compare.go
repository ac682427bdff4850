package kerneltest

import (
	"fmt"
	"math"

	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemCompareCases) }

func elemCompareCases() []Case {
	compare := map[graph.Kind]func(a, b float64) bool{
		op.Equal: func(a, b float64) bool { return a == b }, op.Less: func(a, b float64) bool { return a < b },
		op.LessOrEqual: func(a, b float64) bool { return a <= b }, op.Greater: func(a, b float64) bool { return a > b },
		op.GreaterOrEqual: func(a, b float64) bool { return a >= b },
	}
	nan := math.NaN()
	var cases []Case
	for _, kind := range []graph.Kind{op.Equal, op.Less, op.LessOrEqual, op.Greater, op.GreaterOrEqual} {
		f := func(x []float64) float64 { return elemBool(compare[kind](x[0], x[1])) }
		for _, d := range elemTypes {
			for _, s := range [][2][]int{{{3, 40}, {3, 40}}, {{3, 90}, {90}}, {{40, 2}, {40, 1}}, {{2, 3}, {}},
				{{0, 2}, {2}}} {
				a, b := elemFill(graph.Int8, 0, 3, s[0]...), elemFill(graph.Int8, 1, 4, s[1]...)
				a, b = elemWant(d, func(x []float64) float64 { return x[0] }, a),
					elemWant(d, func(x []float64) float64 { return x[0] }, b)
				cases = append(cases, elemCase(fmt.Sprintf("%v %v %v", d, s[0], s[1]), kind, graph.Bool, f, a, b))
			}
		}
		for _, d := range elemFloats {
			cases = append(cases, elemCase(fmt.Sprint("NaN ", d), kind, graph.Bool, f,
				elemTensor(d, []int{4}, nan, 1, nan, 0), elemTensor(d, []int{4}, 1, nan, nan, math.Copysign(0, -1))))
		}
		cases = append(cases,
			elemCase("large", kind, graph.Bool, f, elemFill(graph.Float32, 0, 1, 30001),
				elemFill(graph.Float32, 0, 1, 30001)),
			elemFails("shapes", kind, graph.Bool, "[3]", elemFill(graph.Float32, 0, 1, 2),
				elemFill(graph.Float32, 0, 1, 3)))
		bools := elemCase("bools", kind, graph.Bool, f, elemTensor(graph.Bool, []int{4}, 0, 0, 1, 1),
			elemTensor(graph.Bool, []int{4}, 0, 1, 0, 1))
		if kind != op.Equal {
			bools.Want, bools.Fails = nil, "types"
		}
		cases = append(cases, bools)
	}
	return cases
}
