package planner_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/symbolic"
)

// training returns the training graph of a member of a family.
func training(t testing.TB, f graphtest.Family, n int) (*graph.Model, *op.Result) {
	t.Helper()
	m := f.Make(n)
	op.Bind(m)
	types, err := op.InferAsIs(m)
	require.NoError(t, err)
	joint, err := autograd.Differentiate(m, autograd.Options{})
	if err == nil {
		return joint.Model, joint.Types
	}
	require.ErrorIs(t, err, autograd.ErrBackward)
	return m, types
}

// linearPlans are families in which every size is a number.
var linearPlans = []string{"chain", "training", "yield", "inputs-of-node", "readers", "graph-outputs",
	"branches", "views"}

// TestAnchorWorkIsLinear: however anchors are placed, every step is looked at a few times for each
// set of places.
func TestAnchorWorkIsLinear(t *testing.T) {
	const sets, looks = 8, 3
	for _, f := range graphtest.Select(t, linearPlans...) {
		m, types := training(t, f, 1600)
		p, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise, SkipLayout: true})
		require.NoError(t, err)
		a, err := p.Anchor(t.Context())
		require.NoError(t, err)
		require.Positive(t, a.Work, f.Name)
		steps := len(m.Graph.Nodes) + p.Recompute.Nodes
		require.LessOrEqual(t, a.Work, sets*looks*steps, "%s: %d steps", f.Name, steps)
	}
}

// TestPlacingIsLinear: a level simulates as many steps as a multiple of the graph's, which does not
// grow with the graph. Where copies are split at every step, a chain in which everything runs again
// would come to quadratically many.
func TestPlacingIsLinear(t *testing.T) {
	const most = 120 // steps simulated for one of the graph: selections tried times rounds of splits times clones
	for _, f := range graphtest.Select(t, linearPlans...) {
		for _, n := range []int{100, 800} {
			m, types := training(t, f, n)
			steps, err := planner.Simulated(m, types,
				planner.Options{Strategy: planner.LayerwiseCompromise, SkipLayout: true})
			require.NoError(t, err)
			require.LessOrEqual(t, steps, most*len(m.Graph.Nodes), "%s of %d", f.Name, n)
		}
	}
}

// BenchmarkChainMillion plans level 1 for the training graph of a forward chain of a million nodes,
// and reports the bytes that were allocated for each node of the training graph. It needs about 4
// GB; -short takes a hundredth of it.
func BenchmarkChainMillion(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n /= 100
	}
	chain := graphtest.Select(b, "chain")[0]
	b.ReportAllocs()
	for b.Loop() {
		m, types := training(b, chain, n)
		p, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise})
		require.NoError(b, err)
		b.ReportMetric(float64(len(p.Analysis.Order)), "nodes")
	}
}

// BenchmarkLevels plans level 1 for graphs of growing size.
func BenchmarkLevels(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		m := graphtest.Training(rand.New(rand.NewPCG(1, 2)), graphtest.Options{Nodes: n, Layers: true})
		types, err := op.Infer(m)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise})
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkFormulas plans level 1 without sizes: formulas over the assumed ranges.
func BenchmarkFormulas(b *testing.B) {
	for _, n := range []int{500, 5000} {
		m := graphtest.Training(rand.New(rand.NewPCG(1, 2)), graphtest.Options{Nodes: n, Layers: true, Symbolic: true,
			Parts: true})
		types, err := op.Infer(m)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise,
					Ranges: map[string]symbolic.Range{}})
				require.NoError(b, err)
			}
		})
	}
}
