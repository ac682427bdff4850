package autograd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// ints is an int64 tensor.
func ints(shape []int, elems ...int64) *executor.Tensor {
	return &executor.Tensor{DType: graph.Int64, Shape: shape, Data: executor.Memory(elems)}
}

// int32s is an int32 vector.
func int32s(elems ...int32) *executor.Tensor {
	return &executor.Tensor{DType: graph.Int32, Shape: []int{len(elems)}, Data: executor.Memory(elems)}
}

type tensors = map[string]*executor.Tensor

var nks = symbolic.Env{"N": 3, "K": 2, "S": 4}

func TestGatherGradients(t *testing.T) {
	at := tensors{"i": ints([]int{2, 3}, 4, 0, 4, -1, 2, -5)}
	checkGradients(t, []gradCase{
		{Name: "rows", Graph: `g (double[5, 3] x, int64[2, 3] i) => (double[2, 3, 3] y) { y = Gather(x, i) }`, In: at},
		{Name: "rows, older set", Opset: 11,
			Graph: `g (double[5, 3] x, int64[2, 3] i) => (double[2, 3, 3] y) { y = Gather(x, i) }`,
			In:    at},
		{Name: "rows of a symbolic number",
			Graph: `g (double[V, D] x, int64[2, S] i) => (double[2, S, D] y) { y = Gather(x, i) }`,
			In:    at, Dims: symbolic.Env{"V": 5, "D": 2, "S": 3}},
		{Name: "vector", Graph: `g (double[5] x, int64[2, 3] i) => (double[2, 3] y) { y = Gather(x, i) }`, In: at},
		{Name: "symbolic vector", Graph: `g (double[V] x, int64[2, 3] i) => (double[2, 3] y) { y = Gather(x, i) }`,
			In: at, Dims: symbolic.Env{"V": 5}},
		{Name: "axis 1",
			Graph: `g (double[2, 5, 3] x, int64[2, 3] i) => (double[2, 2, 3, 3] y) { y = Gather<axis = 1>(x, i) }`,
			In:    at},
		{Name: "axis 1, symbolic",
			Graph: `g (double[N, V, D] x, int64[K, S] i) => (double[N, K, S, D] y) { y = Gather<axis = 1>(x, i) }`,
			In:    at,
			Dims:  symbolic.Env{"V": 5, "D": 2, "S": 3, "N": 2, "K": 2}},
		{Name: "last axis",
			Graph: `g (double[2, 3, 5] x, int32[3] i) => (double[2, 3, 3] y) { y = Gather<axis = -1>(x, i) }`,
			In:    tensors{"i": int32s(-1, 4, 2)}},
		{Name: "scalar index", Graph: `g (double[5, 3] x, int64 i) => (double[3] y) { y = Gather(x, i) }`,
			In: tensors{"i": ints([]int{}, -2)}},
		{Name: "scalar index, axis 1",
			Graph: `g (double[2, 5, 3] x, int64 i) => (double[2, 3] y) { y = Gather<axis = 1>(x, i) }`,
			In:    tensors{"i": ints([]int{}, 3)}},
		{Name: "constant scalar",
			Graph: `g (double[N, 5, 3] x) => (double[N, 3] y) <int64 i = {0}> { y = Gather<axis = 1>(x, i) }`,
			Dims:  nks},
		{Name: "constant scalar, old", Opset: 9,
			Graph: `g (double[N, 5, 3] x) => (double[N, 3] y) <int64 i = {-2}> { y = Gather<axis = 1>(x, i) }`,
			Dims:  nks},
		{Name: "constant scalar, symbolic axis", Opset: 11,
			Graph: `g (double[2, N, 3] x) => (double[2, 3] y) <int64 i = {0}> { y = Gather<axis = 1>(x, i) }`,
			Dims:  nks},
		{Name: "constant scalar from the end, symbolic axis",
			Graph: `g (double[N, 3] x) => (double[3] y) <int64 i = {-1}> { y = Gather(x, i) }`,
			Dims:  nks},
		{Name: "constant run, symbolic axis",
			Graph: `g (double[2, S] x) => (double[2, 2] y) <int64[2] i = {1, 2}> { y = Gather<axis = -1>(x, i) }`,
			Dims:  nks},
		{Name: "constant run from the end, symbolic axis",
			Graph: `g (double[2, S] x) => (double[2, 2] y) <int64[2] i = {-3, -2}> { y = Gather<axis = -1>(x, i) }`,
			Dims:  nks},
		{Name: "constant run",
			Graph: `g (double[2, 5] x) => (double[2, 3] y) <int64[3] i = {1, 2, -2}> { y = Gather<axis = 1>(x, i) }`},
		{Name: "constant and different", Opset: 13,
			Graph: `g (double[2, 5] x) => (double[2, 3] y) <int64[3] i = {4, 0, 2}> { y = Gather<axis = 1>(x, i) }`},
		{Name: "constant twice",
			Graph: `g (double[2, 5] x) => (double[2, 3] y) <int64[3] i = {4, 2, -1}> { y = Gather<axis = 1>(x, i) }`},
		{Name: "shrunken",
			Graph: `g (double[5, 3] x, int64[2] i) => (double[2, 3] y) { y = com.microsoft.ShrunkenGather(x, i) }`,
			In:    tensors{"i": ints([]int{2}, 4, 1)}},
		{Name: "elements", Graph: `g (double[3, 2] x, int64[2, 2] i) => (double[2, 2] y) { y = GatherElements(x, i) }`,
			In: tensors{"i": ints([]int{2, 2}, 0, -1, 0, 2)}},
		{Name: "elements, axis 1", Opset: 13,
			Graph: `g (double[2, 3] x, int64[2, 2] i) => (double[2, 2] y) { y = GatherElements<axis = -1>(x, i) }`,
			In:    tensors{"i": ints([]int{2, 2}, 0, 0, 2, -1)}},
		{Name: "elements, symbolic", Opset: 18,
			Graph: `g (double[N, S] x, int64[2, 2] i) => (double[2, 2] y) { y = GatherElements<axis = 1>(x, i) }`,
			In:    tensors{"i": ints([]int{2, 2}, 0, 0, 2, -1)}, Dims: nks},
		{Name: "ND", Graph: `g (double[3, 2, 2] x, int64[2, 2] i) => (double[2, 2] y) { y = GatherND(x, i) }`,
			In: tensors{"i": ints([]int{2, 2}, 0, 1, -3, 1)}},
		{Name: "ND of rows", Opset: 11,
			Graph: `g (double[3, 2, 2] x, int64[2, 1] i) => (double[2, 2, 2] y) { y = GatherND(x, i) }`,
			In:    tensors{"i": ints([]int{2, 1}, 2, 2)}},
		{Name: "ND in batches",
			Graph: `g (double[2, 3, 4] x, int64[2, 2, 1] i) => (double[2, 2, 4] y) { y = GatherND<batch_dims = 1>(x, i) }`,
			In:    tensors{"i": ints([]int{2, 2, 1}, 0, 2, 1, 1)}},
		{Name: "ND in batches, symbolic",
			Graph: `g (double[K, N, S] x, int64[K, N, 1] i) => (double[K, N] y) { y = GatherND<batch_dims = 2>(x, i) }`,
			In:    tensors{"i": ints([]int{2, 3, 1}, 0, 2, 1, 1, 3, -1)}, Dims: nks},
	})
}

