package chunk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/chunk"
)

// TestFloor: a node that falls into no parts needs all of its operands at once, one that does needs those
// of its smallest part, and the outputs of the graph are there together at the end.
func TestFloor(t *testing.T) {
	const kib = 1024
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"a determinant reads a whole matrix", `g (float[64, 64] x) => (float y) { a = Exp(x)  y = Det(a) }`, 16*kib + 4},
		{"of a stack it reads one matrix", `g (float[8, 64, 64] x) => (float[8] y) { a = Exp(x)  y = Det(a) }`, 16*kib + 4},
		{"of elements each may be alone", `g (float[64, 64] x) => (float[64, 64] y) { a = Exp(x)  y = Exp(a) }`, 16 * kib},
		{"two outputs", `g (float[64, 64] x) => (float[64, 64] y, float[64, 64] z) { y = Exp(x)  z = Sin(x) }`, 32 * kib},
		{"one output, and a view of it", `g (float[64, 64] x) => (float[64, 64] y, float[4096] z)
			< int64[1] all = {4096} > { y = Exp(x)  z = Reshape(y, all) }`, 16 * kib},
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+c.text, "test")
		require.NoError(t, err, c.name)
		_, err = op.Infer(m)
		require.NoError(t, err, c.name)
		floor, err := chunk.Floor(m, graph.FileOrder(m.Graph), nil, chunk.Fast)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, floor, c.name)
	}
}
