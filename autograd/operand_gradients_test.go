package autograd_test

import (
	"testing"

	"memopt/executor"
	"memopt/symbolic"
)

// TestSettings: the gradients of bounds, tables of angles, weights of classes, running statistics, and
// starts of ranges.
func TestSettings(t *testing.T) {
	pos := map[string]*executor.Tensor{"p": nnInts([]int{2, 3}, 0, 2, 1, 4, 3, 0)}
	labels := map[string]*executor.Tensor{"l": nnInts([]int{4}, 2, 0, 1, 2)}
	ignored := map[string]*executor.Tensor{"l": nnInts([]int{4}, 2, -100, 1, -100)}
	spatial := map[string]*executor.Tensor{"l": nnInts([]int{2, 2}, 2, 0, 1, 2)}
	bounds := map[string]*executor.Tensor{"lo": floats([]int{}, -0.5), "hi": floats([]int{}, 0.75)}
	crossed := map[string]*executor.Tensor{"lo": floats([]int{}, 0.5), "hi": floats([]int{}, -0.75)}
	n := symbolic.Env{"B": 2, "S": 3, "N": 4, "C": 3, "K": 5}
	statistics := map[string]*executor.Tensor{"v": floats([]int{3}, 0.5, 1.25, 2)}
	cases := []gradCase{
		{Name: "clip", Graph: `g (double[4, 6] x, double lo, double hi) => (double[4, 6] y) { y = Clip(x, lo, hi) }`,
			In: bounds, Seeds: 3},
		{Name: "clip below", Graph: `g (double[4, 6] x, double lo) => (double[4, 6] y) { y = Clip(x, lo) }`, In: bounds},
		{Name: "clip above", Opset: 11,
			Graph: `g (double[N, 6] x, double hi) => (double[N, 6] y) { y = Clip(x, , hi) }`, In: bounds, Dims: n},
		{Name: "clip, bounds in the wrong order",
			Graph: `g (double[4, 6] x, double lo, double hi) => (double[4, 6] y) { y = Clip(x, lo, hi) }`, In: crossed},
		{Name: "clip, bounds of one element",
			Graph: `g (double[6] x, double[1] l, double h) => (double[6] y) <int64[0] s = {}> { lo = Reshape(l, s)  hi = Add(h, lo)  y = Clip(x, lo, hi) }`,
			In:    map[string]*executor.Tensor{"l": floats([]int{1}, -0.5), "h": floats([]int{}, 0.75)}},
		{Name: "range",
			Graph: `g (double a, double b, double d) => (double[K] y) { r = Range(a, b, d)  y = Mul(r, r) }`,
			In: map[string]*executor.Tensor{"a": floats([]int{}, -1), "b": floats([]int{}, 1.7),
				"d": floats([]int{}, 0.6)},
			Wrt: []string{"a", "d"}, Dims: n},
		{Name: "range, its end", Wrt: []string{"b"},
			Graph: `g (double a, double b, double d) => (double[K] y) { r = Range(a, b, d)  y = Mul(r, r) }`,
			In: map[string]*executor.Tensor{"a": floats([]int{}, -1), "b": floats([]int{}, 1.7),
				"d": floats([]int{}, 0.6)},
			Dims: n},
		{Name: "rotary, halves", Opset: 23,
			Graph: `g (double[2, 2, 3, 4] x, double[2, 3, 2] c, double[2, 3, 2] s) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding(x, c, s) }`},
		{Name: "rotary, pairs", Opset: 23,
			Graph: `g (double[2, 2, 3, 4] x, double[2, 3, 2] c, double[2, 3, 2] s) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding<interleaved = 1>(x, c, s) }`},
		{Name: "rotary, one entry of the batch", Opset: 23, Wrt: []string{"c"},
			Graph: `g (double[B, 2, S, 4] x, double[B, S, 2] c, double[B, S, 2] s) => (double[B, 2, S, 4] y) { y = RotaryEmbedding(x, c, s) }`,
			Dims:  n},
		{Name: "rotary, a part of packed heads", Opset: 23,
			Graph: `g (double[B, S, 8] x, double[5, 1] c, double[5, 1] s, int64[B, S] p) => (double[B, S, 8] y) { y = RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 2>(x, c, s, p) }`,
			In:    pos, Dims: n},
		{Name: "rotary, positions of pairs", Opset: 23,
			Graph: `g (double[2, 2, 3, 4] x, double[K, 2] c, double[K, 2] s, int64[2, 3] p) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding<interleaved = 1>(x, c, s, p) }`,
			In:    pos, Dims: n},
		{Name: "running statistics",
			Graph: `g (double[2, 3, 4] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[2, 3, 4] y) { y = BatchNormalization(x, s, b, m, v) }`,
			In:    statistics},
		{Name: "running statistics of a batch", Wrt: []string{"m", "v"}, Opset: 15,
			Graph: `g (double[2, 3, 4] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[2, 3, 4] y) { y, n, o = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In:    statistics},
		{Name: "identity", Graph: `g (double[4] x) => (double[4] y) { y = Identity(x) }`},
		{Name: "memcpy", Graph: `g (double[4] x) => (double[4] y) { y = MemcpyToHost(x) }`},
		{Name: "training's sum",
			Graph: `g (double[2, 3] x) => (double[2, 1] y) <int64[1] a = {1}> { y = com.microsoft.ReduceSumTraining(x, a) }`},
		{Name: "skip, RMS", Graph: `g (double[2, 3, 4] x, double[2, 3, 4] s, double[4] u, double[4] b) => (double[2, 3, 4] y) { y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, u, b) }`},
	}
	for _, loss := range []string{"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"} {
		for _, reduction := range []string{"mean", "sum", "none"} {
			shape := map[bool]string{true: "[4]"}[reduction == "none"]
			call := loss + `<reduction = "` + reduction + `"`
			cases = append(cases,
				gradCase{Name: "weights " + call, In: labels, Range: [2]float64{0.5, 2},
					Graph: `g (double[4, 3] x, int64[4] l, double[3] w) => (double` + shape +
						` y) { y = ` + call + `>(x, l, w) }`},
				gradCase{Name: "weights ignored " + call, In: ignored, Range: [2]float64{0.5, 2}, Dims: n,
					Graph: `g (double[N, C] x, int64[N] l, double[C] w) => (double` + shape + ` y) { y = ` + call +
						`, ignore_index = -100>(x, l, w) }`})
		}
		cases = append(cases, gradCase{Name: "weights, spatial " + loss, In: spatial, Range: [2]float64{0.5, 2},
			Opset: 13,
			Graph: `g (double[2, 3, 2] x, int64[2, 2] l, double[3] w) => (double y) { y = ` + loss + `(x, l, w) }`})
	}
	checkGradients(t, cases)
}
