package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
)

// TestUnknownOperator: an unknown operator in front of a parameter is named, and not the node that reads
// a value of it; where no gradient flows through it, it stays.
func TestUnknownOperator(t *testing.T) {
	const fails = `node "f" (Fancy): no gradient rule; the gradient of "w" is wanted: ` +
		`memopt knows no operator "Fancy" of domain "my.ops"`
	for _, c := range []struct{ name, graph, fails string }{
		{"of no known type", `fw = my.ops.Fancy(w)  y = MatMul(x, fw)`, fails},
		{"behind another node", `h = Relu(w)  fw = my.ops.Fancy(h)  y = MatMul(x, fw)`,
			`the gradient of "h" is wanted: memopt knows no operator "Fancy" of domain "my.ops"`},
		{"beside data", `fw = my.ops.Fancy(x, w)  y = MatMul(fw, w)`, fails},
		{"of data alone", `fx = my.ops.Fancy(x)  h = MatMul(x, w)  c = Cast<to = 1>(fx)  d = ReduceSum<keepdims = 0>(c)  ` +
			`y = Add(h, d)`, ""},
		{"behind a jump", `h = MatMul(x, w)  a = ArgMax(h)  fa = my.ops.Fancy(a)  d = Cast<to = 1>(fa)  ` +
			`e = ReduceSum<keepdims = 0>(d)  y = Add(h, e)`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "my.ops" : 1]>
g (float[2, 4] x, float[4, 4] w) => (float loss) { `+c.graph+`  loss = ReduceSum<keepdims = 0>(y) }`, "unknown")
			require.NoError(t, err)
			for _, n := range m.Graph.Nodes {
				if n.Op == "Fancy" {
					n.Name = "f"
				}
			}
			_, err = op.Infer(m)
			require.NoError(t, err)
			_, err = autograd.Differentiate(m, autograd.Options{Wrt: []string{"w"},
				Losses: []autograd.Loss{{Name: "loss"}}})
			if c.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.fails)
		})
	}
}
