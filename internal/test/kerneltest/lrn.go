package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(lrnCases) }

func lrnCases() []Case {
	var cases []Case
	for _, t := range []struct {
		d     graph.DType
		shape []int
		size  int
		beta  float64
	}{
		{graph.Float32, []int{2, 5, 3}, 3, 0.75}, {graph.Float32, []int{2, 5, 3}, 4, 0.5},
		{graph.Float32, []int{2, 3}, 1, 0.75},
		{graph.Float32, []int{1, 6, 60, 70}, 5, 0.75}, {graph.Float32, []int{1, 0, 2}, 3, 0.75},
		{graph.Float64, []int{2, 5, 2, 2}, 3, 0.75},
		{graph.Float16, []int{2, 5, 2, 2}, 3, 0.75}, {graph.BFloat16, []int{2, 7, 3, 5}, 4, 0.5},
		{graph.Float32, []int{1, 2, 2}, 99, 2},
	} {
		x, y := reduceValues(reduceLen(t.shape), 111), make([]float64, reduceLen(t.shape))
		inner := reduceLen(t.shape[2:])
		for p, v := range x {
			s, ch := 0.0, p/inner%t.shape[1]
			for c := 0; c < t.shape[1]; c++ {
				if c >= ch-(t.size-1)/2 && c <= ch+t.size/2 {
					w := x[p+(c-ch)*inner]
					s += w * w
				}
			}
			y[p] = v / math.Pow(1.5+0.25/float64(t.size)*s, t.beta)
		}
		cases = append(cases,
			Case{Name: fmt.Sprintf("%v %v size %d beta %v", t.d, t.shape, t.size, t.beta), Kind: op.LRN,
				Attrs: []graph.Attr{Attr("size", int64(t.size)), Attr("alpha", float32(0.25)),
					Attr("beta", float32(t.beta)), Attr("bias", float32(1.5))},
				In: []*executor.Tensor{reduceTensor(t.d, t.shape, x)}, Out: []graph.DType{t.d}, Tol: reduceTol(t.d),
				Want: []*executor.Tensor{reduceTensor(t.d, t.shape, y)}})
	}
	bad := cases[0]
	bad.Name, bad.Attrs, bad.Want, bad.Fails = "no size", nil, nil, "attribute size is 0 or missing"
	return append(cases, bad)
}