func TestScatterGradients(t *testing.T) {
	at := tensors{"i": ints([]int{2, 2}, 0, -1, 1, 0)}
	twice := tensors{"i": ints([]int{2, 2}, 0, 2, 0, 2)}
	const head = `g (double[3, 2] x, int64[2, 2] i, double[2, 2] u) => (double[3, 2] y) `
	tuples := tensors{"i": ints([]int{2, 2}, 0, 1, -1, 0)}
	same := tensors{"i": ints([]int{2, 1}, 1, 1)}
	tied := tensors{
		"i": twice["i"], "x": floats([]int{3, 2}, 1, 1, 0, 1, 1, -1), "u": floats([]int{2, 2}, 2, 0.5, 0.5, 0.25),
	}
	checkGradients(t, []gradCase{
		{Name: "elements", Graph: head + `{ y = ScatterElements(x, i, u) }`, In: at},
		{Name: "elements, axis 1", Opset: 11, Graph: head + `{ y = ScatterElements<axis = -1>(x, i, u) }`,
			In: tensors{"i": ints([]int{2, 2}, 0, -1, 1, 0)}},
		{Name: "old name", Opset: 9, Graph: head + `{ y = Scatter(x, i, u) }`, In: at},
		{Name: "elements, symbolic",
			Graph: `g (double[N, K] x, int64[K, K] i, double[K, K] u) => (double[N, K] y) { y = ScatterElements(x, i, u) }`,
			In:    at, Dims: nks},
		{Name: "elements added", Graph: head + `{ y = ScatterElements<reduction = "add">(x, i, u) }`, In: twice},
		{Name: "elements multiplied", Opset: 18, Wrt: []string{"x"},
			Graph: head + `{ y = ScatterElements<reduction = "mul">(x, i, u) }`,
			In:    twice},
		{Name: "elements multiplied, updates", Opset: 18,
			Graph: head + `{ y = ScatterElements<reduction = "mul">(x, i, u) }`,
			In:    twice, Fails: "reduction mul"},
		{Name: "elements max", Opset: 18,
			Graph: head + `{ y = ScatterElements<reduction = "max">(x, i, u) }`, In: tied},
		{Name: "elements min", Opset: 18,
			Graph: head + `{ y = ScatterElements<reduction = "min">(x, i, u) }`, In: tied},
		{Name: "ND", Graph: `g (double[3, 2] x, int64[2, 2] i, double[2] u) => (double[3, 2] y) { y = ScatterND(x, i, u) }`,
			In: tuples},
		{Name: "ND, symbolic", Opset: 13,
			Graph: `g (double[N, K] x, int64[K, 2] i, double[K] u) => (double[N, K] y) { y = ScatterND(x, i, u) }`,
			In:    tuples, Dims: nks},
		{Name: "ND of rows, added",
			Graph: `g (double[3, 2] x, int64[2, 1] i, double[2, 2] u) => (double[3, 2] y) { y = ScatterND<reduction = "add">(x, i, u) }`,
			In:    same},
		{Name: "ND of rows, max", Opset: 18,
			Graph: `g (double[3, 2] x, int64[2, 1] i, double[2, 2] u) => (double[3, 2] y) { y = ScatterND<reduction = "max">(x, i, u) }`,
			In:    same},
		{Name: "ND multiplied", Opset: 18, Wrt: []string{"x"},
			Graph: `g (double[3, 2] x, int64[2, 1] i, double[2, 2] u) => (double[3, 2] y) { y = ScatterND<reduction = "mul">(x, i, u) }`,
			In:    same},
		{Name: "cache", Opset: 24,
			Graph: `g (double[2, 1, 4, 2] x, double[2, 1, 1, 2] u) => (double[2, 1, 4, 2] y) { y = TensorScatter(x, u) }`,
			Fails: "cache"},
	})
}

