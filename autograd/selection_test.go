package autograd_test

import (
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

func TestCumSum(t *testing.T) {
	n := symbolic.Env{"N": 3, "M": 4}
	var cases []gradCase
	for i := range 4 {
		for _, axis := range []int{0, 1, -1, -2} {
			attrs := fmt.Sprintf("<exclusive = %d, reverse = %d>", i&1, i>>1)
			cases = append(cases,
				gradCase{
					Name: fmt.Sprint("cumsum", attrs, axis),
					Graph: fmt.Sprintf(`g (double[3, 4] x) => (double[3, 4] y) <int64 a = {%d}> { y = CumSum%s(x, a) }`,
						axis, attrs),
				},
				gradCase{Name: fmt.Sprint("symbolic cumsum", attrs, axis),
					Graph: fmt.Sprintf(`g (double[N, M] x, int32 a) => (double[N, M] y) { y = CumSum%s(x, a) }`, attrs),
					Dims:  n,
					In:    map[string]*executor.Tensor{"a": executor.NewTensor(graph.Int32, []int{}, int32(axis))},
					Opset: 11})
		}
	}
	checkGradients(t, cases)
}

func TestTopK(t *testing.T) {
	n := symbolic.Env{"N": 3, "M": 5, "K": 2}
	k := map[string]*executor.Tensor{"k": executor.NewTensor[int64](graph.Int64, []int{1}, 2)}
	checkGradients(t, []gradCase{
		{
			Name:  "topk",
			Graph: `g (double[3, 5] x) => (double[3, 2] y, int64[3, 2] i) <int64[1] k = {2}> { y, i = TopK(x, k) }`,
		},
		{Name: "topk, no indices",
			Graph: `g (double[3, 5] x) => (double[3, 2] y) <int64[1] k = {2}> { y = TopK(x, k) }`},
		{Name: "topk, left out",
			Graph: `g (double[3, 5] x) => (double[3, 2] y) <int64[1] k = {2}> { y, = TopK<sorted=0>(x, k) }`},
		{Name: "topk, axis 0",
			Graph: `g (double[5, 3] x) => (double[2, 3] y) <int64[1] k = {2}> { y, i = TopK<axis=0, largest=0>(x, k) }`},
		{Name: "topk, axis -2",
			Graph: `g (double[5, M] x) => (double[2, M] y) <int64[1] k = {2}> { y, i = TopK<axis=-2>(x, k) }`,
			Dims:  n},
		{Name: "topk at run time", Graph: `g (double[N, M] x, int64[1] k) => (double[N, K] y) { y, i = TopK(x, k) }`,
			Dims: n, In: k},
		{Name: "topk 10", Graph: `g (double[3, 5] x) => (double[3, 2] y) <int64[1] k = {2}> { y, i = TopK(x, k) }`,
			Opset: 10},
		{Name: "topk 24", Graph: `g (double[3, 5] x) => (double[3, 2] y) <int64[1] k = {2}> { y, i = TopK(x, k) }`,
			Opset: 24},
		{Name: "indices only",
			Graph: `g (double[3, 5] x) => (double[3, 5] y) <int64[1] k = {2}> { v, i = TopK(x, k)  a = Cast<to=11>(i)  b = ReduceSum(a)  y = Mul(x, b) }`},
	})
}

// TestPlaces: operators that give places have no gradient; where the shape depends on the data
// there is none either.
func TestPlaces(t *testing.T) {
	checkGradients(t, []gradCase{
		{Name: "argmax",
			Graph: `g (double[3, 5] x) => (double[3, 5] y) { i = ArgMax(x)  j = ArgMin(x)  k = Add(i, j)  a = Cast<to=11>(k)  y = Mul(x, a) }`},
		{Name: "nonzero",
			Graph: `g (double[3] x) => (double[3] y) { i = NonZero(x)  k = ReduceMax<keepdims=0>(i)  a = Cast<to=11>(k)  y = Mul(x, a) }`},
		{Name: "hardmax", Graph: `g (double[3, 5] x) => (double[3, 5] y) { a = Hardmax(x)  y = Mul(x, a) }`},
		{Name: "unique", Graph: `g (double[3] x) => (double[M] y) { y = Unique(x) }`, Fails: "distinct"},
		{Name: "det", Graph: `g (double[3, 3] x) => (double y) { y = Det(x) }`, Fails: "inverse"},
	})
}
