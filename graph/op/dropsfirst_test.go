package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// TestDropsFirst finds labels that a graph shifts itself, however the exporter wrote it.
func TestDropsFirst(t *testing.T) {
	for text, want := range map[string]bool{
		"r = Slice(y, one, end, axis)":                                        true,
		"r = Slice(y, zero, end, axis)":                                       false,
		"r = Slice(y, two, end, axis)":                                        false,
		"r = Slice(y, one, end, zero)":                                        false,
		"a = Slice(y, two, end, axis)  r = Slice(a, one, end, axis)":          false,
		"r = Identity(y)":                                                     false,
		"a = Identity(y)  r = Slice(a, one, end, axis)":                       true,
		"a = Slice(y, zero, end, zero)  r = Slice(a, one, end, axis)":         true,
		"s = Shape(y)  a = Cast<to = 6>(y)  r = Slice(a, one, end, axis)":     true,
		"r = Slice(y, one, end, axis)  q = Neg(y)":                            false,
		"r = Slice(y, one, end, axis)  q = Slice(y, one, end, axis)":          true,
		"s = Shape(y)  r = Slice(s, one, end, zero)":                          false,
		"a = Pad(y, pad)  r = Slice(a, one, end, axis)":                       true,
		"a = Pad(y, front)  r = Slice(a, one, end, axis)":                     false,
		"a = Pad(y, pad)  r = Slice(a, zero, end, axis)":                      false,
		"f = Flatten<axis = 0>(y)  r = Slice(f, one, end, axis)":              false,
		"b = Identity(y)  r = Slice(y, one, end, axis)":                       false,
		"r = Slice(y, one, end, axis)  q = Slice(x, y, y, axis)  p = Neg(q)":  false,
		"a = Slice(y, zero, end, axis, two)  r = Slice(a, one, end, axis)":    false,
		"a = Slice(y, minus, end, axis)  r = Slice(a, zero, end, axis)":       false,
		"a = Slice(y, zero, minus, axis)  r = Slice(a, one, end, axis)":       true,
		"a = Slice(y, one, end, axis)  b = Slice(a, one, end, axis) r=Neg(b)": true,
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (int64[batch, seq] y, int64[3, 4] x) => (r)
			<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1}, int64[1] end = {99999},
			int64[1] axis = {1}, int64[4] pad = {0, 0, 0, 1}, int64[4] front = {0, 1, 0, 0}> { `+text+` }`, "g")
		require.NoError(t, err, text)
		_, err = op.InferAsIs(m)
		require.NoError(t, err, text)
		y, ok := m.Graph.Lookup("y")
		require.True(t, ok)
		got := op.DropsFirst(m.Graph, y, func(v graph.ValueID) (dims []int64) {
			for _, d := range m.Graph.Values[v].Type.Shape.Dims {
				n, err := d.Eval(symbolic.Env{"batch": 2, "seq": 8})
				if err != nil {
					return nil
				}
				dims = append(dims, n)
			}
			return dims
		})
		require.Equal(t, want, got, text)
	}
}