func floats(shape []int, elems ...float64) *executor.Tensor {
	return &executor.Tensor{DType: graph.Float64, Shape: shape, Data: executor.Memory(elems)}
}

func TestReshapeGradients(t *testing.T) {
	checkGradients(t, []gradCase{
		{Name: "reshape", Graph: `g (double[2, 6] x) => (double[3, 4] y) <int64[2] s = {3, -1}> { y = Reshape(x, s) }`},
		{Name: "reshape, merged",
			Graph: `g (double[N, S, 3] x) => (double[M, 3] y) <int64[2] s = {-1, 3}> { y = Reshape(x, s) }`,
			Dims:  nks},
		{Name: "reshape, taken apart",
			Graph: `g (double[N, S, 6] x) => (double[N, S, 2, 3] y) <int64[4] s = {0, 0, 2, 3}> { y = Reshape(x, s) }`,
			Dims:  nks},
		{Name: "reshape by a shape",
			Graph: `g (double[N, S] x, double[S, N] like) => (double[S, N] y) { s = Shape(like)  y = Reshape(x, s) }`,
			Dims:  nks, Wrt: []string{"x"}},
		{Name: "reshape to a vector and a scalar",
			Graph: `g (double[1, 1] x) => (double y) <int64[0] s = {}> { y = Reshape(x, s) }`},
		{Name: "flatten", Graph: `g (double[N, 2, S] x) => (double[N, T] y) { y = Flatten(x) }`, Dims: nks},
		{Name: "flatten all", Opset: 9, Graph: `g (double[2, 3] x) => (double[1, 6] y) { y = Flatten<axis = 0>(x) }`},
		{Name: "squeeze", Graph: `g (double[1, N, 1] x) => (double[N] y) <int64[2] a = {0, -1}> { y = Squeeze(x, a) }`,
			Dims: nks},
		{Name: "squeeze, old", Opset: 11,
			Graph: `g (double[1, N, 1] x) => (double[N] y) { y = Squeeze<axes = [0, 2]>(x) }`,
			Dims:  nks},
		{Name: "squeeze all", Graph: `g (double[1, 3, 1] x) => (double[3] y) { y = Squeeze(x) }`},
		{Name: "squeeze unknown", Graph: `g (double[1, N, 1] x) => (double[N] y) { y = Squeeze(x) }`, Dims: nks},
		{Name: "unsqueeze",
			Graph: `g (double[N, S] x) => (double[1, N, S, 1] y) <int64[2] a = {0, -1}> { y = Unsqueeze(x, a) }`,
			Dims:  nks},
		{Name: "unsqueeze, old", Opset: 9,
			Graph: `g (double[N, S] x) => (double[N, 1, S] y) { y = Unsqueeze<axes = [1]>(x) }`,
			Dims:  nks},
		{Name: "transpose",
			Graph: `g (double[2, 3, 4] x) => (double[4, 2, 3] y) { y = Transpose<perm = [2, 0, 1]>(x) }`},
		{Name: "transpose all", Graph: `g (double[N, 3, S] x) => (double[S, 3, N] y) { y = Transpose(x) }`, Dims: nks},
		{Name: "identity",
			Graph: `g (double[N] x) => (double[N] y) { a = MemcpyFromHost(x)  b = Identity(a)  y = MemcpyToHost(b) }`,
			Dims:  nks},
		{Name: "expand",
			Graph: `g (double[3, 1] x) => (double[2, 3, 4] y) <int64[3] s = {2, 1, 4}> { y = Expand(x, s) }`},
		{Name: "expand, symbolic",
			Graph: `g (double[N, 1] x, double[K, N, S] like) => (double[K, N, S] y) { s = Shape(like)  y = Expand(x, s) }`,
			Dims:  nks, Wrt: []string{"x"}},
		{Name: "tile", Graph: `g (double[2, 3] x) => (double[4, 9] y) <int64[2] r = {2, 3}> { y = Tile(x, r) }`},
		{Name: "tile one axis", Opset: 11,
			Graph: `g (double[N, S] x) => (double[N, T] y) <int64[2] r = {1, 3}> { y = Tile(x, r) }`,
			Dims:  nks},
		{Name: "tile symbolic",
			Graph: `g (double[N, S] x) => (double[M, T] y) <int64[2] r = {2, 3}> { y = Tile(x, r) }`, Dims: nks},
		{Name: "tile, at run time", Graph: `g (double[N, S] x, int64[2] r) => (double[?, ?] y) { y = Tile(x, r) }`,
			Dims: nks, In: tensors{"r": ints([]int{2}, 2, 3)}},
		{Name: "tile once", Graph: `g (double[N, S] x) => (double[N, S] y) <int64[2] r = {1, 1}> { y = Tile(x, r) }`,
			Dims: nks},
	})
}

