package op_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestFoldConditions runs testdata/fold_if.txt: "fold" parses a graph, folds its conditions and
// prints it with the types that inference finds then.
func TestFoldConditions(t *testing.T) {
	datadriven.RunTest(t, "testdata/fold_if.txt", func(t *testing.T, d *datadriven.TestData) string {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["": 17]> `+d.Input, "test")
		require.NoError(t, err, d.Pos)
		require.NoError(t, graph.RunPasses(m, graph.Pass{Name: "fold", Run: op.FoldConditions}), d.Pos)
		again, err := op.FoldConditions(m)
		require.NoError(t, err)
		require.False(t, again, "everything is folded at once")
		for _, n := range m.Graph.Nodes {
			for _, v := range n.Captures() {
				require.NotEqual(t, "unread", m.Graph.ValueName(v), "the branch that read it is gone")
			}
		}
		_, err = op.Infer(m)
		require.NoError(t, err)
		return graph.Format(m, graph.FormatOptions{})
	})
}
