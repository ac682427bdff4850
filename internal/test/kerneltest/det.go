package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(detCases) }

// detCases compare with cofactor expansion along the first row.
func detCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, s := range [][]int{{3, 3}, {2, 3, 1, 1}, {5, 4, 4}, {0, 2, 2}, {2, 0, 0}, {6, 6}} {
			x := productTensor(d, 1, s...)
			w, n := productWiden(x), s[len(s)-1]
			want := productWide{shape: s[:len(s)-2]}
			count := 1
			for _, v := range want.shape {
				count *= v
			}
			for i := range count {
				want.v = append(want.v, productCofactors(w.v[i*n*n:(i+1)*n*n], n))
			}
			cases = append(cases, Case{Name: fmt.Sprintf("%v %v", d, s), Kind: op.Det, In: []*executor.Tensor{x},
				Out: []graph.DType{d}, Want: []*executor.Tensor{want.tensor(d)}, Tol: productTolerance(d)})
		}
	}
	singular := executor.NewTensor[float32](graph.Float32, []int{3, 3}, 0, 1, 2, 0, 3, 4, 0, 5, 6)
	zero := executor.NewTensor[float32](graph.Float32, []int{}, 0)
	bad := productTensor(graph.Float32, 1, 2, 3)
	return append(cases,
		Case{Name: "singular", Kind: op.Det, In: []*executor.Tensor{singular}, Out: []graph.DType{graph.Float32},
			Want: []*executor.Tensor{zero}, Tol: 1e-9},
		Case{Name: "not square", Kind: op.Det, In: []*executor.Tensor{bad}, Out: []graph.DType{graph.Float32},
			Fails: "wanted square matrices"})
}

func productCofactors(m []float64, n int) float64 {
	if n == 0 {
		return 1
	}
	det, sign := 0.0, 1.0
	for col := range n {
		var rest []float64
		for i := 1; i < n; i++ {
			for j := range n {
				if j != col {
					rest = append(rest, m[i*n+j])
				}
			}
		}
		det += sign * m[col] * productCofactors(rest, n-1)
		sign = -sign
	}
	return det
}