func TestConcatGradients(t *testing.T) {
	checkGradients(t, []gradCase{
		{Name: "concat",
			Graph: `g (double[2, 3] a, double[2, 1] b) => (double[2, 4] y) { y = Concat<axis = -1>(a, b) }`},
		{Name: "concat, old", Opset: 11,
			Graph: `g (double[2, 3] a, double[2, 1] b) => (double[2, 4] y) { y = Concat<axis = 1>(a, b) }`},
		{Name: "concat, some",
			Graph: `g (double[2, 3] a, double[2, 1] b, double[2, 2] c) => (double[2, 6] y) { y = Concat<axis = 1>(a, b, c) }`,
			Wrt:   []string{"a", "c"}},
		{Name: "concat, some, old", Opset: 9,
			Graph: `g (double[2, 3] a, double[2, 1] b, double[2, 2] c) => (double[2, 6] y) { y = Concat<axis = 1>(a, b, c) }`,
			Wrt:   []string{"b"}},
		{Name: "concat with itself", Graph: `g (double[2, 3] a) => (double[4, 3] y) { y = Concat<axis = 0>(a, a) }`},
		{Name: "concat of one", Graph: `g (double[2, 3] a) => (double[2, 3] y) { y = Concat<axis = 0>(a) }`},
		{Name: "concat, symbolic", Opset: 11,
			Graph: `g (double[N, 3] a, double[K, 3] b) => (double[M, 3] y) { y = Concat<axis = 0>(a, b) }`,
			Dims:  nks},
		{Name: "concat, symbolic, one wanted",
			Graph: `g (double[N, 3] a, double[K, 3] b) => (double[M, 3] y) { y = Concat<axis = 0>(a, b) }`,
			Dims:  nks, Wrt: []string{"b"}},
		{Name: "training",
			Graph: `g (double[N, 3] a, double[K, 3] b) => (double[M, 3] y, int64[2] n) { y, n = com.microsoft.ConcatTraining<axis = 0>(a, b) }`,
			Dims:  nks},
		{Name: "split",
			Graph: `g (double[2, 6] x) => (double[2, 2] a, double[2, 4] b) <int64[2] s = {2, 4}> { a, b = Split<axis = 1>(x, s) }`},
		{Name: "split, old", Opset: 11,
			Graph: `g (double[2, 6] x) => (double[2, 3] a, double[2, 3] b) { a, b = Split<axis = -1>(x) }`},
		{Name: "split, one used",
			Graph: `g (double[2, 6] x) => (double[2, 2] y) { a, b, c = Split<axis = 1>(x)  y = Relu(b) }`},
		{Name: "split, two used", Opset: 18,
			Graph: `g (double[2, N] x) => (double[2, M] y) <int64[3] s = {1, 1, 1}> { a, b, c = Split<axis = 1>(x, s)  y = Concat<axis = 1>(a, c) }`,
			Dims:  nks},
		{Name: "split, symbolic", Opset: 18,
			Graph: `g (double[S, 2] x) => (double[A, 2] a, double[B, 2] b) { a, b = Split<num_outputs = 2>(x) }`,
			Dims:  nks},
		{Name: "split, symbolic, one used",
			Graph: `g (double[S, 2] x) => (double[A, 2] y) { a, b = Split(x)  y = Relu(b) }`,
			Dims:  nks},
		{Name: "split in one", Graph: `g (double[S, 2] x) => (double[S, 2] y) { y = Split(x) }`, Dims: nks},
		{Name: "split training",
			Graph: `g (double[S, 2] x) => (double[A, 2] a, double[B, 2] b) <int64[2] s = {1, 3}> { a, b = com.microsoft.SplitTraining<axis = 0>(x, s) }`,
			Dims:  nks},
	})
}

