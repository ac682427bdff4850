package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

const watchText = `<ir_version: 8, opset_import: ["" : 17]>
step (float[4] x, int64[2] at) => (float loss, float[2] y)
{ s = Mul(x, x)  loss = ReduceMean<keepdims = 0>(s)  y = Gather(x, at)  n = Shape(x) }`

// TestWatched: what is recorded is read, and nodes that make such values may fail, beside those that
// may anyway.
func TestWatched(t *testing.T) {
	m, err := graph.Parse(watchText, "watch")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	order := graph.FileOrder(m.Graph)
	failures := func() []op.Failure {
		f, err := op.FailuresOf(m, types, order, nil)
		require.NoError(t, err)
		return f
	}
	list, err := op.Watched(m)
	require.NoError(t, err)
	require.Empty(t, list)
	names, err := op.RecordedWatched(m)
	require.NoError(t, err)
	require.Nil(t, names)
	none, once := op.NeverFails, op.FailsOnce
	require.Equal(t, []op.Failure{none, none, once, none}, failures())
	op.RecordWatch(m, []string{"loss", "y", "a name \xff that JSON cannot hold"})
	require.Equal(t, []op.Failure{none, once, once, none}, failures())
	names, err = op.RecordedWatched(m)
	require.NoError(t, err)
	require.Equal(t, []string{"loss", "y"}, names)
	op.RecordWatch(m, nil)
	require.Equal(t, []op.Failure{none, none, once, none}, failures())
	for record, why := range map[string]string{
		`{"schema":"memopt.watch/v1","values":["no"]}`: `the graph has no value "no"`,
		`{"schema":"memopt.watch/v1","values":["x"]}`:  `no node of the graph makes "x"`,
		`{"schema":"memopt.watch/v1","values":["n"]}`:  `"n" is int64[1]; only floats can be not finite`,
		`{"schema":"memopt.watch/v9","values":["y"]}`:  `wanted JSON of schema "memopt.watch/v1", got`,
		`[`: "remove the entry if no value has to be finite",
	} {
		m.SetMeta(op.WatchKey, record)
		_, err := op.FailuresOf(m, types, order, nil)
		require.ErrorContains(t, err, "metadata memopt.watch: ")
		require.ErrorContains(t, err, why)
	}
}
