package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(globalPoolCases) }

// globalPoolCases reduce whole planes.
func globalPoolCases() []Case {
	var cases []Case
	for _, shape := range [][]int{{2, 3, 5}, {3, 4, 7, 7}, {1, 2, 2, 3, 4}, {4, 64, 14, 14}, {0, 3, 4}} {
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16} {
			x := convRandom(d, 11, shape...)
			planes := shape[0] * shape[1]
			mean, most := make([]float64, planes), make([]float64, planes)
			norm, one := make([]float64, planes), make([]float64, planes)
			out := append([]int{}, shape[:2]...)
			for range shape[2:] {
				out = append(out, 1)
			}
			n := 0
			if planes > 0 {
				n = x.Len() / planes
			}
			for i, v := range convNumbers(x) {
				p := i / n
				if i%n == 0 {
					most[p] = v
				}
				mean[p] += v / float64(n)
				most[p] = max(most[p], v)
				norm[p] += v * v
				one[p] += math.Pow(math.Abs(v), 1.5)
			}
			for p := range norm {
				norm[p] = math.Sqrt(norm[p])
				one[p] = math.Pow(one[p], 1/1.5)
			}
			add := func(kind graph.Kind, want []float64) *Case {
				cases = append(cases,
					Case{Name: fmt.Sprint(x), Kind: kind, In: []*executor.Tensor{x}, Out: []graph.DType{d},
						Want: []*executor.Tensor{convTensor(d, out, want)}, Tol: convTol(d)})
				return &cases[len(cases)-1]
			}
			add(op.GlobalAveragePool, mean)
			add(op.GlobalMaxPool, most)
			add(op.GlobalLpPool, norm)
			first := add(op.GlobalLpPool, one)
			first.Name, first.Opset = first.Name+", version 1, p=1.5", 1
			first.Attrs = []graph.Attr{Attr("p", float32(1.5))}
		}
	}
	return cases
}
