package kerneltest

import (
	"fmt"
	"math"

	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemVariadicCases) }

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
			cases = append(cases, elemCase(fmt.Sprint("one ", d), kind, d, f, a),
				elemCase(fmt.Sprint("three ", d), kind, d, f, a, b, c),
				elemCase(fmt.Sprint("equal ", d), kind, d, f, c, c, c, c),
				elemCase(fmt.Sprint("scalars ", d), kind, d, f,
					elemTensor(d, nil, 9), elemTensor(d, []int{1}, 5), elemFill(d, 0, 30, 4)))
		}
		x := elemFill(graph.Float32, -1, 1, 30, 1001)
		cases = append(cases,
			elemCase("large", kind, graph.Float32, f, x, elemFill(graph.Float32, -1, 1, 1001), x),
			elemCase("opset 8", kind, graph.Float32, f, x, x, x).at(8),
			elemCase("empty", kind, graph.Float32, f, elemFill(graph.Float32, 0, 1, 0, 2),
				elemFill(graph.Float32, 0, 1, 2), elemTensor(graph.Float32, nil, 1)),
			elemCase("NaN", kind, graph.Float32, f, elemTensor(graph.Float32, []int{3}, nan, 1, 1),
				elemTensor(graph.Float32, []int{3}, 1, nan, 1),
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
