package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(biasSoftmaxCases) }

func biasSoftmaxCases() []Case {
	var cases []Case
	for _, s := range []struct {
		shape, bias []int
		axis        int
	}{
		{[]int{3, 4}, []int{4}, 1}, {[]int{2, 3, 4, 5}, []int{2, 1, 1, 5}, 3}, {[]int{2, 3, 4, 5}, []int{4, 5}, 3},
		{[]int{2, 3, 4}, []int{3, 1}, 1}, {[]int{2, 3, 4}, []int{}, 2}, {[]int{2, 0}, []int{1}, 1},
		{[]int{20, 8, 150}, []int{20, 1, 150}, 2},
	} {
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
			n := reduceLen(s.shape)
			x, bias, y := reduceValues(n, 31), reduceValues(reduceLen(s.bias), 32), make([]float64, n)
			sum := append([]float64(nil), x...)
			for i := range sum {
				from, rest, step := 0, i, 1
				for a := len(s.shape) - 1; a >= 0; a-- {
					if j := a - (len(s.shape) - len(s.bias)); j >= 0 && s.bias[j] != 1 {
						from += rest % s.shape[a] * step
						step *= s.bias[j]
					}
					rest /= s.shape[a]
				}
				sum[i] += bias[from]
			}
			normLines(s.shape, s.axis, true, func(at []int) { softmaxOf(y, sum, at) })
			cases = append(cases, Case{Name: fmt.Sprintf("%v %v + %v", d, s.shape, s.bias), Kind: op.BiasSoftmax,
				Attrs: []graph.Attr{Attr("axis", int64(s.axis)), Attr("is_inner_broadcast", int64(1))},
				In:    []*executor.Tensor{reduceTensor(d, s.shape, x), reduceTensor(d, s.bias, bias)},
				Out:   []graph.DType{d}, Tol: reduceTol(d), Want: []*executor.Tensor{reduceTensor(d, s.shape, y)}})
		}
	}
	bad := cases[0]
	bad.Name, bad.Want, bad.Fails = "bias does not fit", nil, "cannot be stretched"
	bad.In = []*executor.Tensor{bad.In[0], reduceTensor(graph.Float32, []int{3}, make([]float64, 3))}
	return append(cases, bad)
}
