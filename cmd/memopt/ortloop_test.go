package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// TestLoopInORT: stock ONNX Runtime keeps what the iterations of a Loop stash, a buffer for each,
// until it joins them: what is predicted covers that, and little more.
func TestLoopInORT(t *testing.T) {
	needORT(t)
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
loop (float[1024] x) => (float loss) <int64 n = {8}, bool c = {1}>
{
	y = Loop<body = b (int64 i, bool m, float[1024] s) => (bool m2, float[1024] u) {
		m2 = Identity(m)
		a = Sin(s)
		u = Tanh(a)
	}>(n, c, x)
	loss = ReduceSum<keepdims = 0>(y)
}`, "loop")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "loop.onnx")
	require.NoError(t, onnx.WriteFile(path, m, onnx.Options{}))
	got := inProcess(t.Context(), nil, "verify "+path+" -e ort --level 1 --init random:1 -q -O json")
	require.Equal(t, 0, got.code, got.errors)
	var v struct {
		Planned struct {
			Peak struct {
				Predicted int64 `json:"predicted_live_bytes"`
				Measured  int64 `json:"measured_arena_bytes"`
			} `json:"peak"`
		} `json:"planned"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &v))
	p := v.Planned.Peak
	t.Logf("predicted %d bytes, measured %d", p.Predicted, p.Measured)
	require.GreaterOrEqual(t, p.Predicted, p.Measured)
	require.LessOrEqual(t, p.Predicted, p.Measured+p.Measured/10)
}
