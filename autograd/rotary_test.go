package autograd_test

import (
	"testing"

	"memopt/executor"
	"memopt/symbolic"
)

// TestRotaryEmbedding: halves and pairs, a part of the head, positions.
func TestRotaryEmbedding(t *testing.T) {
	pos := map[string]*executor.Tensor{"p": nnInts([]int{2, 3}, 0, 2, 1, 4, 3, 0)}
	n := symbolic.Env{"B": 2, "S": 3}
	x := []string{"x"}
	checkGradients(t, []gradCase{
		{Name: "halves", Opset: 23,
			Graph: `g (double[2, 2, 3, 4] x, double[2, 3, 2] c, double[2, 3, 2] s) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding(x, c, s) }`,
			Wrt:   x},
		{Name: "pairs", Opset: 23,
			Graph: `g (double[2, 2, 3, 4] x, double[2, 3, 2] c, double[2, 3, 2] s) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding<interleaved = 1>(x, c, s) }`,
			Wrt:   x},
		{Name: "packed", Opset: 23,
			Graph: `g (double[B, S, 8] x, double[5, 1] c, double[5, 1] s, int64[B, S] p) => (double[B, S, 8] y) { y = RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 2>(x, c, s, p) }`,
			In:    pos, Wrt: x, Dims: n},
	})
}
