package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(reduceAllCases) }

func reduceAllCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, sizes := range [][]int{{3}, {5, 0, 20000}, {7, 1}} {
			c := Case{Name: fmt.Sprintf("%v %v", d, sizes), Kind: op.ReduceAllL2, Out: []graph.DType{d},
				Tol: reduceTol(d)}
			if d != graph.Float64 {
				c.Out[0], c.Tol = graph.Float32, 1e-5
			}
			s := 0.0
			for _, n := range sizes {
				x := reduceValues(n, uint64(n))
				for _, v := range x {
					s += v * v
				}
				c.In = append(c.In, reduceTensor(d, []int{n}, x))
			}
			c.Want = []*executor.Tensor{reduceTensor(c.Out[0], []int{}, []float64{math.Sqrt(s)})}
			cases = append(cases, c)
		}
	}
	return cases
}
