package planner_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
	"memopt/planner"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// withoutAnchors makes every reader of a view that an anchor made read what the view shows, and
// returns the value numbers of the outputs.
func withoutAnchors(g *graph.Graph, r *recompute.Rewritten) map[string][32]byte {
	for i, n := range g.Nodes {
		if r.Origin[i] == graph.NoNode {
			continue
		}
		for slot, v := range n.Inputs {
			for v != graph.NoValue && g.Values[v].Def != graph.NoNode && r.Origin[g.Values[v].Def] == graph.NoNode {
				v = g.Nodes[g.Values[v].Def].Inputs[0]
			}
			n.Inputs[slot] = v
		}
	}
	return valueNumbers(g, graph.FileOrder(g))
}

// TestAnchors holds anchors to their promises on random training graphs: the graph that is written
// verifies, its nodes stand in order, it computes the same, and its simulated peak in the default
// order is not above that of the graph as it is.
func TestAnchors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 3))
		m := graphtest.Training(rng,
			graphtest.Options{Nodes: rapid.IntRange(20, 150).Draw(t, "nodes"), Layers: rapid.Bool().Draw(t, "layers"),
				Yield: rapid.Bool().Draw(t, "yield")})
		// Before 10 the masks of Dropout are floats, which DropoutGrad does not take.
		m.Opsets[0].Version = rapid.Int64Range(10, 21).Draw(t, "opset")
		op.Bind(m)
		types, err := op.Infer(m)
		require.NoError(t, err)
		level := rapid.SampledFrom([]planner.Level{planner.Layerwise, planner.LayerwiseCompromise}).Draw(t, "level")
		p, err := planner.Make(m, types, planner.Options{Strategy: level, Probe: &recompute.Probe{Level: 1}})
		require.NoError(t, err)
		a, err := p.Anchor(t.Context())
		require.NoError(t, err)
		r, err := recompute.Apply(m, p.Analysis.Boundary, p.Analysis.Order, p.Placements,
			recompute.Options{Anchors: a.Anchors})
		require.NoError(t, err)
		require.NoError(t, graph.FileOrder(r.Model.Graph).Check(r.Model.Graph))
		require.Equal(t, a.Nodes, r.AnchorNodes)
		if len(a.Anchors) > 0 {
			require.LessOrEqual(t, a.Anchored, a.Base)
		}
		require.NoError(t, ortsim.DefaultOrder(r.Model.Graph).Check(r.Model.Graph))
		checkInferred(t, r)
		require.Equal(t, valueNumbers(m.Graph, p.Analysis.Order), withoutAnchors(r.Model.Graph, r))
	})
}

// TestAnchoredClonesDiffer checks that common-subexpression elimination finds nothing: no clone
// reads what its original reads, but for views, which cost nothing.
func TestAnchoredClonesDiffer(t *testing.T) {
	for seed := range uint64(20) {
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 5)), graphtest.Options{Nodes: 150, Layers: true})
		types, err := op.Infer(m)
		require.NoError(t, err)
		p, err := planner.Make(m, types,
			planner.Options{Strategy: planner.Layerwise, Probe: &recompute.Probe{Level: 1}})
		require.NoError(t, err)
		a, err := p.Anchor(t.Context())
		require.NoError(t, err)
		if len(a.Anchors) == 0 {
			continue
		}
		r, err := recompute.Apply(m, p.Analysis.Boundary, p.Analysis.Order, p.Placements,
			recompute.Options{Anchors: a.Anchors})
		require.NoError(t, err)
		first := map[graph.NodeID]*graph.Node{}
		for i, n := range r.Model.Graph.Nodes {
			origin := r.Origin[i]
			if origin == graph.NoNode || op.Of(n.Kind).View {
				continue
			}
			if original := first[origin]; original != nil {
				require.False(t, slices.Equal(original.Inputs, n.Inputs),
					"seed %d: node %q reads what its original reads", seed, n.Name)
			} else {
				first[origin] = n
			}
		}
	}
}

// checkInferred sends a rewritten graph through the file format and infers it anew: the sizes that
// the file leaves open come back.
func checkInferred(t require.TestingT, r *recompute.Rewritten) {
	var file bytes.Buffer
	require.NoError(t, onnx.Write(&file, r.Model))
	m, err := onnx.Decode(file.Bytes(), "anchored.onnx")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	want, err := live.EvalSizes(r.Model.Graph, nil)
	require.NoError(t, err)
	got, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	for i := range r.Model.Graph.Values {
		v, ok := m.Graph.Lookup(r.Model.Graph.Values[i].Name)
		if ok && m.Graph.Values[v].Def != graph.NoNode {
			require.Equal(t, want.Bytes[i], got.Bytes[v], "value %q", m.Graph.Values[v].Name)
		}
	}
}
