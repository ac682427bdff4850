package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

func init() {
	register(moveScatterElementsCases)
	register(moveScatterNDCases)
	register(moveTensorScatterCases)
}

// moveValues returns a tensor of a type from numbers.
func moveValues(d graph.DType, shape []int, v ...float64) *executor.Tensor {
	t := moveEmpty(d, shape...)
	for i, f := range v {
		switch d {
		case graph.Float32:
			executor.Of[float32](t)[i] = float32(f)
		case graph.Float64:
			executor.Of[float64](t)[i] = f
		case graph.Float16:
			executor.Of[half.Float16](t)[i] = half.Float16From(float32(f))
		case graph.BFloat16:
			executor.Of[half.BFloat16](t)[i] = half.BFloat16From(float32(f))
		case graph.Int64:
			executor.Of[int64](t)[i] = int64(f)
		case graph.Int32:
			executor.Of[int32](t)[i] = int32(f)
		case graph.Int8:
			executor.Of[int8](t)[i] = int8(f)
		case graph.Uint8, graph.Bool:
			executor.Of[uint8](t)[i] = uint8(f)
		}
	}
	return t
}

// moveRamp returns n small whole numbers, which every type has and whose sums are exact.
func moveRamp(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i*5%7 + 1)
	}
	return v
}

// moveReduced combines two numbers as the attribute reduction says.
func moveReduced(how string, old, update float64) float64 {
	switch how {
	case "add":
		return old + update
	case "mul":
		return old * update
	case "max":
		return math.Max(old, update)
	case "min":
		return math.Min(old, update)
	}
	return update
}

// moveSums lists types that a scatter adds in, and the names of all reductions.
var (
	moveSums = []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int64,
		graph.Int32, graph.Int8, graph.Uint8}
	moveReductions = []string{"none", "add", "mul", "max", "min"}
)

// moveScattered computes ScatterElements element by element, in the order of the indices.
func moveScattered(
	how string, shape []int, data []float64, at *executor.Tensor, updates []float64, axis int,
) []float64 {
	out := append([]float64{}, data...)
	index := make([]int, len(shape))
	for i := range at.Len() {
		n := i
		for k := len(shape) - 1; k >= 0; k-- {
			index[k] = n % at.Shape[k]
			n /= at.Shape[k]
		}
		index[axis] = movePlace(at, i, shape[axis])
		to := moveAt(shape, index...)
		out[to] = moveReduced(how, out[to], updates[i])
	}
	return out
}

