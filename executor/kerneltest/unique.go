package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

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

func nonZeroCases() []Case {
	var cases []Case
	add := func(name string, d graph.DType, shape []int, x []float64) {
		rank := max(len(shape), 1)
		var at []int
		for i, v := range x {
			if v != 0 {
				at = append(at, i)
			}
		}
		y := make([]float64, rank*len(at))
		for j, i := range at {
			for a := len(shape) - 1; a >= 0; a-- {
				y[a*len(at)+j] = float64(i % shape[a])
				i /= shape[a]
			}
		}
		cases = append(cases, Case{Name: name, Kind: op.NonZero, In: []*executor.Tensor{reduceTensor(d, shape, x)},
			Out:  []graph.DType{graph.Int64},
			Want: []*executor.Tensor{reduceTensor(graph.Int64, []int{rank, len(at)}, y)}})
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		add(d.String(), d, []int{2, 3}, []float64{0, math.NaN(), math.Copysign(0, -1), 1, 0, -2})
	}
	for _, d := range []graph.DType{graph.Int8, graph.Int16, graph.Int32, graph.Int64, graph.Uint8, graph.Uint16,
		graph.Uint32, graph.Uint64, graph.Bool} {
		add(d.String(), d, []int{2, 1, 3}, []float64{0, 1, 0, 0, 1, 1})
	}
	for _, shape := range [][]int{{}, {0}, {2, 0, 3}, {5, 7, 1100}} {
		x := reduceValues(reduceLen(shape), 2)
		for i := range x {
			if x[i] < 1 && len(shape) > 0 {
				x[i] = 0
			}
		}
		add(fmt.Sprint(shape), graph.Float32, shape, x)
	}
	add("none", graph.Float32, []int{2, 2}, make([]float64, 4))
	add("scalar 0", graph.Float32, []int{}, []float64{0})
	return cases
}

func broadcastArgsCases() []Case {
	ints := func(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }
	add := func(name string, a, b, axesA, axesB *executor.Tensor) Case {
		return Case{Name: name, Kind: op.BroadcastGradientArgs, In: []*executor.Tensor{a, b},
			Out: []graph.DType{graph.Int64, graph.Int64}, Want: []*executor.Tensor{axesA, axesB}}
	}
	one := add("second alone", ints(2, 3), ints(3), nil, ints(0))
	one.Out[0] = graph.Undefined
	bad := add("unequal", ints(2, 3), ints(4), nil, nil)
	bad.Want, bad.Fails = nil, "cannot be broadcast"
	matrix := add("matrix", executor.NewTensor[int64](graph.Int64, []int{1, 1}, 2), ints(4), nil, nil)
	matrix.Want, matrix.Fails = nil, "wanted a vector"
	return []Case{one, bad, matrix,
		add("equal", ints(2, 3), ints(2, 3), ints(), ints()),
		add("bias", ints(2, 16, 64), ints(64), ints(), ints(1, 0)),
		add("both", ints(2, 1, 3, 1), ints(16, 1, 5), ints(3, 1), ints(2, 0)),
		add("ones on both sides", ints(2, 1, 3), ints(1, 1, 3), ints(), ints(0)),
		add("scalar", ints(), ints(2, 3), ints(1, 0), ints())}
}

func reduceAllCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, sizes := range [][]int{{3}, {5, 0, 20000}, {7, 1}} {
			c := Case{Name: fmt.Sprintf("%v %v", d, sizes), Kind: op.ReduceAllL2, Out: []graph.DType{d},
				Tol: reduceTol(d)}
			if d != graph.Float64 {
				c.Out[0], c.Tol = graph.Float32, 1e-5
			}
			s := 0.0
			for _, n := range sizes {
				x := reduceValues(n, uint64(n))
				for _, v := range x {
					s += v * v
				}
				c.In = append(c.In, reduceTensor(d, []int{n}, x))
			}
			c.Want = []*executor.Tensor{reduceTensor(c.Out[0], []int{}, []float64{math.Sqrt(s)})}
			cases = append(cases, c)
		}
	}
	return cases
}
