package op_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestSplitSequences runs testdata/split_sequences.txt: "split VERSION" parses a graph of an operator set,
// splits its sequences and prints it with the types that inference finds then.
func TestSplitSequences(t *testing.T) {
	datadriven.RunTest(t, "testdata/split_sequences.txt", func(t *testing.T, d *datadriven.TestData) string {
		require.Len(t, d.CmdArgs, 1, d.Pos)
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["": `+d.CmdArgs[0].Key+`]> `+d.Input, "test")
		require.NoError(t, err, d.Pos)
		require.NoError(t, graph.RunPasses(m, graph.Pass{Name: "split", Run: op.SplitSequences}), d.Pos)
		again, err := op.SplitSequences(m)
		require.NoError(t, err)
		require.False(t, again, "everything is split at once")
		if _, err = op.Infer(m); err != nil {
			return err.Error()
		}
		return graph.Format(m, graph.FormatOptions{})
	})
}