func TestSliceGradients(t *testing.T) {
	one := func(elems ...int64) *executor.Tensor { return ints([]int{len(elems)}, elems...) }
	narrow := func(elems ...int32) *executor.Tensor {
		return executor.NewTensor(graph.Int32, []int{len(elems)}, elems...)
	}
	const body = `{ y = Slice(x, s, e, a, t) }`
	const two = `<int64[2] s = {1, -4}, int64[2] e = {9223372036854775807, -1}, int64[2] a = {-1, 0}> { y = Slice(x, s, e, a) }`
	checkGradients(t, []gradCase{
		{Name: "numbers", Graph: `g (double[5, 4, 2] x) => (double[M, 4, L] y) ` + two},
		{Name: "first axes",
			Graph: `g (double[5, 4] x) => (double[2, 2] y) <int64[2] s = {1, 2}, int64[2] e = {3, 4}> { y = Slice(x, s, e) }`},
		{Name: "attributes", Opset: 9,
			Graph: `g (double[5, 4] x) => (double[5, 2] y) { y = Slice<starts = [-3], ends = [-1], axes = [1]>(x) }`},
		{Name: "attributes, first axes", Opset: 9,
			Graph: `g (double[5, 4] x) => (double[3, 4] y) { y = Slice<starts = [1], ends = [4]>(x) }`},
		{Name: "nothing cut",
			Graph: `g (double[N, 4] x) => (double[N, 4] y) <int64[1] s = {0}, int64[1] e = {2147483647}, int64[1] a = {0}> { y = Slice(x, s, e, a) }`,
			Dims:  nks},
		{Name: "empty",
			Graph: `g (double[5] x, double[2] z) => (double[M] y) <int64[1] s = {9}, int64[1] e = {12}> { b = Slice(x, s, e)  y = Concat<axis = 0>(b, z) }`},
		{Name: "other dims symbolic",
			Graph: `g (double[N, 4, S] x) => (double[N, 1, S] y) <int64[1] s = {-1}, int64[1] e = {4}, int64[1] a = {1}> { y = Slice(x, s, e, a) }`,
			Dims:  nks},
		{Name: "symbolic", Opset: 11,
			Graph: `g (double[S, 4] x) => (double[M, L] y) <int64[2] s = {1, 2}, int64[2] e = {3, 4}> { y = Slice(x, s, e) }`,
			Dims:  nks},
		{Name: "symbolic, to the end", Opset: 11,
			Graph: `g (double[S, K, 4] x) => (double[?, ?, 4] y) <int64[2] s = {0, 0}, int64[2] e = {-1, 1}, int64[2] a = {1, 0}> { y = Slice(x, s, e, a) }`,
			Dims:  nks},
		{Name: "symbolic, from the end",
			Graph: `g (double[S, 4] x) => (double[M, 4] y) <int64[1] s = {-3}, int64[1] e = {-1}> { y = Slice(x, s, e) }`,
			Dims:  nks},
		{Name: "symbolic, before the start",
			Graph: `g (double[S, 4] x) => (double[M, 4] y) <int64[1] s = {-30}, int64[1] e = {-1}> { y = Slice(x, s, e) }`,
			Dims:  nks},
		{Name: "at run time",
			Graph: `g (double[5, S] x, int64[2] s, int64[2] e, double[2, 2] z) => (double[?, ?] y) <int64[2] a = {1, 0}> { y = Slice(x, s, e, a) }`,
			Dims:  nks,
			In:    tensors{"s": one(-3, 1), "e": one(3, 100)}, Wrt: []string{"x"}},
		{Name: "at run time, int32",
			Graph: `g (double[5, S] x, int32[2] s, int32[2] e) => (double[?, ?] y) { y = Slice(x, s, e) }`,
			Dims:  nks,
			In:    tensors{"s": int32s(-3, 1), "e": int32s(3, 100)}},
		{Name: "step 2",
			Graph: `g (double[5, 4] x) => (double[3, 2] y) <int64[2] s = {0, 1}, int64[2] e = {5, 4}, int64[2] a = {0, 1}, int64[2] t = {2, 2}> ` + body},
		{Name: "step -2",
			Graph: `g (double[3, 6] x) => (double[3, 2] y) <int64[1] s = {-1}, int64[1] e = {1}, int64[1] a = {1}, int64[1] t = {-2}> ` + body},
		{Name: "step 2, symbolic", Opset: 11,
			Graph: `g (double[S, N] x) => (double[S, 2] y) <int64[1] s = {0}, int64[1] e = {100}, int64[1] a = {1}, int64[1] t = {2}> ` + body, Dims: nks},
		{Name: "reversed",
			Graph: `g (double[S, 3] x) => (double[S, 3] y) <int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {1}, int64[1] t = {-1}> ` + body, Dims: nks},
		{Name: "reversed, symbolic",
			Graph: `g (double[S, 3] x) => (double[S, 3] y) <int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {0}, int64[1] t = {-1}> ` + body, Dims: nks},
		{Name: "part reversed",
			Graph: `g (double[4, 3] x) => (double[2, 3] y) <int64[1] s = {2}, int64[1] e = {0}, int64[1] a = {0}, int64[1] t = {-1}> ` + body, Dims: nks},
		{Name: "mixed steps",
			Graph: `g (double[6, S, 3] x) => (double[A, 2, B] y) <int64[3] s = {1, 1, -1}, int64[3] e = {6, 3, -5}, int64[3] a = {0, 1, 2}, int64[3] t = {3, 1, -1}> ` + body, Dims: nks},
		{Name: "steps at run time",
			Graph: `g (double[6, S] x, int64[2] s, int64[2] e, int64[2] a, int64[2] t) => (double[?, ?] y) <int64[2] axes = {0, 1}> { y = Slice(x, s, e, axes, t) }`,
			Dims:  nks,
			In:    tensors{"s": one(-1, 1), "e": one(-6, 3), "a": one(0, 1), "t": one(-2, 1)}},
		{Name: "unknown rank", Opset: 18,
			Graph: `g (double[4] x, int64[?] n, int64[1] s, int64[1] e) => (double[2] y) { a = Reshape(x, n)  b = Slice(a, s, e)  y = Slice(b, s, e) }`,
			Wrt:   []string{"x"}, Fails: "rank"},
		{Name: "axes at run time",
			Graph: `g (double[6, S] x, int64[2] s, int64[2] e, int64[2] a) => (double[?, ?] y) { y = Slice(x, s, e, a) }`,
			Dims:  nks, In: tensors{"s": one(1, 2), "e": one(-1, 5), "a": one(1, 0)}},
		{Name: "axes and steps at run time",
			Graph: `g (double[6, S] x, int32[2] s, int32[2] e, int32[2] a, int32[2] t) => (double[?, ?] y) { y = Slice(x, s, e, a, t) }`,
			Dims:  nks, In: tensors{"s": narrow(-1, 1), "e": narrow(-6, 3), "a": narrow(0, 1), "t": narrow(-2, 1)}},
		{Name: "as many axes as a symbol says",
			Graph: `g (double[6, S] x, int64[L] s, int64[L] e) => (double[?, ?] y) { y = Slice(x, s, e) }`,
			Dims:  symbolic.Env{"L": 1, "S": 4}, In: tensors{"s": one(1), "e": one(4)}},
	})
}

