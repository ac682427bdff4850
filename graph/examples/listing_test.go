package examples_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
)

// TestListing compares whole small graphs with testdata. The gradients of the graphs listed there
// were checked against finite differences and against ONNX Runtime's own gradient kernels, so a
// change here needs a new check, not only -rewrite.
func TestListing(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			m, err := buildListed(t, d)
			require.NoError(t, err)
			return listing(m)
		})
	})
}

func buildListed(t *testing.T, d *datadriven.TestData) (*graph.Model, error) {
	number := func(key string) (n int) {
		d.MaybeScanArgs(t, key, &n)
		return n
	}
	switch d.Cmd {
	case "transformer":
		return examples.Transformer(examples.TransformerOptions{
			Layers: number("layers"), Hidden: number("hidden"), Heads: number("heads"), FFN: number("ffn"),
			Vocab: number("vocab"), Positions: number("positions"), Half: d.HasArg("half"),
			FastGelu: d.HasArg("fastgelu"),
		})
	case "mlp":
		return examples.MLP(examples.MLPOptions{
			Layers: number("layers"), Inputs: number("inputs"), Hidden: number("hidden"), Classes: number("classes"),
		})
	case "cnn":
		return examples.CNN(examples.CNNOptions{
			Stages: number("stages"), Blocks: number("blocks"), Channels: number("channels"), Side: number("side"),
			Classes: number("classes"),
		})
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return nil, nil
}
