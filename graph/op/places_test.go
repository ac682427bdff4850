package op

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/symbolic"
)

// TestPlaces: at bindings that give the answers that places depend on, they are those of the rules in
// numbers.
func TestPlaces(t *testing.T) {
	for _, node := range []string{
		"y = Concat<axis = 0>(x, z)", "y = Concat<axis = 1>(x, z)", "y, q = Split<axis = 0>(x)",
		"y, q = Split<axis = -1>(x)", "y = Slice(x, one, far, first)", "y = Slice(x, one, far, second)",
		"y = Slice(x, last, far, first)", "y = Slice(x, zero, last, second)",
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 13]> g (float[n, m] x, float[n, m] z) =>
			(float[] unused) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] far = {99}, int64[1] last = {-1},
			int64[1] first = {0}, int64[1] second = {1}> { `+node+` unused = Identity(x) }`, "places")
		require.NoError(t, err)
		_, err = Infer(m)
		require.NoError(t, err)
		n := m.Graph.Nodes[0]
		rule := Of(n.Kind).Cuts
		if Of(n.Kind).Joins != nil {
			rule = Of(n.Kind).Joins
		}
		for _, env := range []symbolic.Env{{"n": 1, "m": 4}, {"n": 2, "m": 4}, {"n": 6, "m": 2}, {"n": 4, "m": 6}} {
			places, known := PlacesOf(m.Graph, n, env)
			if !known {
				continue
			}
			numbers := rule(&Pieces{Graph: m.Graph, Node: n, Dims: func(v graph.ValueID) (dims []int64) {
				for _, d := range m.Graph.Values[v].Type.Shape.Dims {
					c, err := d.Eval(env)
					require.NoError(t, err)
					dims = append(dims, c)
				}
				return dims
			}})
			var at []int64
			for _, e := range places.At {
				c, err := e.Eval(env)
				require.NoError(t, err)
				at = append(at, c)
			}
			require.Equal(t, numbers, at, "%s at %v", node, env)
		}
	}
}
