package kerneltest

import (
	"fmt"
	"math"
	"sort"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(selectCases) }

// selectCases are of operators that choose or count along an axis.
func selectCases() []Case {
	var cases []Case
	for _, group := range [][]Case{argCases(), cumSumCases(), topKCases(), uniqueCases(), nonZeroCases(),
		broadcastArgsCases(),
		reduceAllCases()} {
		cases = append(cases, group...)
	}
	return cases
}

// axisViews calls f with the places of the elements of each line along an axis, and the number of
// the line.
func axisViews(shape []int, axis int, f func(line int, at []int)) {
	if axis < 0 {
		axis += len(shape)
	}
	n, inner := shape[axis], reduceLen(shape[axis+1:])
	line := 0
	for o := range reduceLen(shape[:axis]) {
		for i := range inner {
			at := make([]int, n)
			for j := range at {
				at[j] = (o*n+j)*inner + i
			}
			f(line, at)
			line++
		}
	}
}

func argCases() []Case {
	var cases []Case
	add := func(name string, k graph.Kind, d graph.DType, shape []int, axis int, x []float64, attrs ...graph.Attr) {
		c := Case{Name: name, Kind: k, In: []*executor.Tensor{reduceTensor(d, shape, x)},
			Out:   []graph.DType{graph.Int64},
			Attrs: append([]graph.Attr{Attr("axis", int64(axis))}, attrs...)}
		keep, last := true, false
		for _, a := range attrs {
			keep = keep && a.Name != "keepdims"
			last = last || a.Name == "select_last_index"
		}
		at := (axis + len(shape)) % len(shape)
		out := append([]int(nil), shape[:at]...)
		if keep {
			out = append(out, 1)
		}
		out = append(out, shape[at+1:]...)
		y := make([]float64, reduceLen(out))
		axisViews(shape, axis, func(line int, places []int) {
			best := 0
			for j, p := range places {
				v, b := x[p], x[places[best]]
				if k == op.ArgMin {
					v, b = -v, -b
				}
				better := v > b || math.IsNaN(v) && !math.IsNaN(b)
				if better || last && (v == b || math.IsNaN(v)) {
					best = j
				}
			}
			y[line] = float64(best)
		})
		c.Want = []*executor.Tensor{reduceTensor(graph.Int64, out, y)}
		cases = append(cases, c)
	}
	last, drop := Attr("select_last_index", int64(1)), Attr("keepdims", int64(0))
	for _, k := range []graph.Kind{op.ArgMax, op.ArgMin} {
		for _, shape := range [][]int{{5}, {3, 4}, {2, 3, 4}, {2, 30, 700}, {70, 700}} {
			for axis := range shape {
				x := reduceValues(reduceLen(shape), 3)
				add(fmt.Sprintf("%v along %d", shape, axis), k, graph.Float32, shape, axis-len(shape), x)
				add(fmt.Sprintf("%v along %d, last", shape, axis), k, graph.Float32, shape, axis, x, last, drop)
			}
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16, graph.Int8, graph.Int16,
			graph.Int32, graph.Int64} {
			x := reduceValues(300, 5)
			for i := range x {
				x[i] = math.Trunc(x[i] * 4)
			}
			add(d.String(), k, d, []int{300}, 0, x)
			add(d.String()+" columns", k, d, []int{30, 10}, 0, x)
		}
		for _, d := range []graph.DType{graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64} {
			add(d.String(), k, d, []int{4}, 0, []float64{3, 9, 0, 9})
		}
		nan := math.NaN()
		add("NaN", k, graph.Float32, []int{2, 3}, 1, []float64{1, nan, nan, math.Inf(1), math.Inf(-1), 0})
		add("NaN, last", k, graph.Float32, []int{2, 3}, 1, []float64{nan, nan, 5, 0, 0, nan}, last)
		add("no results", k, graph.Float32, []int{0, 3}, 1, nil)
		bad := Case{Name: "nothing to choose", Kind: k,
			In:    []*executor.Tensor{reduceTensor(graph.Float32, []int{2, 0}, nil)},
			Attrs: []graph.Attr{Attr("axis", int64(1))}, Out: []graph.DType{graph.Int64},
			Fails: "no elements to choose from"}
		axis := bad
		axis.Name, axis.Attrs, axis.Fails = "axis out of range", []graph.Attr{Attr("axis", int64(2))},
			"axis 2; input 0 has rank 2"
		cases = append(cases, bad, axis)
	}
	return cases
}

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
