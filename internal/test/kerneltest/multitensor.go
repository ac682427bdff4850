package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(manyTensorCases) }

// manyTensorCases have more tensors, and longer ones, than a device may take at once.
func manyTensorCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float16, graph.BFloat16} {
		var in []*executor.Tensor
		sum := 0.0
		for i := range 70 {
			x := elemFill(d, -1, 1, i%9, 3)
			if i == 40 {
				x = elemFill(d, -1, 1, 40001)
			}
			for j := range x.Len() {
				v, _ := Float(x, j)
				sum += v * v
			}
			in = append(in, x)
		}
		bad := append([]*executor.Tensor(nil), in...)
		last := elemFill(d, -1, 1, 20001)
		copy(last.Data[len(last.Data)-last.DType.Bits()/8:], elemTensor(d, nil, math.Inf(-1)).Data)
		bad[69] = last
		norm := elemGiven(fmt.Sprint("many ", d), op.ReduceAllL2, elemTensor(graph.Float32, nil, math.Sqrt(sum)), in...)
		norm.Tol = 1e-5
		cases = append(cases, norm,
			elemGiven(fmt.Sprint("many ", d), op.IsAllFinite, elemTensor(graph.Bool, nil, 1), in...),
			elemGiven(fmt.Sprint("many, the last infinite ", d), op.IsAllFinite,
				elemTensor(graph.Bool, nil, 0), bad...))
	}
	return cases
}
