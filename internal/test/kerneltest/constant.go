package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveConstantCases) }

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
