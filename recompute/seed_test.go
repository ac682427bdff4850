package recompute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// dropoutParts is a step with a dropout y, k in two parts. c reads elements from 32 on.
const dropoutParts = `<ir_version: 10, opset_import: ["" : 17]>
step (float[4, 8] x, float[4, 8] w) => (float loss, float[4, 8] gx)
<float ratio = {0.5}, bool yes = {1}>
{
  [first] a, ka = Dropout (x, ratio, yes)
  [second] c, kc = Dropout (w, ratio, yes)
  [sum] b = Mul (a, c)
  [loss] loss = ReduceMean <keepdims = 0> (b)
  [da] da = Where (ka, a, w)
  [dc] dc = Where (kc, c, x)
  [gx] gx = Add (da, dc)
}`

func partsStep(t *testing.T) *graph.Model {
	m, err := graph.Parse(dropoutParts, "step")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	require.NoError(t, op.SetDrawFrom(m.Graph.Nodes[0], "y", 0))
	require.NoError(t, op.SetDrawFrom(m.Graph.Nodes[1], "y", 32))
	return m
}

// TestPartsAreSeededTogether: where one part runs again, all parts get the seed that the whole
// would get, and the clone draws what its original draws.
func TestPartsAreSeededTogether(t *testing.T) {
	m := partsStep(t)
	r, err := recompute.Apply(m, live.Boundary{Kind: live.RecordedBoundary, Node: 3, Backward: 4},
		graph.FileOrder(m.Graph), []recompute.Placement{
			{Value: m.Graph.Nodes[0].Outputs[0], Nodes: []graph.NodeID{0}, Before: 4, Copy: 1}},
		recompute.Options{Seed: 3})
	require.NoError(t, err)
	require.Equal(t, []graph.NodeID{0, 1}, r.Seeded)
	require.Nil(t, m.Graph.Nodes[0].Attr("seed"), "the model is not changed")
	whole := int64('y') + 3
	nodes := map[string]*graph.Node{}
	for _, n := range r.Model.Graph.Nodes {
		nodes[n.Name] = n
	}
	for name, first := range map[string]int64{"first": 0, "first_recompute": 0, "second": 32} {
		d, ok, err := op.DrawsOf(nodes[name])
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, op.Draws{Schema: op.DrawsSchema, First: first, Seed: &whole}, d, name)
		baseline := &graph.Node{Kind: op.Dropout}
		op.SeedAlike(baseline, nodes[name])
		require.Equal(t, whole, baseline.Int("seed", 0))
	}
	require.Equal(t, nodes["first"].Attrs, nodes["first_recompute"].Attrs)
	require.NotEqual(t, nodes["first"].Attrs, nodes["second"].Attrs)
	seeded := recompute.Seed(m, 3)
	for i, name := range []string{"first", "second"} {
		require.Equal(t, nodes[name].Attrs, seeded.Graph.Nodes[i].Attrs)
		require.Equal(t, nodes[name].Rare().Metadata, seeded.Graph.Nodes[i].Rare().Metadata)
	}
}

// TestPartsKeepTheirSeed: a part of a whole with a seed is given no other.
func TestPartsKeepTheirSeed(t *testing.T) {
	m := partsStep(t)
	for _, n := range m.Graph.Nodes[:2] {
		op.SetSeed(n, 11)
	}
	r, err := recompute.Apply(m, live.Boundary{Kind: live.RecordedBoundary, Node: 3, Backward: 4},
		graph.FileOrder(m.Graph), nil, recompute.Options{Seed: 3})
	require.NoError(t, err)
	require.Empty(t, r.Seeded)
	for i := range 2 {
		require.Equal(t, m.Graph.Nodes[i].Attrs, r.Model.Graph.Nodes[i].Attrs)
	}
}

// TestPartsRefused: an entry that nobody can obey ends a rewrite.
func TestPartsRefused(t *testing.T) {
	m := partsStep(t)
	m.Graph.Nodes[1].EditRare(func(r *graph.Rare) {
		r.Metadata = []graph.Property{{Key: op.DrawsKey, Value: "half"}}
	})
	_, err := recompute.Apply(m, live.Boundary{Kind: live.RecordedBoundary, Node: 3, Backward: 4},
		graph.FileOrder(m.Graph), nil, recompute.Options{})
	require.ErrorContains(t, err, `node "second" (Dropout): metadata memopt.draws: wanted JSON`)
}
