package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/symbolic"
)

// TestInputRanges asks for the ranges of a transformer's tokens, places and labels.
func TestInputRanges(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 1, Hidden: 8, Heads: 2, Vocab: 50,
		Positions: 20})
	require.NoError(t, err)
	r, err := op.Infer(m)
	require.NoError(t, err)
	order, err := graph.Topological(m.Graph)
	require.NoError(t, err)
	got := map[string]op.ElementRange{}
	for v, e := range op.InputRanges(m.Graph, r, order, symbolic.Env{"batch": 2, "seq": 8}) {
		got[m.Graph.ValueName(v)] = e
	}
	require.Equal(t, map[string]op.ElementRange{"input_ids": {Classes: 50}, "position_ids": {Classes: 20},
		"labels": {Classes: 50, Ignore: -100, HasIgnore: true}}, got)
}
