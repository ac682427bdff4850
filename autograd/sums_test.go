package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/graphtest"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

// simulated executes a training graph in the order of its file under the memory model.
func simulated(t *testing.T, m *graph.Model, env symbolic.Env) *live.Timeline {
	t.Helper()
	sizes, err := live.EvalSizes(m.Graph, env)
	require.NoError(t, err)
	timeline, err := live.Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
	require.NoError(t, err)
	return timeline
}

// TestSumsInPlace: the memory model writes every sum of gradients in the sample models over one of
// its terms.
func TestSumsInPlace(t *testing.T) {
	env := symbolic.Env{"batch": 4, "seq": 12}
	sums := 0
	for _, s := range graphtest.Tiny.Files(t) {
		m, file, err := onnx.Open(s.File)
		require.NoError(t, err)
		defer file.Close()
		inferred(t, m)
		loss := autograd.Loss{Name: "loss"}
		if _, ok := m.Graph.Lookup("loss"); !ok {
			loss = autograd.Loss{Name: "logits", Seed: true}
		}
		j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{loss}})
		require.NoError(t, err, s.Name)
		timeline := simulated(t, j.Model, env)
		g := j.Model.Graph
		for _, n := range g.Nodes[j.Backward:] {
			if n.Op != "Add" || !g.Values[n.Outputs[0]].Type.DType.IsFloat() {
				continue
			}
			sums++
			require.NotEqual(t, n.Outputs[0], timeline.Root[n.Outputs[0]], "%s: node %q", s.Name, n.Name)
		}
	}
	require.Greater(t, sums, 50)
}
