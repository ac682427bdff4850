package kerneltest

import (
	"fmt"
	"math"
	"sort"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(topKCases) }

// topKCase builds a case; k < 0 means that the attribute is used.
func topKCase(name string, d graph.DType, shape []int, axis, k int, largest bool, x []float64) Case {
	c := Case{Name: name, Kind: op.TopK,
		In:    []*executor.Tensor{reduceTensor(d, shape, x), executor.NewTensor(graph.Int64, []int{1}, int64(k))},
		Attrs: []graph.Attr{Attr("axis", int64(axis))}, Out: []graph.DType{d, graph.Int64}}
	if !largest {
		c.Attrs = append(c.Attrs, Attr("largest", int64(0)))
	}
	out := append([]int(nil), shape...)
	out[(axis+len(shape))%len(shape)] = k
	values, indices := make([]float64, reduceLen(out)), make([]float64, reduceLen(out))
	var to [][]int
	axisViews(out, axis, func(_ int, at []int) { to = append(to, at) })
	axisViews(shape, axis, func(line int, at []int) {
		order := make([]int, len(at))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(i, j int) bool {
			a, b := x[at[order[i]]], x[at[order[j]]]
			if !largest {
				a, b = b, a
			}
			return a > b || math.IsNaN(a) && !math.IsNaN(b)
		})
		for i, p := range to[line] {
			values[p], indices[p] = x[at[order[i]]], float64(order[i])
		}
	})
	c.Want = []*executor.Tensor{reduceTensor(d, out, values), reduceTensor(graph.Int64, out, indices)}
	return c
}

func topKCases() []Case {
	var cases []Case
	for _, largest := range []bool{true, false} {
		for _, s := range []struct {
			shape   []int
			axis, k int
		}{
			{[]int{7}, 0, 3}, {[]int{7}, -1, 7}, {[]int{3, 40}, 1, 5}, {[]int{40, 3}, 0, 5}, {[]int{2, 20, 3}, 1, 1},
			{[]int{90, 300}, -1, 20}, {[]int{2, 0}, 1, 0}, {[]int{0, 4}, 1, 2}, {[]int{3, 4}, 1, 0},
		} {
			x := reduceValues(reduceLen(s.shape), 11)
			cases = append(cases,
				topKCase(fmt.Sprintf("%d of %v along %d, largest %v", s.k, s.shape, s.axis, largest), graph.Float32,
					s.shape, s.axis, s.k, largest, x))
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16, graph.Int8, graph.Int16,
			graph.Int32, graph.Int64,
			graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64} {
			cases = append(cases,
				topKCase(fmt.Sprintf("%v, largest %v", d, largest), d, []int{5}, 0, 4, largest,
					[]float64{1, 3, 2, 3, 0}))
		}
		nan := math.NaN()
		cases = append(cases, topKCase(fmt.Sprintf("NaN, largest %v", largest), graph.Float32, []int{6}, 0, 5, largest,
			[]float64{nan, 1, math.Inf(1), nan, math.Inf(-1), 1}))
	}
	old := topKCase("k attribute", graph.Float32, []int{3, 4}, 1, 2, true, reduceValues(12, 1))
	old.Opset, old.In, old.Attrs = 9, old.In[:1], append(old.Attrs, Attr("k", int64(2)))
	bad := topKCase("k too large", graph.Float32, []int{3, 4}, 1, 4, true, reduceValues(12, 1))
	bad.In[1], bad.Want, bad.Fails = executor.NewTensor[int64](graph.Int64, []int{1}, 5), nil, "k is 5; axis 1"
	half := topKCase("indices alone", graph.Float32, []int{3, 4}, 1, 2, true, reduceValues(12, 1))
	half.Out[0], half.Want[0] = graph.Undefined, nil
	return append(cases, old, bad, half)
}
