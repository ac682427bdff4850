package autograd_test

import (
	"testing"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// TestNorms: the norms besides layer and batch normalization.
func TestNorms(t *testing.T) {
	n := symbolic.Env{"N": 2, "C": 4, "D": 3, "H": 2}
	checkGradients(t, []gradCase{
		{Name: "rms", Opset: 23,
			Graph: `g (double[2, 4] x, double[4] s) => (double[2, 4] y) { y = RMSNormalization(x, s) }`},
		{Name: "rms axes", Opset: 23,
			Graph: `g (double[N, 3, D] x, double[3, 1] s) => (double[N, 3, D] y) { y = RMSNormalization<axis = 1, epsilon = 0.1>(x, s) }`,
			Dims:  n},
		{Name: "simplified",
			Graph: `g (double[2, 4] x, double[4] s) => (double[2, 4] y) { y = SimplifiedLayerNormalization(x, s) }`},
		{Name: "simplified, symbolic",
			Graph: `g (double[N, D, C] x, double[C] s) => (double[N, D, C] y) { y = SimplifiedLayerNormalization<axis = -1, epsilon = 0.1>(x, s) }`,
			Dims:  n},
		{Name: "instance",
			Graph: `g (double[2, 3, 4] x, double[3] s, double[3] b) => (double[2, 3, 4] y) { y = InstanceNormalization(x, s, b) }`},
		{Name: "instance, symbolic",
			Graph: `g (double[N, C, D, H] x, double[C] s, double[C] b) => (double[N, C, D, H] y) { y = InstanceNormalization<epsilon = 0.1>(x, s, b) }`,
			Dims:  n},
		{Name: "instance, 18", Opset: 18,
			Graph: `g (double[N, C, D, H] x, double[C] s, double[C] b) => (double[N, C, D, H] y) { y = InstanceNormalization(x, s, b) }`,
			Dims:  n, Wrt: []string{"x"}},
		{Name: "group, 18", Opset: 18,
			Graph: `g (double[2, 4, 3] x, double[2] s, double[2] b) => (double[2, 4, 3] y) { y = GroupNormalization<num_groups = 2>(x, s, b) }`},
		{Name: "group, 18 symbolic", Opset: 18,
			Graph: `g (double[N, C, D, H] x, double[2] s, double[2] b) => (double[N, C, D, H] y) { y = GroupNormalization<num_groups = 2>(x, s, b) }`,
			Dims:  n},
		{Name: "group, 21", Opset: 21,
			Graph: `g (double[2, 4, 3] x, double[4] s, double[4] b) => (double[2, 4, 3] y) { y = GroupNormalization<num_groups = 2>(x, s, b) }`},
		{Name: "group, 21 symbolic", Opset: 21,
			Graph: `g (double[N, C, D, H] x, double[C] s, double[C] b) => (double[N, C, D, H] y) { y = GroupNormalization<num_groups = 2, epsilon = 0.1>(x, s, b) }`,
			Dims:  n},
		{Name: "group, rank 2", Opset: 21,
			Graph: `g (double[N, 4] x, double[4] s, double[4] b) => (double[N, 4] y) { y = GroupNormalization<num_groups = 2>(x, s, b) }`,
			Dims:  n},
		{Name: "mean variance",
			Graph: `g (double[2, 3, 2, 2] x) => (double[2, 3, 2, 2] y) { y = MeanVarianceNormalization(x) }`},
		{Name: "mean variance axes", Opset: 18,
			Graph: `g (double[N, D, C] x) => (double[N, D, C] y) { y = MeanVarianceNormalization<axes = [-1, 0]>(x) }`,
			Dims:  n},
		{Name: "lp 2", Graph: `g (double[2, 3] x) => (double[2, 3] y) { y = LpNormalization(x) }`},
		{Name: "lp 2, first", Opset: 18,
			Graph: `g (double[N, D] x) => (double[N, D] y) { y = LpNormalization<axis = 0>(x) }`,
			Dims:  n},
		{
			Name:  "lp 1",
			Graph: `g (double[N, D, C] x) => (double[N, D, C] y) { y = LpNormalization<p = 1, axis = 1>(x) }`,
			Dims:  n,
		},
		{Name: "lrn", Graph: `g (double[2, 5, 3] x) => (double[2, 5, 3] y) { y = LRN<size = 3, alpha = 0.5>(x) }`},
		{Name: "lrn even",
			Graph: `g (double[N, C, D, H] x) => (double[N, C, D, H] y) { y = LRN<size = 4, alpha = 0.9, beta = 0.5, bias = 1.5>(x) }`,
			Dims:  n},
		{Name: "lrn rank 2", Graph: `g (double[N, C] x) => (double[N, C] y) { y = LRN<size = 2, alpha = 0.9>(x) }`,
			Dims: n},
		{Name: "lrn rank 5",
			Graph: `g (double[1, 2, 2, 2, 2] x) => (double[1, 2, 2, 2, 2] y) { y = LRN<size = 2, alpha = 0.9>(x) }`,
			Fails: "rank 5"},
		{Name: "skip", Graph: `g (double[N, D, 4] x, double[N, D, 4] k, double[4] s, double[4] b, double[4] c) => (double[N, D, 4] y, double[N, D, 4] z) { y, m, v, z = com.microsoft.SkipLayerNormalization(x, k, s, b, c) }`,
			Dims: n, Tol: 1e-4},
		{Name: "skip, no bias", Opset: 15,
			Graph: `g (double[2, 3, 4] x, double[3, 4] k, double[4] s) => (double[2, 3, 4] y) { y = com.microsoft.SkipLayerNormalization<epsilon = 0.1>(x, k, s) }`,
			Tol:   1e-4},
	})
}

// TestNormsOfZeros: the norm of zeros has the gradient zero.
func TestNormsOfZeros(t *testing.T) {
	zeros := map[string]*executor.Tensor{"x": {DType: graph.Float64, Shape: []int{1, 1, 2}, Data: make([]byte, 16)}}
	for _, op := range []string{"LpNormalization", "LpNormalization<p = 1>", "GlobalLpPool",
		"LpPool<kernel_shape = [2]>"} {
		c := gradCase{Name: op, Graph: `g (double[1, 1, 2] x) => (double[1, 1, k] y) { y = ` + op + `(x) }`, In: zeros}
		got := c.gradient(t, "x")
		for _, v := range got {
			if v != 0 {
				t.Errorf("%s: gradient %v, wanted zeros", op, got)
			}
		}
	}
}

// TestLpPool: orders, windows; global pools.
func TestLpPool(t *testing.T) {
	list := [][3]string{
		{"2, 2, 6", "kernel_shape = [2], strides = [2]", "apart"},
		{"2, 2, 7", "kernel_shape = [3], p = 1", "order 1"},
		{"2, 2, 6, 5", "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1], p = 3", "pads"},
		{"2, 2, 7", `kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER"`, "same"},
	}
	checkGradients(t, poolCases("LpPool", 17, list))
	checkGradients(t, poolCases("LpPool", 18, append(list,
		[3]string{"2, 2, 6, 7", "kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1", "ceil"},
		[3]string{"2, 2, 7, 7", "kernel_shape = [2, 2], strides = [2, 1], dilations = [2, 3]", "dilations"})))
	n := symbolic.Env{"N": 2, "C": 3, "H": 2, "W": 4}
	checkGradients(t, []gradCase{
		{Name: "global", Graph: `g (double[2, 3, 2, 4] x) => (double[2, 3, 1, 1] y) { y = GlobalLpPool(x) }`},
		{Name: "global 1", Graph: `g (double[N, C, H, W] x) => (double[N, C, 1, 1] y) { y = GlobalLpPool<p = 1>(x) }`,
			Dims: n},
		{Name: "global 3", Graph: `g (double[N, C, H, W] x) => (double[N, C, 1, 1] y) { y = GlobalLpPool<p = 3>(x) }`,
			Dims: n},
		{Name: "global max", Graph: `g (double[2, 3, 2, 4] x) => (double[2, 3, 1, 1] y) { y = GlobalMaxPool(x) }`},
		{Name: "global max, symbolic", Opset: 12,
			Graph: `g (double[N, C, H, W] x) => (double[N, C, 1, 1] y) { y = GlobalMaxPool(x) }`,
			Dims:  n},
	})
}

// TestCol2Im: blocks that overlap, and what is under padding.
func TestCol2Im(t *testing.T) {
	n := symbolic.Env{"N": 2, "K": 8, "L": 6}
	in := map[string]*executor.Tensor{"i": nnInts([]int{2}, 4, 5), "b": nnInts([]int{2}, 2, 2)}
	checkGradients(t, []gradCase{
		{Name: "plain", Opset: 18,
			Graph: `g (double[2, 8, 12] x) => (double[2, 2, 4, 5] y) <int64[2] i = {4, 5}, int64[2] b = {2, 2}> { y = Col2Im(x, i, b) }`},
		{Name: "strides", Opset: 18,
			Graph: `g (double[N, K, L] x) => (double[N, C, H, W] y) <int64[2] i = {4, 5}, int64[2] b = {2, 2}> { y = Col2Im<strides = [2, 2], dilations = [1, 1], pads = [0, 1, 0, 0]>(x, i, b) }`,
			Dims:  n},
		{Name: "1-d", Opset: 18,
			Graph: `g (double[2, 6, 3] x) => (double[2, 2, 8] y) <int64[1] i = {8}, int64[1] b = {3}> { y = Col2Im<dilations = [2], pads = [1, 1], strides = [2]>(x, i, b) }`},
		{Name: "unknown block", Opset: 18,
			Graph: `g (double[2, 8, 12] x, int64[2] i, int64[2] b) => (double[2, 2, 4, 5] y) { y = Col2Im(x, i, b) }`,
			In:    in, Fails: "block_shape"},
	})
}

// TestPoolTies: of equal elements the first is chosen, as in PyTorch.
func TestPoolTies(t *testing.T) {
	same := map[string]*executor.Tensor{
		"x": {DType: graph.Float64, Shape: []int{1, 1, 4}, Data: executor.Memory([]float64{1, 1, 1, 1})},
	}
	for op, want := range map[string][]float64{
		"MaxPool<kernel_shape = [2], strides = [2]>": {1, 0, 1, 0},
		"MaxPool<kernel_shape = [2]>":                {1, 1, 1, 0},
		"GlobalMaxPool":                              {1, 0, 0, 0},
	} {
		c := gradCase{Name: op, Graph: `g (double[1, 1, 4] x) => (double[1, 1, k] y) { y = ` + op + `(x) }`, In: same}
		got := c.gradient(t, "x")
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: gradient %v, wanted %v", op, got, want)
				break
			}
		}
	}
}
