package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(cumSumCases) }

func cumSumCases() []Case {
	var cases []Case
	add := func(name string, d graph.DType, shape []int, axis int64, exclusive, reverse bool) {
		x := reduceValues(reduceLen(shape), 9)
		for i := range x {
			if d.IsInteger() {
				x[i] = float64(int(x[i]*64) & 7)
			}
		}
		y := make([]float64, len(x))
		c := Case{Name: name, Kind: op.CumSum, Out: []graph.DType{d}, Tol: reduceTol(d),
			In: []*executor.Tensor{reduceTensor(d, shape, x), executor.NewTensor(graph.Int64, []int{}, axis)}}
		if exclusive {
			c.Attrs = append(c.Attrs, Attr("exclusive", int64(1)))
		}
		if reverse {
			c.Attrs = append(c.Attrs, Attr("reverse", int64(1)))
		}
		axisViews(shape, int(axis), func(_ int, at []int) {
			for j := range at {
				for i := range at {
					if (i < j) != reverse && i != j || i == j && !exclusive {
						y[at[j]] += x[at[i]]
					}
				}
			}
		})
		c.Want = []*executor.Tensor{reduceTensor(d, shape, y)}
		cases = append(cases, c)
	}
	for _, exclusive := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			for _, shape := range [][]int{{6}, {3, 4}, {2, 3, 4}, {9, 1100}} {
				for axis := range shape {
					name := fmt.Sprintf("%v along %d, exclusive %v, reverse %v", shape, axis, exclusive, reverse)
					add(name, graph.Float32, shape, int64(axis), exclusive, reverse)
				}
			}
			for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16, graph.Int32, graph.Int64,
				graph.Uint32, graph.Uint64} {
				add(fmt.Sprintf("%v, exclusive %v, reverse %v", d, exclusive, reverse), d, []int{2, 5}, -1,
					exclusive, reverse)
			}
		}
	}
	add("empty", graph.Float32, []int{2, 0, 3}, 1, false, false)
	bad := cases[0]
	bad.Name, bad.Want, bad.Fails = "axis out of range", nil, "axis 1; input 0 has rank 1"
	bad.In = []*executor.Tensor{bad.In[0], executor.NewTensor[int32](graph.Int32, []int{1}, 1)}
	return append(cases, bad)
}
