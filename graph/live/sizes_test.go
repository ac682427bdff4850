package live

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// TestUnboundSymbols: symbols without a binding are listed, those of no input with the first node
// that makes a value with them, in subgraphs, too. A run needs the inputs' symbols alone.
func TestUnboundSymbols(t *testing.T) {
	m, err := graph.Parse(
		`<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, bool c) => (int64[1, k] z) <int64[1, k] first> {
		first = NonZero(x)  y = Neg(first)  z = If(c) <
			then_branch = a () => (int64[1, k] p) <int64[1, inner] w> { w = NonZero(x)  u = Neg(w)  p = Neg(y) },
			else_branch = b () => (int64[1, k] q) { q = Abs(y) }> }`, "open")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	var missing *symbolic.UnboundError
	_, err = EvalSizes(m.Graph, symbolic.Env{})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"inner", "k", "n"}, missing.Symbols)
	require.Contains(t, missing.Origins["k"], `"first", which node "NonZero#0" (NonZero) makes`)
	require.Contains(t, missing.Origins["inner"], `"w", which node "NonZero#0" (NonZero) makes`)
	require.NotContains(t, missing.Origins, "n")
	require.Contains(t, err.Error(), `; "inner" is the file's name for a dim of "w"`)
	_, err = EvalSizes(m.Graph, symbolic.Env{"n": 4, "k": 3})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"inner"}, missing.Symbols)
	s, err := EvalSizes(m.Graph, symbolic.Env{"n": 4, "k": 3, "inner": 2})
	require.NoError(t, err)
	first, _ := m.Graph.Lookup("first")
	require.Equal(t, int64(24), s.Bytes[first])
	require.Equal(t, int64(24), slices.Max(s.Inner), "p, once u has died, which lies in w")

	_, err = EvalRunSizes(m.Graph, symbolic.Env{"k": 3})
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"n"}, missing.Symbols)
	s, err = EvalRunSizes(m.Graph, symbolic.Env{"n": 4})
	require.NoError(t, err)
	require.Equal(t, Unsized, s.Bytes[first])
}
