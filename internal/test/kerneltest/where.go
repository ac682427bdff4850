package kerneltest

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemWhereCases) }

func elemWhereCases() []Case {
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
		for _, s := range [][3][]int{{{3, 40}, {3, 40}, {3, 40}}, {{3, 1, 4}, {5, 1}, {}}, {{90}, {3, 90}, {3, 1}},
			{{2, 1, 1}, {3, 1}, {5}}, {{3, 1}, {5}, {2, 1, 1}}, {{70}, {2, 1, 1}, {3, 1}}, {{2, 0}, {1}, {2, 1}},
			{{}, {}, {}}} {
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
	return cases
}
