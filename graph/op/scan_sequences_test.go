package op_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestScanSequences runs the pass over graphs and prints the results.
func TestScanSequences(t *testing.T) {
	datadriven.RunTest(t, "testdata/scan_sequences.txt", func(t *testing.T, d *datadriven.TestData) string {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["": 18]> `+d.Input, "test")
		require.NoError(t, err, d.Pos)
		require.NoError(t, graph.RunPasses(m, graph.Pass{Name: "scan", Run: op.ScanSequences}), d.Pos)
		again, err := op.ScanSequences(m)
		require.NoError(t, err)
		require.False(t, again, "everything is rewritten at once")
		if _, err = op.Infer(m); err != nil {
			return err.Error()
		}
		return graph.Format(m, graph.FormatOptions{})
	})
}
