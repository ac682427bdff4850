package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(unpoolCases)
	register(unpoolOrderCases)
}

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

// unpoolCases put elements where the indices say.
func unpoolCases() []Case {
	x := executor.NewTensor[float32](graph.Float32, []int{1, 1, 2, 2}, 5, 6, 7, 8)
	index := executor.NewTensor[int64](graph.Int64, []int{1, 1, 2, 2}, 5, 7, 13, 15)
	attrs := []graph.Attr{Attr("kernel_shape", []int64{2, 2}), Attr("strides", []int64{2, 2})}
	c := func(name string, in []*executor.Tensor, shape []int, v ...float32) Case {
		return Case{Name: name, Kind: op.MaxUnpool, Attrs: attrs, In: in, Out: []graph.DType{graph.Float32},
			Want: []*executor.Tensor{executor.NewTensor(graph.Float32, shape, v...)}}
	}
	larger := executor.NewTensor[int64](graph.Int64, []int{4}, 1, 1, 5, 5)
	bad := c("index out of its plane",
		[]*executor.Tensor{x, executor.NewTensor[int64](graph.Int64, []int{1, 1, 2, 2}, 5, 7, 13, 16)}, nil)
	bad.Fails, bad.Want = "index 16", nil
	small := c("output_shape too small",
		[]*executor.Tensor{x, index, executor.NewTensor[int64](graph.Int64, []int{4}, 1, 1, 5, 3)}, nil)
	small.Fails, small.Want = "output_shape", nil
	return []Case{
		c("plain", []*executor.Tensor{x, index}, []int{1, 1, 4, 4}, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8),
		c("output_shape", []*executor.Tensor{x, index, larger}, []int{1, 1, 5, 5}, 0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0,
			0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0),
		bad, small,
	}
}
