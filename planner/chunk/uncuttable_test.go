package chunk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestUncuttable: nodes that write into an input are computed whole, whichever way they say so.
func TestUncuttable(t *testing.T) {
	require.False(t, uncuttable(&graph.Node{Kind: op.Relu}))
	for _, kind := range []graph.Kind{op.BatchNormalization, op.BatchNormInternal} {
		require.NotEmpty(t, op.Of(kind).Updates)
		require.True(t, uncuttable(&graph.Node{Kind: kind}), op.Of(kind).Name)
	}
}
