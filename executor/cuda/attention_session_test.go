package cuda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/internal/test/double"
)

// layerModel is a layer of a transformer with ONNX Runtime's operators, and some that stand around
// them.
const layerModel = `<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]>
layer (float[2, 5, 12] x, float[2, 5, 12] skip, float[12] gamma, float[12] bias, float[12, 36] w, float[36] b, float[1, 2, 5, 5] scores, float[4, 4] tail)
=> (float[2, 5, 12] y, float[5, 5] e, float[2, 5, 3] best, int64[2, 5, 3] at, float det)
<int64[1] three = {3}> {
	n = com.microsoft.SkipLayerNormalization(x, skip, gamma, , bias)
	a = com.microsoft.Attention<num_heads = 2>(n, w, b, , , scores)
	m = com.microsoft.MultiHeadAttention<num_heads = 3>(a, n, x)
	q = com.microsoft.BiasAdd(m, bias, n)
	v = com.microsoft.BiasSoftmax<axis = 2, is_inner_broadcast = 0>(q, skip)
	y = Attention<q_num_heads = 4, kv_num_heads = 4, is_causal = 1>(q, n, v)
	e = Einsum<equation = "bik,bjk->ij">(y, n)
	best, at = TopK(y, three)
	h = Hardmax(tail)
	t = Einsum<equation = "ij,kj->ik">(tail, h)
	det = Det(t)
}`

// TestLayer: attention and its neighbours in a session: nothing runs on the host, and memory is as
// predicted.
func TestLayer(t *testing.T) {
	m, types := parsed(t, layerModel)
	sameAsCPU(t, m, types, nil)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: true})
	require.NoError(t, err)
	defer s.Close()
	require.Empty(t, s.HostNodes())
	require.Empty(t, s.WhyNoCapture())
	for name, x := range made(t, m, nil) {
		require.NoError(t, s.SetInput(name, x))
	}
	for range 3 {
		require.NoError(t, s.Run(context.Background()))
	}
}
