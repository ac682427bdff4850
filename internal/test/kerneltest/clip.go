package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemClipCases) }

func elemClipCases() []Case {
	var cases []Case
	clip := func(x []float64) float64 { return math.Min(math.Max(x[0], x[1]), x[2]) }
	for _, d := range elemTypes {
		x := elemFill(d, 0, 100, 3, 700)
		low, high := elemTensor(d, []int{}, 20), elemTensor(d, []int{1}, 60)
		from := elemCase(fmt.Sprint("from ", d), op.Clip, d, func(x []float64) float64 {
			return math.Max(x[0], x[1])
		}, x, low)
		to := elemCase(fmt.Sprint("to ", d), op.Clip, d, func(x []float64) float64 {
			return math.Min(x[0], x[1])
		}, x, high)
		to.In = []*executor.Tensor{x, nil, high}
		cases = append(cases, from, to, elemCase(fmt.Sprint("both ", d), op.Clip, d, clip, x, low, high),
			elemCase(fmt.Sprint("crossed ", d), op.Clip, d, clip, x, high, low),
			elemGiven(fmt.Sprint("none ", d), op.Clip, x, x))
	}
	for _, d := range elemFloats {
		x := elemFill(d, -9, 9, 40)
		cases = append(cases,
			elemCase(fmt.Sprint("opset 6 ", d), op.Clip, d, func(x []float64) float64 {
				return min(max(x[0], -1), 2)
			}, x).at(6).
				with(Attr("min", float32(-1)), Attr("max", float32(2))),
			elemGiven(fmt.Sprint("opset 6 none ", d), op.Clip, x, x).at(6))
	}
	x := elemFill(graph.Float32, -9, 9, 30001)
	return append(cases,
		elemCase("large", op.Clip, graph.Float32, clip, x, elemTensor(graph.Float32, nil, 0),
			elemTensor(graph.Float32, nil, 6)).at(11),
		elemCase("one element", op.Clip, graph.Float32, clip, elemTensor(graph.Float32, []int{1, 1}, 9),
			elemTensor(graph.Float32, nil, 0),
			elemTensor(graph.Float32, nil, 6)),
		elemGiven("NaN", op.Clip, elemTensor(graph.Float32, []int{2}, math.NaN(), 6),
			elemTensor(graph.Float32, []int{2}, math.NaN(), 7),
			elemTensor(graph.Float32, nil, 0), elemTensor(graph.Float32, nil, 6)),
		elemGiven("empty", op.Clip, elemFill(graph.Float32, 0, 1, 0), elemFill(graph.Float32, 0, 1, 0),
			elemTensor(graph.Float32, nil, 0),
			elemTensor(graph.Float32, nil, 6)),
		elemFails("bounds", op.Clip, graph.Float32, "scalar", x, elemFill(graph.Float32, 0, 1, 2)))
}
