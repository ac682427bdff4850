package executor_test

import (
	"context"
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