func TestPadGradients(t *testing.T) {
	amounts := func(n int64) string {
		return `<int64[4] p = {` + map[int64]string{0: "1, 0, 2, 3", 1: "1, -1, 0, 2", 2: "1, 2, 1, 1",
			3: "-1, 2, 1, 0"}[n] + `}>`
	}
	checkGradients(t, []gradCase{
		{Name: "constant", Graph: `g (double[2, 3] x) => (double[5, 6] y) ` + amounts(0) + `{ y = Pad(x, p) }`},
		{Name: "attributes", Opset: 9,
			Graph: `g (double[2, 3] x) => (double[5, 6] y) { y = Pad<pads = [1, 0, 2, 3], value = 2.0>(x) }`},
		{Name: "attributes, opset 10", Opset: 10,
			Graph: `g (double[2, 3] x) => (double[5, 6] y) { y = Pad<pads = [1, 0, 2, 3]>(x) }`},
		{Name: "negative", Graph: `g (double[2, 3] x) => (double[3, 4] y) ` + amounts(1) + `{ y = Pad(x, p) }`},
		{Name: "value", Opset: 13, Graph: `g (double[N, 3] x, double v) => (double[M, 6] y) ` + amounts(0) +
			`{ y = Pad(x, p, v) }`,
			Dims: nks},
		{Name: "value only", Graph: `g (double[N, 3] x, double v) => (double[M, 4] y) ` + amounts(1) +
			`{ y = Pad(x, p, v) }`,
			Dims: nks, Wrt: []string{"v"}},
		{Name: "at run time", Graph: `g (double[N, 3] x, int64[4] p) => (double[?, ?] y) { y = Pad(x, p) }`,
			In: tensors{"p": ints([]int{4}, 1, -1, 0, 2)}, Dims: nks},
		{Name: "axes", Opset: 18,
			Graph: `g (double[N, 3] x) => (double[N, 6] y) <int64[2] p = {1, 2}, int64[1] a = {-1}> { y = Pad(x, p, , a) }`,
			Dims:  nks},
		{Name: "axes at run time", Opset: 18,
			Graph: `g (double[N, 3] x, int64[2] p) => (double[N, ?] y) <int64[1] a = {1}> { y = Pad(x, p, , a) }`,
			In:    tensors{"p": ints([]int{2}, 1, -1)}, Dims: nks},
		{Name: "reflect", Graph: `g (double[3, 4] x) => (double[5, 7] y) ` + amounts(2) +
			`{ y = Pad<mode = "reflect">(x, p) }`},
		{Name: "edge", Opset: 11, Graph: `g (double[3, 4] x) => (double[5, 7] y) ` + amounts(2) +
			`{ y = Pad<mode = "edge">(x, p) }`},
		{Name: "edge, cut", Graph: `g (double[3, 4] x) => (double[3, 6] y) ` + amounts(3) +
			`{ y = Pad<mode = "edge">(x, p) }`},
		{Name: "edge, symbolic", Graph: `g (double[N, S] x) => (double[A, B] y) ` + amounts(2) +
			`{ y = Pad<mode = "edge">(x, p) }`,
			Dims: nks},
		{Name: "wrap", Opset: 19, Graph: `g (double[3, 4] x) => (double[5, 7] y) ` + amounts(2) +
			`{ y = Pad<mode = "wrap">(x, p) }`},
		{Name: "reflect, old", Opset: 9,
			Graph: `g (double[3, 4] x) => (double[4, 4] y) { y = Pad<mode = "reflect", pads = [1, 0, 0, 0]>(x) }`},
		{Name: "reflect at run time", Opset: 18,
			Graph: `g (double[N, S] x, int64[2] p) => (double[N, ?] y) <int64[1] a = {1}> { y = Pad<mode = "reflect">(x, p, , a) }`,
			In:    tensors{"p": ints([]int{2}, 1, 2)}, Dims: nks},
	})
}

