package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveConstantCases)
	register(moveRangeCases)
	register(moveShapeCases)
}

func moveConstantCases() []Case {
	var all []Case
	add := func(name, attr string, value any, want *executor.Tensor) {
		all = append(all, moveCase(op.Constant, name, want, moveAttrs(attr, value)))
	}
	add("int", "value_int", int64(-3), moveScalar(-3))
	add("ints", "value_ints", []int64{1, -2}, moveLongs(1, -2))
	add("no ints", "value_ints", []int64{}, moveLongs())
	add("float", "value_float", float32(2.5), moveFloats([]int{}, 2.5))
	add("floats", "value_floats", []float32{1, 2}, moveFloats([]int{2}, 1, 2))
	add("tensor", "value", graph.Float32Tensor("", []int64{2, 1}, 3, 4), moveFloats([]int{2, 1}, 3, 4))
	add("empty tensor", "value", graph.Float32Tensor("", []int64{2, 0}), moveEmpty(graph.Float32, 2, 0))
	values := graph.Float32Tensor("", []int64{2}, 7, 8)
	want := moveFloats([]int{2, 3}, 0, 0, 7, 8, 0, 0)
	add("sparse, flat", "sparse_value",
		&graph.Sparse{Dims: []int64{2, 3}, Values: values, Indices: graph.Int64Tensor("", []int64{2}, 2, 3)}, want)
	add("sparse, tuples", "sparse_value",
		&graph.Sparse{Dims: []int64{2, 3}, Values: values, Indices: graph.Int64Tensor("", []int64{2, 2}, 0, 2, 1, 0)},
		want)
	fails := func(name, message, attr string, value any) {
		all = append(all,
			Case{Name: name, Kind: op.Constant, Attrs: moveAttrs(attr, value), Out: []graph.DType{graph.Float32},
				Fails: message})
	}
	fails("string", "strings", "value_string", "x")
	fails("strings", "strings", "value_strings", []string{"x"})
	fails("nothing", "no value", "other", int64(1))
	fails("sparse outside", "index 6", "sparse_value",
		&graph.Sparse{Dims: []int64{2, 3}, Values: values, Indices: graph.Int64Tensor("", []int64{2}, 2, 6)})
	fails("other type", "type", "value_int", int64(1))

	full := func(name string, value *graph.TensorData, want *executor.Tensor, dims ...int64) {
		var attrs []graph.Attr
		if value != nil {
			attrs = moveAttrs("value", value)
		}
		all = append(all, moveCase(op.ConstantOfShape, name, want, attrs, moveLongs(dims...)))
	}
	full("zeros", nil, moveEmpty(graph.Float32, 2, 3), 2, 3)
	full("floats", graph.Float32Tensor("", []int64{1}, 1.5), moveFloats([]int{3}, 1.5, 1.5, 1.5), 3)
	full("ints", graph.Int64Tensor("", []int64{1}, -1), moveLongs(-1, -1), 2)
	full("scalar", nil, moveEmpty(graph.Float32))
	full("empty", graph.Int64Tensor("", []int64{1}, 7), moveEmpty(graph.Int64, 0, 3), 0, 3)
	half := &graph.TensorData{DType: graph.Float16, Dims: []int64{1}, Source: graph.Raw([]byte{0, 0x3c})}
	full("half", half, moveValues(graph.Float16, []int{3}, 1, 1, 1), 3)
	ones := moveEmpty(graph.Float32, 200, 300)
	for i := range ones.Len() {
		executor.Of[float32](ones)[i] = 1
	}
	full("large", graph.Float32Tensor("", []int64{1}, 1), ones, 200, 300)
	return append(all, moveEyeCases()...)
}