func moveScatterElementsCases() []Case {
	var all []Case
	add := func(name, how string, d graph.DType, shape []int, axis int64, at *executor.Tensor) {
		k := int(axis)
		if k < 0 {
			k += len(shape)
		}
		data, updates := moveRamp(moveEmpty(graph.Bool, shape...).Len()), moveRamp(at.Len() + 2)[2:]
		want := moveValues(d, shape, moveScattered(how, shape, data, at, updates, k)...)
		attrs := moveAttrs("axis", axis)
		if how != "none" {
			attrs = append(attrs, Attr("reduction", how))
		}
		all = append(all, moveCase(op.ScatterElements, fmt.Sprint(name, " ", how, " ", d), want, attrs,
			moveValues(d, shape, data...), at, moveValues(d, at.Shape, updates...)))
	}
	indices := func(d int, shape ...int) *executor.Tensor {
		return moveReshaped(moveLongs(moveIndices(moveEmpty(graph.Bool, shape...).Len(), d)...), shape...)
	}
	for _, how := range moveReductions {
		for _, d := range moveSums {
			add("twice", how, d, []int{3, 4}, 1, moveReshaped(moveLongs(1, 1, -3, 0, 3, -1), 2, 3))
		}
		add("axis 0", how, graph.Float32, []int{5, 4}, 0, moveReshaped(moveLongs(1, 2, -4, 1, 2, 2), 3, 2))
		add("int32 indices", how, graph.Float32, []int{5}, -1, moveShorts(1, -4, 0))
		add("middle axis", how, graph.Float32, []int{3, 4, 5}, 1, indices(4, 2, 3, 4))
		add("first axis", how, graph.Float32, []int{6, 2, 3}, 0, indices(6, 4, 2, 3))
		add("large", how, graph.Float32, []int{50, 60, 20}, 1, indices(60, 50, 30, 20))
	}
	add("bools", "none", graph.Bool, []int{3}, 0, moveLongs(2))
	add("no indices", "add", graph.Float32, []int{3}, 0, moveLongs())
	add("empty", "none", graph.Float32, []int{0, 3}, 0, moveEmpty(graph.Int64, 0, 3))
	x := moveFloats([]int{3}, 1, 2, 3)
	nan := moveFloats([]int{2}, float32(math.NaN()), 7)
	old := moveCase(op.Scatter, "old", moveFloats([]int{3}, 1, 9, 3), nil, x, moveLongs(1), moveFloats([]int{1}, 9))
	sums := moveAttrs("reduction", "add")
	return append(all, moveOpset(9, old),
		moveOpset(11, moveCase(op.ScatterElements, "old", old.Want[0], nil, old.In...)),
		moveCase(op.ScatterElements, "max with NaN", moveFloats([]int{3}, 1, float32(math.NaN()), 3),
			moveAttrs("reduction", "max"), x, moveLongs(1, 1), nan),
		moveFails(op.ScatterElements, "outside", "index 3", sums, x, moveLongs(0, 3), nan),
		moveFails(op.ScatterElements, "updates", "input 2 has shape", nil, x, moveLongs(0), nan),
		moveFails(op.ScatterElements, "reduction", "reduction", moveAttrs("reduction", "mean"), x,
			moveLongs(0, 1), nan),
		moveFails(op.ScatterElements, "types", "type", nil, x, moveLongs(0), moveLongs(0)),
		moveFails(op.ScatterElements, "sum of bools", "reduction", sums, moveCount(graph.Bool, 2), moveLongs(0),
			moveCount(graph.Bool, 1)))
}

// moveScatteredRows computes ScatterND tuple by tuple.
func moveScatteredRows(how string, shape []int, data []float64, at *executor.Tensor, updates []float64) []float64 {
	out := append([]float64{}, data...)
	depth := at.Shape[at.Rank()-1]
	inner := 1
	for _, d := range shape[depth:] {
		inner *= d
	}
	rows := moveEmpty(graph.Bool, at.Shape[:at.Rank()-1]...).Len()
	for r := range rows {
		to := 0
		for k := range depth {
			to = to*shape[k] + movePlace(at, r*depth+k, shape[k])
		}
		for i := range inner {
			out[to*inner+i] = moveReduced(how, out[to*inner+i], updates[r*inner+i])
		}
	}
	return out
}

func moveScatterNDCases() []Case {
	var all []Case
	add := func(name, how string, d graph.DType, shape []int, at *executor.Tensor) {
		depth := at.Shape[at.Rank()-1]
		to := append(append([]int{}, at.Shape[:at.Rank()-1]...), shape[depth:]...)
		data, updates := moveRamp(moveEmpty(graph.Bool, shape...).Len()),
			moveRamp(moveEmpty(graph.Bool, to...).Len() + 2)[2:]
		var attrs []graph.Attr
		if how != "none" {
			attrs = moveAttrs("reduction", how)
		}
		want := moveValues(d, shape, moveScatteredRows(how, shape, data, at, updates)...)
		all = append(all,
			moveCase(op.ScatterND, fmt.Sprint(name, " ", how, " ", d), want, attrs, moveValues(d, shape, data...), at,
				moveValues(d, to, updates...)))
	}
	tuples := func(v []int64, shape ...int) *executor.Tensor { return moveReshaped(moveLongs(v...), shape...) }
	for _, how := range moveReductions {
		for _, d := range moveSums {
			add("elements", how, d, []int{3, 4}, tuples([]int64{0, 1, -1, -1, 0, -3}, 3, 2))
		}
		for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
			add("long rows", how, d, []int{4, 1100}, tuples([]int64{2, 0, -2, 3, 2}, 5, 1))
		}
		add("rows", how, graph.Float32, []int{4, 3, 2}, tuples([]int64{2, 0, -2}, 3, 1))
		add("matrix of rows", how, graph.Float32, []int{4, 3, 2}, tuples([]int64{2, 0, 1, 1, 2, 0, -1, -1}, 2, 2, 2))
		add("many elements", how, graph.Float32, []int{70, 60}, tuples(moveIndices(60000, 60), 30000, 2))
		add("wide rows", how, graph.Float32, []int{5, 400}, tuples(moveIndices(90, 5), 90, 1))
		add("narrow rows", how, graph.Float32, []int{500, 7}, tuples(moveIndices(4000, 500), 4000, 1))
		add("whole", how, graph.Float32, []int{2, 3}, moveEmpty(graph.Int64, 3, 0))
	}
	add("no tuples", "add", graph.Float32, []int{3, 2}, moveEmpty(graph.Int64, 0, 1))
	add("bools", "none", graph.Bool, []int{3, 2}, tuples([]int64{1}, 1, 1))
	x := moveFloats([]int{3}, 1, 2, 3)
	return append(all,
		moveOpset(11, moveCase(op.ScatterND, "old", moveFloats([]int{3}, 1, 5, 3), nil, x, tuples([]int64{-2}, 1, 1),
			moveFloats([]int{1}, 5))),
		moveFails(op.ScatterND, "outside", "index -4", nil, x, tuples([]int64{-4}, 1, 1), moveFloats([]int{1}, 5)),
		moveFails(op.ScatterND, "updates", "input 2 has shape", nil, x, tuples([]int64{0}, 1, 1), x),
		moveFails(op.ScatterND, "too deep", "more axes", nil, x, tuples([]int64{0, 0}, 1, 2), moveFloats([]int{1}, 5)),
		moveFails(op.ScatterND, "reduction", "reduction", moveAttrs("reduction", "sum"), x, tuples([]int64{0}, 1, 1),
			moveFloats([]int{1}, 5)))
}

