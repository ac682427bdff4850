package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(lpNormCases) }

func lpNormCases() []Case {
	var cases []Case
	for _, order := range []int{1, 2} {
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
			for _, s := range softmaxShapes {
				if d != graph.Float32 && reduceLen(s.shape) > 1000 {
					continue
				}
				x, y := reduceValues(reduceLen(s.shape), 121), make([]float64, reduceLen(s.shape))
				normLines(s.shape, s.axis, false, func(at []int) {
					sum := 0.0
					for _, p := range at {
						sum += math.Pow(math.Abs(x[p]), float64(order))
					}
					for _, p := range at {
						y[p] = x[p] / math.Pow(sum, 1/float64(order))
					}
				})
				cases = append(cases,
					Case{Name: fmt.Sprintf("%v %v along %d, p %d", d, s.shape, s.axis, order), Kind: op.LpNormalization,
						Attrs: []graph.Attr{Attr("axis", int64(s.axis)), Attr("p", int64(order))},
						In:    []*executor.Tensor{reduceTensor(d, s.shape, x)},
						Out:   []graph.DType{d}, Tol: reduceTol(d),
						Want: []*executor.Tensor{reduceTensor(d, s.shape, y)}})
			}
		}
	}
	zero := Case{Name: "zeros stay", Kind: op.LpNormalization,
		In:  []*executor.Tensor{reduceTensor(graph.Float32, []int{2, 2}, []float64{0, 0, 3, 4})},
		Out: []graph.DType{graph.Float32}, Tol: 1e-6,
		Want: []*executor.Tensor{reduceTensor(graph.Float32, []int{2, 2}, []float64{0, 0, 0.6, 0.8})}}
	bad := zero
	bad.Name, bad.Attrs, bad.Want, bad.Fails = "order 3", []graph.Attr{Attr("p", int64(3))}, nil, "attribute p is 3"
	return append(cases, zero, bad)
}