func moveEyeCases() []Case {
	huge := moveFails(op.ConstantOfShape, "huge", "shape", nil, moveLongs(1<<40, 1<<40))
	negative := moveFails(op.ConstantOfShape, "negative", "dim -1", nil, moveLongs(-1))
	huge.Out[0], negative.Out[0] = graph.Float32, graph.Float32
	eye := func(d graph.DType, rows, cols, k int) *executor.Tensor {
		v := make([]float64, rows*cols)
		for i := range v {
			if i%cols == i/cols+k {
				v[i] = 1
			}
		}
		return moveValues(d, []int{rows, cols}, v...)
	}
	all := []Case{huge, negative,
		moveCase(op.EyeLike, "type of the input", eye(graph.Float32, 3, 4, 0), nil, moveCount(graph.Float32, 3, 4)),
		moveCase(op.EyeLike, "empty", moveEmpty(graph.Float32, 0, 4), nil, moveEmpty(graph.Float32, 0, 4)),
		moveFails(op.EyeLike, "rank", "matrix", nil, moveCount(graph.Float32, 3)),
	}
	for _, d := range moveSums {
		all = append(all,
			moveCase(op.EyeLike, fmt.Sprint(d), eye(d, 3, 2, 0), moveAttrs("dtype", int64(d)),
				moveCount(graph.Int32, 3, 2)))
	}
	for _, k := range []int{-9, -3, -2, 1, 3, 4} {
		all = append(all,
			moveCase(op.EyeLike, fmt.Sprint("diagonal ", k), eye(graph.Float32, 3, 4, k), moveAttrs("k", int64(k)),
				moveCount(graph.Float32, 3, 4)))
	}
	return all
}

func moveRangeCases() []Case {
	var all []Case
	add := func(name string, d graph.DType, start, limit, delta float64, want ...float64) {
		one := func(v float64) *executor.Tensor { return moveValues(d, []int{}, v) }
		all = append(all,
			moveCase(op.Range, name, moveValues(d, []int{len(want)}, want...), nil, one(start), one(limit), one(delta)))
	}
	add("up", graph.Float32, 1, 5, 2, 1, 3)
	add("up, part", graph.Float32, 1, 5.5, 2, 1, 3, 5)
	add("down", graph.Int32, 10, 4, -2, 10, 8, 6)
	add("down, part", graph.Int64, 10, 4, -4, 10, 6)
	add("none", graph.Int64, 5, 5, 1)
	add("wrong way", graph.Int64, 5, 3, 1)
	add("wrong way down", graph.Float64, 3, 5, -1)
	add("double", graph.Float64, 0, 1, 0.25, 0, 0.25, 0.5, 0.75)
	add("half", graph.Float16, 0, 3, 1, 0, 1, 2)
	n := 40000
	want := make([]float64, n)
	for i := range want {
		want[i] = float64(7 + 3*i)
	}
	add("large", graph.Int64, 7, float64(7+3*n), 3, want...)
	ends := moveCase(op.Range, "far ends", moveLongs(math.MinInt64, -1, math.MaxInt64-1), nil,
		moveScalar(math.MinInt64), moveScalar(math.MaxInt64), moveScalar(math.MaxInt64))
	return append(all, ends,
		moveFails(op.Range, "no step", "is 0", nil, moveScalar(0), moveScalar(3), moveScalar(0)),
		moveFails(op.Range, "huge", "no range", nil, moveScalar(math.MinInt64), moveScalar(math.MaxInt64),
			moveScalar(1)),
		moveFails(op.Range, "NaN", "no range", nil, moveFloats([]int{}, 0), moveFloats([]int{}, float32(math.NaN())),
			moveFloats([]int{}, 1)),
		moveFails(op.Range, "endless", "no range", nil, moveFloats([]int{}, 0),
			moveFloats([]int{}, float32(math.Inf(1))), moveFloats([]int{}, 1)),
		moveFails(op.Range, "list", "one element", nil, moveLongs(0, 1), moveScalar(1), moveScalar(1)))
}

func moveShapeCases() []Case {
	x := moveCount(graph.Float16, 2, 3, 4)
	shape := func(name string, want *executor.Tensor, pairs ...any) Case {
		return moveCase(op.Shape, name, want, moveAttrs(pairs...), x)
	}
	return []Case{
		shape("all", moveLongs(2, 3, 4)),
		shape("part", moveLongs(3), "start", int64(1), "end", int64(2)),
		shape("from the end", moveLongs(3), "start", int64(-2), "end", int64(-1)),
		shape("held", moveLongs(2, 3, 4), "start", int64(-9), "end", int64(9)),
		shape("none", moveLongs(), "start", int64(2), "end", int64(1)),
		moveOpset(13, shape("without bounds", moveLongs(2, 3, 4), "start", int64(1))),
		moveCase(op.Shape, "scalar", moveLongs(), nil, moveCount(graph.Float32)),
		moveCase(op.Size, "rank 3", moveScalar(24), nil, x),
		moveCase(op.Size, "scalar", moveScalar(1), nil, moveCount(graph.Float32)),
		moveCase(op.Size, "empty", moveScalar(0), nil, moveEmpty(graph.Float32, 3, 0)),
	}
}
