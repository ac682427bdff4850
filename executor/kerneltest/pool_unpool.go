package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(unpoolOrderCases) }

// unpoolOrderCases name places several times: the last element counts.
func unpoolOrderCases() []Case {
	index := executor.NewTensor[int64](graph.Int64, []int{1, 2, 1, 3}, 3, 0, 3, 11, 11, 6)
	var cases []Case
	for _, d := range []graph.DType{graph.Float16, graph.Float32, graph.Int64, graph.Int8} {
		x := elemTensor(d, []int{1, 2, 1, 3}, 1, 2, 3, 4, 5, 6)
		c := elemGiven(fmt.Sprint("same place ", d), op.MaxUnpool,
			elemTensor(d, []int{1, 2, 1, 6}, 2, 0, 0, 3, 0, 0, 6, 0, 0, 0, 0, 5), x, index)
		cases = append(cases, c.with(Attr("kernel_shape", []int64{1, 2}), Attr("strides", []int64{1, 2})))
	}
	return cases
}
