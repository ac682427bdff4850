package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(uniqueCases) }

// uniqueCases have numbers written by hand, the first ones checked against numpy.unique.
func uniqueCases() []Case {
	ints := func(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }
	add := func(name string, x, y *executor.Tensor, first, inverse, counts []int64, attrs ...graph.Attr) Case {
		return Case{Name: name, Kind: op.Unique, Attrs: attrs, In: []*executor.Tensor{x},
			Out:  []graph.DType{x.DType, graph.Int64, graph.Int64, graph.Int64},
			Want: []*executor.Tensor{y, ints(first...), ints(inverse...), ints(counts...)}}
	}
	f := func(shape []int, v ...float64) *executor.Tensor { return reduceTensor(graph.Float32, shape, v) }
	x := f([]int{6}, 2, 1, 1, 3, 4, 3)
	matrix := f([]int{4, 3}, 1, 0, 0, 1, 0, 0, 2, 3, 4, 0, 9, 9)
	unsorted, axis0, axis1 := Attr("sorted", int64(0)), Attr("axis", int64(0)), Attr("axis", int64(-1))
	nan := math.NaN()
	cases := []Case{
		add("sorted", x, f([]int{4}, 1, 2, 3, 4), []int64{1, 0, 3, 4}, []int64{1, 0, 0, 2, 3, 2}, []int64{2, 1, 2, 1}),
		add("not sorted", x, f([]int{4}, 2, 1, 3, 4), []int64{0, 1, 3, 4}, []int64{0, 1, 1, 2, 3, 2},
			[]int64{1, 2, 2, 1}, unsorted),
		add("rows", matrix, f([]int{3, 3}, 0, 9, 9, 1, 0, 0, 2, 3, 4), []int64{3, 0, 2}, []int64{1, 1, 2, 0},
			[]int64{1, 2, 1}, axis0),
		add("rows not sorted", matrix, f([]int{3, 3}, 1, 0, 0, 2, 3, 4, 0, 9, 9), []int64{0, 2, 3}, []int64{0, 0, 1, 2},
			[]int64{2, 1, 1}, axis0, unsorted),
		add("columns", f([]int{2, 3}, 5, 1, 5, 0, 0, 0), f([]int{2, 2}, 1, 5, 0, 0), []int64{1, 0}, []int64{1, 0, 1},
			[]int64{1, 2}, axis1),
		add("NaN", f([]int{4}, nan, 1, nan, 0), f([]int{3}, 0, 1, nan), []int64{3, 1, 0}, []int64{2, 1, 2, 0},
			[]int64{1, 1, 2}),
		add("scalar", f([]int{}, 3), f([]int{1}, 3), []int64{0}, []int64{0}, []int64{1}),
		add("empty", f([]int{0}), f([]int{0}), nil, nil, nil),
		add("empty rows", f([]int{3, 0}), f([]int{1, 0}), []int64{0}, []int64{0, 0, 0}, []int64{3}, axis0),
	}
	for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16, graph.Int8, graph.Int16, graph.Int32,
		graph.Int64,
		graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64, graph.Bool} {
		cases = append(cases,
			add(d.String(), reduceTensor(d, []int{3}, []float64{1, 0, 1}), reduceTensor(d, []int{2}, []float64{0, 1}),
				[]int64{1, 0}, []int64{1, 0, 1}, []int64{1, 2}))
	}
	few := add("values alone", x, f([]int{4}, 1, 2, 3, 4), nil, nil, nil)
	few.Out, few.Want = few.Out[:1], few.Want[:1]
	bad := add("axis out of range", x, x, nil, nil, nil, Attr("axis", int64(1)))
	bad.Want, bad.Fails = nil, "axis 1; input 0 has rank 1"
	return append(cases, few, bad)
}
