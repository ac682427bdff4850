package cuda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/internal/test/double"
)

// layerModel is a layer of a transformer, with attention of both kinds of layouts and its neighbours.
const layerModel = `<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]>
layer (float[2, 5, 12] x, float[2, 5, 12] skip, float[12] gamma, float[12] bias, float[12, 36] w, float[36] b, float[1, 2, 5, 5] scores)
=> (float[2, 5, 12] y, float[5, 5] e, float[2, 5, 3] best, int64[2, 5, 3] at)
<int64[1] three = {3}, int64[4] heads = {0, 0, 2, 6}, int64[3] shape = {0, 0, 12}> {
	s = Add(x, skip)
	n = LayerNormalization(s, gamma, bias)
	p = MatMul(n, w)
	pb = Add(p, b)
	q, k, v = Split<axis = 2, num_outputs = 3>(pb)
	qr = Reshape(q, heads)
	kr = Reshape(k, heads)
	vr = Reshape(v, heads)
	qh = Transpose<perm = [0, 2, 1, 3]>(qr)
	kh = Transpose<perm = [0, 2, 1, 3]>(kr)
	vh = Transpose<perm = [0, 2, 1, 3]>(vr)
	ah = Attention(qh, kh, vh, scores)
	ar = Transpose<perm = [0, 2, 1, 3]>(ah)
	a = Reshape(ar, shape)
	m = com.microsoft.BiasAdd(a, bias, n)
	r = com.microsoft.BiasSoftmax<axis = 2, is_inner_broadcast = 0>(m, skip)
	y = Attention<q_num_heads = 4, kv_num_heads = 4, is_causal = 1>(m, n, r)
	e = Einsum<equation = "bik,bjk->ij">(y, n)
	best, at = TopK(y, three)
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
