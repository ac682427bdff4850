package executor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// TestNoVersion: of a node whose operator the imported sets do not have, nothing is checked when a
// file is read strictly, so no kernel runs it.
func TestNoVersion(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y, z = Swish(x) }`,
		"g")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	_, err = executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{})
	var unsupported *executor.Unsupported
	require.ErrorAs(t, err, &unsupported)
	require.ErrorContains(t, err,
		`node "Swish#0" (Swish): the model imports no operator set that has it; it came with 24`)
}

// TestWindows: windows of keys, which operator set 25 brought, are refused, not left out.
func TestWindows(t *testing.T) {
	for _, attribute := range []string{"left_window_size = 1", "right_window_size = 0"} {
		m, err := graph.Parse(`<ir_version: 11, opset_import: ["" : 25]> g (float[1, 2, 4, 8] q) => (float[1, 2, 4, 8] y) {
			y = Attention<`+attribute+`>(q, q, q) }`, "g")
		require.NoError(t, err)
		types, err := op.Infer(m)
		require.NoError(t, err)
		_, err = executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{})
		require.ErrorContains(t, err, "attribute "+strings.Replace(attribute, " =", " is", 1)+
			": windows of keys have no kernel")
	}
}