func TestMovingGradients(t *testing.T) {
	cond := &executor.Tensor{DType: graph.Bool, Shape: []int{4}, Data: []byte{1, 0, 1, 1}}
	aten := func(more string) string {
		return `<ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1]> g (double[5, 2] x, int64[3] i) => (double[3, 2] y) ` + more
	}
	at := tensors{"i": ints([]int{3}, 4, 1, 4)}
	checkGradients(t, []gradCase{
		{Name: "depth to space",
			Graph: `g (double[N, 8, 2, 3] x) => (double[N, 2, 4, 6] y) { y = DepthToSpace<blocksize = 2>(x) }`,
			Dims:  nks},
		{Name: "depth to space CRD",
			Graph: `g (double[2, 8, 2, 3] x) => (double[2, 2, 4, 6] y) { y = DepthToSpace<blocksize = 2, mode = "CRD">(x) }`},
		{Name: "depth to space CRD, symbolic",
			Graph: `g (double[N, 8, K, S] x) => (double[N, 2, A, B] y) { y = DepthToSpace<blocksize = 2, mode = "CRD">(x) }`,
			Dims:  nks},
		{Name: "space to depth",
			Graph: `g (double[N, 2, 4, 6] x) => (double[N, 8, 2, 3] y) { y = SpaceToDepth<blocksize = 2>(x) }`,
			Dims:  nks},
		{Name: "center", Opset: 18,
			Graph: `g (double[4, 5, 2] x) => (double[7, 2, 2] y) <int64[3] s = {7, 2, 2}> { y = CenterCropPad(x, s) }`},
		{Name: "center, axes", Opset: 18,
			Graph: `g (double[N, 5, S] x) => (double[N, 2, B] y) <int64[2] s = {7, 2}> { y = CenterCropPad<axes = [-1, 1]>(x, s) }`,
			Dims:  nks},
		{Name: "compress", Graph: `g (double[3, 4] x, bool[4] c) => (double[3, ?] y) { y = Compress<axis = -1>(x, c) }`,
			In: tensors{"c": cond}},
		{Name: "compress, symbolic", Opset: 11,
			Graph: `g (double[S, N] x, bool[4] c) => (double[?, N] y) { y = Compress<axis = 0>(x, c) }`,
			In:    tensors{"c": cond}, Dims: nks},
		{Name: "compress all", Graph: `g (double[N, 4] x, bool[4] c) => (double[?] y) { y = Compress(x, c) }`,
			In: tensors{"c": cond}, Dims: nks},
		{Name: "reverse sequence",
			Graph: `g (double[4, N] x, int64[N] n) => (double[4, N] y) { y = ReverseSequence(x, n) }`,
			In:    tensors{"n": ints([]int{3}, 2, 4, 1)}, Dims: nks},
		{Name: "reverse sequence, batch first",
			Graph: `g (double[N, 4, 2] x, int64[N] n) => (double[N, 4, 2] y) { y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, n) }`,
			In:    tensors{"n": ints([]int{3}, 2, 4, 1)}, Dims: nks},
		{Name: "trilu", Graph: `g (double[N, S] x) => (double[N, S] y) { y = Trilu(x) }`, Dims: nks},
		{Name: "trilu, lower",
			Graph: `g (double[2, N, S] x) => (double[2, N, S] y) <int64 k = {-1}> { y = Trilu<upper = 0>(x, k) }`,
			Dims:  nks},
		{Name: "one-hot",
			Graph: `g (int64[3] i, double[2] v) => (double[3, 5] y) <int64 d = {5}> { y = OneHot(i, d, v) }`,
			In:    at},
		{Name: "one-hot, first axis", Opset: 11,
			Graph: `g (int64[3] i, double[2] v) => (double[5, 3] y) <int64 d = {5}> { y = OneHot<axis = 0>(i, d, v) }`,
			In:    at},
		{Name: "unpad",
			Graph: `g (double[2, 3, 2] x, int64[3] i) => (double[3, 2] y, int64[2] n) { y, n = com.microsoft.FlattenAndUnpad(x, i) }`,
			In:    tensors{"i": ints([]int{3}, 0, 3, 5)}},
		{Name: "unpad, symbolic",
			Graph: `g (double[K, N, S] x, int64[3] i) => (double[3, S] y, int64[2] n) { y, n = com.microsoft.FlattenAndUnpad(x, i) }`,
			In:    tensors{"i": ints([]int{3}, 0, 3, 5)}, Dims: nks},
		{Name: "pad again",
			Graph: `g (double[3, S] x, int64[3] i, int64[2] n) => (double[?, ?, S] y) { y = com.microsoft.PadAndUnflatten(x, i, n) }`,
			In:    tensors{"i": ints([]int{3}, 0, 3, 5), "n": ints([]int{2}, 2, 3)}, Dims: nks},
		{Name: "embedding", Graph: aten(`{ y = org.pytorch.aten.ATen<operator = "aten::embedding">(x, i) }`), In: at},
		{Name: "embedding with padding",
			Graph: aten(
				`<int64 p = {2}, bool no = {0}> { y = org.pytorch.aten.ATen<operator = "embedding">(x, i, p, no, no) }`), In: at},
		{Name: "embedding by count",
			Graph: aten(
				`<int64 p = {-1}, bool yes = {1}> { y = org.pytorch.aten.ATen<operator = "aten::embedding">(x, i, p, yes, yes) }`), Fails: "scale_grad_by_freq"},
		{Name: "another function", Graph: aten(`{ y = org.pytorch.aten.ATen<operator = "aten::erfinv">(x, i) }`),
			Fails: "erfinv"},
	})
}

