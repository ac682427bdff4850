package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/symbolic"
)

// TestSinkSlices: products compute what a Slice takes of them where nobody else reads the rest and no
// output is it, with the numbers of the plain graph and one copy of the scores less.
func TestSinkSlices(t *testing.T) {
	const bounds = `int64[1] o = {0}, int64[1] a = {1}, int64[1] k = {2}, int64[1] z = {-1}, int64[1] e = {9223372036854775807}`
	env := symbolic.Env{"N": 4, "S": 50}
	for _, c := range []struct {
		name, body string
		sinks      bool
	}{
		{"shifted by one", "t = MatMul(x, w)  s = Slice(t, o, z, a)", true},
		{"with a bias and an Identity",
			"t = MatMul(x, w)  u = Add(t, b)  v = Identity(u)  s = Slice(v, a, e, a)", true},
		{"of the batch", "t = MatMul(x, w)  s = Slice(t, a, e, o)", true},
		{"columns", "t = MatMul(x, w)  s = Slice(t, a, e, k)", false},
		{"two axes", "t = MatMul(x, w)  s = Slice(t, two, ends)", false},
		{"every other place", "t = MatMul(x, w)  s = Slice(t, a, e, a, k)", false},
		{"another reader", "t = MatMul(x, w)  q = Slice(t, o, z, a)  f = ReduceMax<keepdims = 0>(t)  s = Add(q, f)",
			false},
		{"two terms of the same size", "t = MatMul(x, w)  u = Add(t, t)  s = Slice(u, o, z, a)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
				g (float[N, S, 8] h, float[8, 1000] w, float[1000] b) => (float loss, float[?, ?, ?] s) <
					int64[2] two = {1, 1}, int64[2] ends = {3, 3}, `+bounds+`> {
				x = Tanh(h)  `+c.body+`  loss = ReduceSumSquare<keepdims = 0>(s) }`, c.name)
			require.NoError(t, err)
			inferred(t, m)
			filler, in := dataset.NewFiller(m.Graph, env, 1), tensors{}
			for _, d := range m.Graph.Inputs {
				in[m.Graph.ValueName(d.Value)], err = filler.Fill(d.Value)
				require.NoError(t, err)
			}
			opts := autograd.Options{Wrt: []string{"h", "w"}, Losses: []autograd.Loss{{Name: "loss"}}}
			plain, err := autograd.Differentiate(m, opts)
			require.NoError(t, err)
			require.Empty(t, plain.Changes)
			opts.Outputs = []string{"loss"}
			lean, err := autograd.Differentiate(m, opts)
			require.NoError(t, err)
			require.Equal(t, c.sinks, len(lean.Changes) > 0, "%v", lean.Changes)
			if c.sinks {
				const scores = 4 * 4 * 50 * 1000
				timeline := simulated(t, lean.Model, env)
				require.Less(t, timeline.Peak.Bytes, int64(scores*3/2), "at node %q",
					lean.Model.Graph.NodeLabel(timeline.Peak.Node))
			}
			want, got := newRunner(t, plain.Model, env)(in), newRunner(t, lean.Model, env)(in)
			for i, x := range append([]*executor.Tensor{want[0]}, want[2:]...) {
				require.Equal(t, x.Shape, got[i].Shape)
				for k, v := range executor.Of[float32](x) {
					require.InDelta(t, v, executor.Of[float32](got[i])[k], 1e-5*max(1, math.Abs(float64(v))))
				}
			}
		})
	}
}