func moveTensorScatterCases() []Case {
	var all []Case
	add := func(name string, axis int, mode string, cache, update []int, from ...int64) {
		x, u := moveCount(graph.Float32, cache...), moveCount(graph.Float32, update...)
		both := &executor.Tensor{DType: graph.Float32, Data: append(append([]byte{}, x.Data...), u.Data...)}
		want := movePick(both, cache, func(index []int) int {
			first := 0
			if len(from) > 0 {
				first = int(from[index[0]])
			}
			at := append([]int{}, index...)
			if at[axis] -= first; at[axis] < 0 && mode == "circular" {
				at[axis] += cache[axis]
			}
			if at[axis] >= 0 && at[axis] < update[axis] {
				return x.Len() + moveAt(update, at...)
			}
			return moveAt(cache, index...)
		})
		in := []*executor.Tensor{x, u}
		if len(from) > 0 {
			in = append(in, moveLongs(from...))
		}
		all = append(all, moveCase(op.TensorScatter, name, want, moveAttrs("axis", int64(axis), "mode", mode), in...))
	}
	add("linear", 1, "linear", []int{2, 5, 3}, []int{2, 2, 3}, 1, 3)
	add("circular", 2, "circular", []int{2, 2, 5, 3}, []int{2, 2, 3, 3}, 4, 1)
	add("from 0", 2, "linear", []int{2, 2, 5, 3}, []int{2, 2, 3, 3})
	add("empty", 1, "linear", []int{2, 5, 3}, []int{2, 0, 3}, 5, 0)
	add("large", 1, "circular", []int{3, 90, 100}, []int{3, 80, 100}, 20, 0, 89)
	x, u := moveCount(graph.Float32, 2, 5, 3), moveCount(graph.Float32, 2, 2, 3)
	return append(all,
		moveFails(op.TensorScatter, "beyond", "place 4", nil, x, u, moveLongs(0, 4)),
		moveFails(op.TensorScatter, "negative", "place -1", moveAttrs("mode", "circular"), x, u, moveLongs(0, -1)),
		moveFails(op.TensorScatter, "count", "batch of 2", nil, x, u, moveLongs(0)),
		moveFails(op.TensorScatter, "batch axis", "batch axis", moveAttrs("axis", int64(0)), x, u, moveLongs(0, 0)),
		moveFails(op.TensorScatter, "other shape", "differ", nil, x, moveCount(graph.Float32, 2, 2, 4)),
		moveFails(op.TensorScatter, "mode", "mode", moveAttrs("mode", "ring"), x, u))
}
