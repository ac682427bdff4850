package anchor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/graph/ortsim"
	"memopt/symbolic"
)

// TestFlattens checks before which products no anchor may stand alone: ONNX Runtime puts a Reshape
// there.
func TestFlattens(t *testing.T) {
	for _, c := range []struct {
		name, dims, behind string
		readers            int32
		want               bool
	}{
		{"rows of more dims, and a bias", "8, 128", "y = Add(m, bias)", 1, true},
		{"a matrix", "128", "y = Add(m, bias)", 1, false},
		{"a dim is open", "batch, 128", "y = Add(m, bias)", 1, false},
		{"no bias", "8, 128", "y = Tanh(m)", 1, false},
		{"others read the product, too", "8, 128", "a = Add(m, bias)  y = Mul(a, m)", 1, false},
		{"others read the anchor, too", "8, 128", "y = Add(m, bias)", 2, false},
	} {
		m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]>
g (float[%s, 64] x, float[64, 32] w, float[32] bias) => (float[%s, 32] y) { v = Exp(x)  m = MatMul(v, w)  %s }`,
			c.dims, c.dims, c.behind), "g")
		require.NoError(t, err)
		_, err = op.Infer(m)
		require.NoError(t, err)
		g, dims := m.Graph, symbolic.Env{"batch": 8}
		sizes, err := live.EvalSizes(g, dims)
		require.NoError(t, err)
		a := &search{g: g, facts: ortsim.NewFacts(m, dims), program: live.NewProgram(g, graph.FileOrder(g), sizes),
			def: make([]int32, len(g.Values)), step: make([]step, len(g.Nodes))}
		for v := range a.def {
			a.def[v] = int32(g.Values[v].Def)
		}
		v, made := g.Nodes[1].Input(0), g.Nodes[1].Output(0)
		a.step[1].firstRead, a.step[1].lastRead = 2, 2
		for i, n := range g.Nodes {
			if i > 2 && n.Input(1) == made {
				a.step[1].lastRead = int32(i)
			}
		}
		b := &builder{search: a, readers: make([]int32, len(g.Values))}
		b.readers[v] = c.readers
		require.Equal(t, c.want, b.flattens(1, v), c.name)
		require.False(t, b.flattens(1, g.Nodes[1].Input(1)), "%s: the other operand", c.name)
	}
}
