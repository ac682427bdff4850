package autograd_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// sameForward checks that a differentiated graph gives the outputs of the forward graph.
func sameForward(t *testing.T, cases []gradCase) {
	for _, c := range cases {
		if c.Fails != "" {
			continue
		}
		m := c.parse(t)
		opts := autograd.Options{
			Wrt: []string{}, Losses: []autograd.Loss{{Name: m.Graph.ValueName(m.Graph.Outputs[0].Value), Seed: true}},
		}
		j, err := autograd.Differentiate(m, opts)
		require.NoError(t, err, c.Name)
		in := c.inputs(t, m, rand.New(rand.NewPCG(3, 4)))
		want := newRunner(t, m, c.Dims)(in)
		in[opts.Losses[0].Name+autograd.SeedSuffix] = want[0]
		got := newRunner(t, j.Model, c.Dims)(in)
		for i := range want {
			require.Equal(t, want[i].Shape, got[i].Shape, c.Name)
			require.InDeltaSlice(t, executor.Of[float64](want[i]), executor.Of[float64](got[i]), 1e-6, c.Name)
		}
	}
}

// TestAttention: heads with axes and packed, shared keys, masks, causality, a cache, scores.
func TestAttention(t *testing.T) {
	admit := map[string]*executor.Tensor{
		"m": {
			DType: graph.Bool, Shape: []int{2, 1, 3, 3},
			Data: []byte{1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1},
		},
	}
	n := symbolic.Env{"B": 2, "S": 3, "T": 4, "D": 2}
	wide, same := `double[2, 2, 3, 4] q, double[2, 2, 5, 4] k, double[2, 2, 5, 3] v`,
		`double[2, 2, 3, 2] q, double[2, 2, 3, 2] k, double[2, 2, 3, 2] v`
	cases := []gradCase{
		{Name: "plain", Opset: 23, Graph: `g (` + wide + `) => (double[2, 2, 3, 3] y) { y = Attention(q, k, v) }`},
		{Name: "scale and cap", Opset: 24,
			Graph: `g (` + wide + `) => (double[2, 2, 3, 3] y) { y = Attention<scale = 0.3, softcap = 1.5>(q, k, v) }`},
		{Name: "causal", Opset: 23,
			Graph: `g (` + same + `) => (double[2, 2, 3, 2] y) { y = Attention<is_causal = 1>(q, k, v) }`},
		{Name: "admitting", Opset: 23,
			Graph: `g (` + same + `, bool[2, 1, 3, 3] m) => (double[2, 2, 3, 2] y) { y = Attention(q, k, v, m) }`,
			In:    admit},
		{Name: "no key for some queries", Opset: 23,
			Graph: `g (` + same + `, bool[2, 1, 3, 3] m) => (double[2, 2, 3, 2] y, double[2, 2, 3, 3] p) { y, a, b, p = Attention<qk_matmul_output_mode = 3>(q, k, v, m) }`,
			In: map[string]*executor.Tensor{"m": {DType: graph.Bool, Shape: []int{2, 1, 3, 3},
				Data: []byte{1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1}}}},
		{Name: "no key by the mask and the order together", Opset: 24,
			Graph: `g (` + same + `, bool[3, 3] m) => (double[2, 2, 3, 2] y) { y = Attention<is_causal = 1>(q, k, v, m) }`,
			In: map[string]*executor.Tensor{"m": {DType: graph.Bool, Shape: []int{3, 3},
				Data: []byte{0, 1, 1, 0, 1, 0, 1, 0, 0}}}},
		{Name: "no key by what is added, shared keys", Opset: 23,
			Graph: `g (double[2, 4, 3, 2] q, double[2, 2, 3, 2] k, double[2, 2, 3, 2] v) => (double[2, 4, 3, 2] y)
				<double[3, 3] e = {0, 0, 0, 1, 0, 2, 1, 1, 1}> { m = Log(e)  y = Attention(q, k, v, m) }`},
		{Name: "adding", Opset: 23,
			Graph: `g (` + same +
				`, double[3, 3] m) => (double[2, 2, 3, 2] y) { y = Attention<is_causal = 1>(q, k, v, m) }`},
		{Name: "shared keys", Opset: 23,
			Graph: `g (double[2, 4, 3, 2] q, double[2, 2, 3, 2] k, double[2, 2, 3, 2] v) => (double[2, 4, 3, 2] y) { y = Attention<is_causal = 1>(q, k, v) }`},
		{Name: "packed", Opset: 23,
			Graph: `g (double[B, S, 8] q, double[B, T, 4] k, double[B, T, 6] v) => (double[B, S, 12] y) { y = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v) }`,
			Dims:  n},
		{Name: "symbolic", Opset: 24,
			Graph: `g (double[B, 4, S, D] q, double[B, 2, T, D] k, double[B, 2, T, D] v, double[S, T] m) => (double[B, 4, S, D] y) { y = Attention<is_causal = 1>(q, k, v, m) }`,
			Dims:  n},
		{Name: "cache", Opset: 23,
			Graph: `g (` + same +
				`, double[2, 2, 4, 2] pk, double[2, 2, 4, 2] pv) => (double[2, 2, 3, 2] y, double[2, 2, 7, 2] nk, double[2, 2, 7, 2] nv) { y, nk, nv = Attention<is_causal = 1>(q, k, v, , pk, pv) }`},
		{Name: "products", Opset: 23,
			Graph: `g (` + same +
				`) => (double[2, 2, 3, 2] y, double[2, 2, 3, 3] p) { y, a, b, p = Attention(q, k, v) }`},
		{Name: "probabilities", Opset: 23,
			Graph: `g (` + same +
				`) => (double[2, 2, 3, 2] y, double[2, 2, 3, 3] p) { y, a, b, p = Attention<qk_matmul_output_mode = 3, softmax_precision = 11>(q, k, v) }`},
		{Name: "lengths", Opset: 24,
			Graph: `g (` + same + `, int64[2] n) => (double[2, 2, 3, 2] y) { y = Attention(q, k, v, , , , n) }`,
			Fails: "lengths"},
		{Name: "window", Opset: 25,
			Graph: `g (` + same + `) => (double[2, 2, 3, 2] y) { y = Attention<left_window_size = 0>(q, k, v) }`,
			Fails: "window of keys (left_window_size)"},
		{Name: "short mask", Opset: 24,
			Graph: `g (` + same + `, double[3, 2] m) => (double[2, 2, 3, 2] y) { y = Attention(q, k, v, m) }`,
			Fails: "fewer keys"},
		{Name: "masked scores", Opset: 23,
			Graph: `g (` + same +
				`) => (double[2, 2, 3, 2] y, double[2, 2, 3, 3] p) { y, a, b, p = Attention<qk_matmul_output_mode = 2>(q, k, v) }`,
			Fails: "not made"},
	}
	checkGradients(t, cases)
	sameForward(t, cases)
}

