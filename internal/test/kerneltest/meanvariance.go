package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(meanVarianceCases) }

func meanVarianceCases() []Case {
	var cases []Case
	add := func(d graph.DType, shape []int, axes []int64) {
		x, y := reduceValues(reduceLen(shape), 131), make([]float64, reduceLen(shape))
		c := Case{Name: fmt.Sprintf("%v %v over %v", d, shape, axes), Kind: op.MeanVarianceNormalization,
			Tol: 2 * reduceTol(d),
			In:  []*executor.Tensor{reduceTensor(d, shape, x)}, Out: []graph.DType{d}}
		over := []int{0, 2, 3}
		if axes != nil {
			c.Attrs, over = []graph.Attr{Attr("axes", axes)}, nil
			for _, a := range axes {
				over = append(over, (int(a)+len(shape))%len(shape))
			}
		}
		_, groups := reduceGroups(shape, over)
		for _, at := range groups {
			m, v := normGroup(y, x, at, 1)
			for _, p := range at {
				y[p] = (x[p] - m) / (math.Sqrt(v) + 1e-9)
			}
		}
		c.Want = []*executor.Tensor{reduceTensor(d, shape, y)}
		cases = append(cases, c)
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		add(d, []int{2, 3, 4, 5}, nil)
		add(d, []int{3, 40}, []int64{0})
		add(d, []int{3, 40}, []int64{-1})
		add(d, []int{4, 3, 5}, []int64{0, 1})
	}
	add(graph.Float32, []int{3, 4, 50, 60}, nil)
	add(graph.Float32, []int{90, 400}, []int64{0})
	add(graph.Float32, []int{2, 0, 3, 3}, nil)
	bad := cases[0]
	bad.Name, bad.Attrs, bad.Want, bad.Fails = "axis out of range", []graph.Attr{Attr("axes", []int64{4})}, nil,
		"axis 4; input 0 has rank 4"
	return append(cases, bad)
}
