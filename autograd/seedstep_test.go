package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/live"
)

// TestSeedIsGradient: where a gradient is the one that comes from outside, its copy is left out of the
// step, and the record of the halves names the node behind it.
func TestSeedIsGradient(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 10, opset_import: ["" : 20]>
		g (float[1, 3] x) => (float[1, 3] y) <float[1, 3] w = {1, 2, 3}> { y = Add(x, w) }`, "g")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "sgd", LR: 0.1}))
	b, err := live.FindBoundary(j.Model)
	require.NoError(t, err)
	require.Equal(t, j.Backward, b.Backward)
	require.Less(t, b.Node, b.Backward)
	require.Equal(t, "Add", j.Model.Graph.Nodes[b.Node].Op)
}