// TestMicrosoftAttention: biases, masks, causality.
func TestMicrosoftAttention(t *testing.T) {
	n := symbolic.Env{"B": 2, "S": 3, "T": 4}
	mask := map[string]*executor.Tensor{"m": nnInts32([]int{2, 4}, 1, 1, 1, 0, 1, 0, 1, 1)}
	square := map[string]*executor.Tensor{"m": nnInts32([]int{2, 3}, 1, 1, 0, 1, 0, 1)}
	ends := map[string]*executor.Tensor{"m": nnInts32([]int{2}, 2, 3)}
	const three = `double[B, S, 4] q, double[B, T, 4] k, double[B, T, 6] v`
	cases := []gradCase{
		{Name: "multi-head",
			Graph: `g (` + three +
				`) => (double[B, S, 6] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v) }`,
			Dims: n},
		{Name: "multi-head, bias",
			Graph: `g (` + three +
				`, double[14] b, int32[B, T] m, double[B, 1, S, T] a) => (double[B, S, 6] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.4, mask_filter_value = -1.5>(q, k, v, b, m, a) }`,
			Dims: n, In: mask},
		{Name: "multi-head, causal",
			Graph: `g (` + three +
				`) => (double[B, S, 6] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>(q, k, v) }`,
			Dims: n},
		{Name: "multi-head, lengths",
			Graph: `g (` + three +
				`, int32[2] m) => (double[B, S, 6] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, , m) }`,
			Dims: n, In: ends, Fails: "lengths"},
		{Name: "multi-head, packed",
			Graph: `g (double[B, S, 2, 3, 4] q) => (double[B, S, 8] y) { y = com.microsoft.MultiHeadAttention<num_heads = 2>(q) }`,
			Dims:  n, Fails: "packed"},
		{Name: "attention",
			Graph: `g (double[B, S, 5] x, double[5, 12] w, double[12] b) => (double[B, S, 4] y) { y = com.microsoft.Attention<num_heads = 2>(x, w, b) }`,
			Dims:  n},
		{Name: "attention, sizes", Opset: 12,
			Graph: `g (double[2, 3, 5] x, double[5, 14] w, double[14] b, int32[2, 3] m) => (double[2, 3, 6] y) { y = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4, 4, 6], unidirectional = 1, mask_filter_value = -1.5>(x, w, b, m) }`,
			In:    square},
		{Name: "attention, added",
			Graph: `g (double[2, 3, 5] x, double[5, 12] w, double[2, 2, 3, 3] a) => (double[2, 3, 4] y) { y = com.microsoft.Attention<num_heads = 2>(x, w, , , , a) }`},
		{Name: "attention, cache",
			Graph: `g (double[2, 3, 5] x, double[5, 12] w, double[2, 2, 2, 4, 2] p) => (double[2, 3, 4] y) { y = com.microsoft.Attention<num_heads = 2>(x, w, , , p) }`,
			Fails: "cache"},
	}
	checkGradients(t, cases)
	sameForward(t, cases)
}
