package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(argCases) }

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
