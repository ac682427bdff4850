package checkpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/train/checkpoint"
)

// TestExport: parameters and statistics of a checkpoint become the contents of a forward model,
// whether they were inputs or initializers; moments are left out; a weight without a place in the
// model, or with another shape, is named and the model stays as it was.
func TestExport(t *testing.T) {
	j, err := checkpoint.OpenJob(t.TempDir() + "/job")
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	c, err := checkpoint.Load(save(t, j, 3))
	require.NoError(t, err)
	defer c.Close()
	parse := func(text string) *graph.Model {
		m, err := graph.Parse(text, "model")
		require.NoError(t, err)
		_, err = op.Infer(m)
		require.NoError(t, err)
		return m
	}

	m := parse(`<ir_version: 8, opset_import: ["" : 17]>
g (float[5] w, float[n] x) => (float[n] y) <float[5] b = {1, 2, 3, 4, 5}, float other = {7}>
{ sum = Add (x, w)  more = Add (sum, b)  y = Mul (more, other) }`)
	out, err := c.Export(m)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"w", "b"}, out.Weights)
	require.Equal(t, []string{"w"}, out.Added)
	require.Equal(t, 1, out.Kept)
	require.EqualValues(t, 2*5*4, out.Bytes)
	require.Zero(t, out.External)
	for _, name := range out.Weights {
		v, ok := m.Graph.Lookup(name)
		require.True(t, ok)
		require.False(t, m.Graph.Values[v].Input, name)
		want := make([]byte, 20)
		require.NoError(t, filled(3)(name, want))
		require.Equal(t, want, []byte(m.Graph.Values[v].Data.Source.(graph.Raw)), name)
	}

	for text, fault := range map[string]string{
		`<ir_version: 8, opset_import: ["" : 17]>
g (float[n] x) => (float[n] y) <float[5] b = {1, 2, 3, 4, 5}> { y = Add (x, b) }`: "no input or initializer for 1 of " +
			"the checkpoint's 2 weights: w;",
		`<ir_version: 8, opset_import: ["" : 17]>
g (float[5] b, float[n] x) => (float[n] y) { w = Add (x, b)  y = Exp (w) }`: "for 1 of the checkpoint's 2 weights: w;",
		`<ir_version: 8, opset_import: ["" : 17]>
g (float[5] w, float[4] b, float[n] x) => (float[n] y) { y = Add (x, w)  z = Exp (b) }`: `"b" has type`,
		`<ir_version: 8, opset_import: ["" : 17]>
g (float[5] w, float16[5] b, float[n] x) => (float[n] y) { y = Add (x, w)  z = Exp (b) }`: `"b" has type`,
		`<ir_version: 8, opset_import: ["" : 17]>
g (float[5] w, float[1, 5] b, float[n] x) => (float[n] y) { y = Add (x, w)  z = Exp (b) }`: `"b" has type`,
	} {
		m := parse(text)
		before := len(m.Graph.Inputs)
		_, err := c.Export(m)
		require.ErrorContains(t, err, fault)
		require.Len(t, m.Graph.Inputs, before)
	}
}
