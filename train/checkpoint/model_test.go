package checkpoint_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/train/checkpoint"
)

const modelText = `<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y)
<float[2] w = {1, 2}, float[2] frozen = {3, 4}>
{
   z = Mul (x, w)
   y = Add (z, frozen)
}`

// TestModel: a model that has been trained, or moved, is the same; one whose frozen weights or nodes
// have changed is not.
func TestModel(t *testing.T) {
	describe := func(text, path string) checkpoint.Model {
		m, err := graph.Parse(text, path)
		require.NoError(t, err)
		d, err := checkpoint.DescribeModel(m, func(name string) bool { return name == "w" })
		require.NoError(t, err)
		return d
	}
	was := describe(modelText, "a.onnx")
	for _, c := range [][3]string{
		{"{1, 2}", "{7, 8}", ""},
		{"{3, 4}", "{3, 5}", "b.onnx has changed since the checkpoint was saved"},
		{"Mul", "Div", "b.onnx is not the model that the checkpoint is of"},
	} {
		now := describe(strings.Replace(modelText, c[0], c[1], 1), "b.onnx")
		if c[2] == "" {
			require.NoError(t, was.Check(now))
			continue
		}
		require.ErrorContains(t, was.Check(now), c[2])
		require.ErrorContains(t, was.Check(now), "that of a.onnx")
	}
}
