package autograd_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
)

// TestLayerFloatTypes: in the narrower types the rules of layers and products give what they give
// in float64, but for rounding.
func TestLayerFloatTypes(t *testing.T) {
	shapes := map[string][]int{"x": {2, 4, 5}, "w": {4, 2, 3}, "v": {4}, "m": {5, 3}, "k": {2, 4}, "u": {5}}
	calls := []string{
		"MatMul(x, m)", "Gemm<alpha=0.5>(k, c)", `Einsum<equation="bij,jk->bik">(x, m)`, "Softmax(x)",
		"LogSoftmax<axis=1>(x)",
		"LayerNormalization(x, u, u)", "LayerNormalization<axis=1>(x, u)", "BatchNormalization(x, v, v, mean, vari)",
		"GroupNormalization<num_groups=2>(x, two, two)", "InstanceNormalization(x, v, v)",
		"MeanVarianceNormalization<axes=[0, 2]>(x)",
		"LpNormalization(x)", "LRN<size=3>(x)", "Conv<group=2, strides=[2], pads=[1, 1]>(x, w, v)",
		"ConvTranspose<group=2, strides=[2]>(x, w)",
		"MaxPool<kernel_shape=[3]>(x)", "AveragePool<kernel_shape=[2], pads=[1, 0]>(x)", "LpPool<kernel_shape=[2]>(x)",
		"GlobalAveragePool(x)", "GlobalMaxPool(x)", "GlobalLpPool(x)", `Resize<mode="linear">(x, , scales)`,
		`Resize(x, , whole)`,
		"SoftmaxCrossEntropyLoss(k, l)", "NegativeLogLikelihoodLoss<ignore_index=1>(k, l)",
		"com.microsoft.SkipLayerNormalization(x, x, u)",
		"com.microsoft.SkipSimplifiedLayerNormalization(x, x, u)",
		"com.microsoft.MultiHeadAttention<num_heads=1>(x, x, x)",
	}
	for _, call := range calls {
		var exact [][]float64
		for _, d := range []graph.DType{graph.Float64, graph.Float32, graph.Float16, graph.BFloat16} {
			name := map[graph.DType]string{graph.Float32: "float", graph.Float16: "float16", graph.BFloat16: "bfloat16",
				graph.Float64: "double"}[d]
			rng := rand.New(rand.NewPCG(5, 6))
			in := map[string]*executor.Tensor{}
			for _, k := range []string{"x", "w", "v", "m", "k", "u"} {
				elems := make([]float64, product(shapes[k]))
				for i := range elems {
					elems[i] = float64(rng.IntN(32)-15) / 8
				}
				in[k] = floatTensor(d, shapes[k], elems...)
			}
			text := strings.NewReplacer("T[", name+"[", "CALL",
				call).Replace(`g (T[2, 4, 5] x, T[4, 2, 3] w, T[4] v, T[5, 3] m, T[2, 4] k, T[5] u) => (T[] y)
				<float[3] scales = {1, 1, 1.5}, float[3] whole = {1, 1, 2}, int64[2] l = {3, 1}, float[4] zero = {0, 0, 0, 0}, float[4] one = {1, 1, 1, 1}, int64[1] a = {0}, int64[1] b = {2}, int64[1] four = {4}> {
				mean = CastLike(zero, x)  vari = CastLike(one, x)  two = Slice(v, a, b)  c = Slice(m, a, four)
				y = CALL }`)
			text = strings.Replace(text, name+"[] y", name+yDims(call)+" y", 1)
			t.Run(call+" "+name, func(t *testing.T) {
				tol := map[graph.DType]float64{graph.Float64: 0, graph.Float32: 1e-4, graph.Float16: 2e-2,
					graph.BFloat16: 1.5e-1}[d]
				for i, g := range gradientsOf(t, text, d, in) {
					got := floatElems(g)
					if d == graph.Float64 {
						exact = append(exact, got)
					}
					for k, want := range exact[i] {
						if !(math.Abs(got[k]-want) <= tol*(1+math.Abs(want))) {
							t.Fatalf("the gradient of input %d is %v, in float64 %v", i, got, exact[i])
						}
					}
				}
			})
		}
	}
}

// TestManyHalfPlaces: float16 ends at 65504, and planes of more elements are averaged all the same.
func TestManyHalfPlaces(t *testing.T) {
	in := map[string]*executor.Tensor{"x": floatTensor(graph.Float16, []int{1, 1, manyHalves})}
	for _, dim := range []string{"70000", "Many"} {
		g := gradientsOf(t, `g (float16[1, 1, `+dim+`] x) => (float16[1, 1, 1] y) { y = GlobalAveragePool(x) }`,
			graph.Float16, in)
		require.InDelta(t, 1./manyHalves, floatElems(g[0])[manyHalves/2], 1e-7, dim)
	}
}

// yDims is the rank of what a call gives, in dims of any size.
func yDims(call string) string {
	switch {
	case strings.HasPrefix(call, "Gemm"):
		return "[R0, R1]"
	case strings.Contains(call, "Loss"):
		return "[]"
	}
	return "[R0, R1, R2]"
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