// TestEmbeddingPadding: the row of the padding gets no gradient.
func TestEmbeddingPadding(t *testing.T) {
	c := gradCase{Graph: `<ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1]>
		g (double[5, 2] x, int64[3] i) => (double[3, 2] y) <int64 p = {4}, bool no = {0}> { y = org.pytorch.aten.ATen<operator = "aten::embedding">(x, i, p, no, no) }`}
	j, err := autograd.Differentiate(c.parse(t), autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	in := tensors{
		"x": floats([]int{5, 2}, make([]float64, 10)...), "i": ints([]int{3}, 4, 1, 4),
		"y_grad_seed": floats([]int{3, 2}, 1, 2, 3, 4, 5, 6),
	}
	outs := newRunner(t, j.Model, nil)(in)
	require.Equal(t, []float64{0, 0, 3, 4, 0, 0, 0, 0, 0, 0}, executor.Of[float64](outs[1]))
}

// TestShapeTypes: the rules hold for every float type.
func TestShapeTypes(t *testing.T) {
	for _, name := range []string{"float16", "bfloat16", "float", "double"} {
		text := strings.ReplaceAll(
			`g (T[5, 4] x, int64[3] i, T[2] v) => (T[3, 2] y, T[3, 5] h, T[7, 4] p) <int64[1] s = {0}, int64[1] e = {9}, int64[1] a = {1}, int64[1] t = {2}, int64 d = {5}, int64[4] q = {1, 0, 1, 0}> {
			r = Gather(x, i)  y = Slice(r, s, e, a, t)  h = OneHot(i, d, v)  p = Pad<mode = "edge">(x, q) }`, "T[", name+"[")
		m := (&gradCase{Name: name, Graph: text}).parse(t)
		j, err := autograd.Differentiate(m,
			autograd.Options{
				Losses: []autograd.Loss{{Name: "y", Seed: true}, {Name: "h", Seed: true}, {Name: "p", Seed: true}},
			})
		require.NoError(t, err)
		require.Equal(t, []string{"x", "v"}, j.Wrt)
		inferred(t, j.Model)
	}
}
