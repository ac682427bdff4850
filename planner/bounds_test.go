package planner_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/rapidflags"
	"memopt/planner"
	"memopt/planner/arena"
	"memopt/recompute"
)

// smallTraining draws a training graph with subgraphs, views and in-place operators whose values
// are from a few bytes, less than the alignment, to a few kilobytes.
func smallTraining(rng *rand.Rand, seed uint64) *graph.Model {
	o := graphtest.Options{Nodes: 10 + rng.IntN(50), Yield: seed%3 == 0, Layers: seed%4 == 0, Control: seed%5 != 0,
		Parts: seed%7 < 3, Rows: int64(1 + rng.IntN(12)), Width: int64(1 + rng.IntN(70))}
	return graphtest.Training(rng, o)
}

// unfit plans to a budget that nothing fits.
func infeasible(t *testing.T, m *graph.Model, types *op.Result, opts planner.Options,
	b planner.Budget) *planner.InfeasibleError {
	t.Helper()
	b.Arena = 1
	opts.Strategy = &b
	_, err := planner.Make(m, types, opts)
	var no *planner.InfeasibleError
	require.ErrorAs(t, err, &no)
	if no.LowestArena > 0 {
		return no
	}
	// The lower bound has ruled a byte out before any search. Larger budgets are asked for until one is
	// searched, and smaller ones than those that fit.
	var lowest *planner.Plan
	for {
		if lowest == nil {
			require.Greater(t, no.LowerBound, b.Arena)
			b.Arena = no.LowerBound
		}
		p, err := planner.Make(m, types, opts)
		if err == nil {
			lowest, b.Arena = p, p.Arena.Bytes-1
			continue
		}
		require.ErrorAs(t, err, &no)
		switch {
		case no.LowestArena > 0:
			return no
		case lowest != nil: // it is as low as the bound
			no.LowestArena, no.LowestLive = lowest.Arena.Bytes, lowest.Planned.Peak.Bytes
			return no
		}
	}
}

// randomPlacements draws placements that recompute.Arrange accepts, of nodes that may run twice:
// whatever a plan file may say.
func randomPlacements(rng *rand.Rand, p *planner.Plan) []recompute.Placement {
	a := p.Analysis
	replays := recompute.NewReplays(p.Model)
	var again, backward []graph.NodeID
	earlier := map[graph.NodeID]int{} // by backward node: how many of those that may run twice come before it
	for _, id := range a.Order {
		if a.Backward[id] {
			backward = append(backward, id)
			earlier[id] = len(again)
		}
		if replays.WhyNot(id) == "" && a.Graph.Nodes[id].Output(0) != graph.NoValue {
			again = append(again, id)
		}
	}
	var out []recompute.Placement
	copies := map[graph.NodeID]int{}
	for _, before := range backward {
		for range rng.IntN(3) {
			if earlier[before] == 0 {
				break
			}
			from := rng.IntN(earlier[before])
			nodes := again[from:min(earlier[before], from+1+rng.IntN(4))]
			last := nodes[len(nodes)-1]
			copies[last]++
			out = append(out,
				recompute.Placement{Value: a.Graph.Nodes[last].Output(0), Nodes: nodes, Before: before,
					Copy: copies[last]})
		}
	}
	return out
}

// TestBoundsAreBelow: no plan of any kind has a smaller arena than the bound of an infeasible
// budget says, nor a lower peak than the bound for all orders; none that fits a budget costs less
// than the bound of the cheapest.
func TestBoundsAreBelow(t *testing.T) {
	below := 0
	for seed := range uint64(rapidflags.Cases(40)) {
		rng := rand.New(rand.NewPCG(seed, 31))
		m := smallTraining(rng, seed)
		types, err := op.Infer(m)
		require.NoError(t, err)
		plain, err := planner.Make(m, types, planner.Options{})
		require.NoError(t, err)
		no := infeasible(t, m, types, planner.Options{}, planner.Budget{Effort: 0.01})
		require.LessOrEqual(t, no.LowerBound, no.LowestArena, "seed %d", seed)
		require.LessOrEqual(t, no.LowestArena, plain.Arena.Bytes, "seed %d", seed)

		var plans []*planner.Plan
		plan := func(o planner.Options) *planner.Plan {
			p, err := planner.Make(m, types, o)
			require.NoError(t, err, "seed %d", seed)
			plans = append(plans, p)
			return p
		}
		for level := range planner.Level(3) {
			for _, order := range []planner.OrderChoice{planner.OrderAuto, planner.OrderFile, planner.OrderORT,
				planner.OrderMemory} {
				p := plan(planner.Options{Strategy: level, Order: order, Probe: &recompute.Probe{Level: int(seed % 2)}})
				require.GreaterOrEqual(t, p.Planned.Peak.Bytes, plain.Base.LowerBound, "seed %d, level %d, order %s",
					seed, level, order)
			}
		}
		for range 8 {
			if edited := randomPlacements(rng, plain); len(edited) > 0 {
				plan(planner.Options{Strategy: &planner.PlanFile{Placements: edited}})
			}
		}
		middle := plan(planner.Options{Strategy: &planner.Budget{Effort: 0.01,
			Arena: (no.LowestArena + plain.Arena.Bytes) / 2}})
		for _, p := range plans {
			require.GreaterOrEqual(t, p.Planned.Peak.Bytes, p.Base.LowerBound, "seed %d", seed)
			if !sameOrder(p, plain) {
				continue
			}
			require.GreaterOrEqual(t, p.Arena.Bytes, no.LowerBound, "seed %d: %v", seed, p.Options.Level())
			if p.Arena.Bytes <= middle.Options.Budget().Arena {
				below++
				require.GreaterOrEqual(t, p.Overhead*(1+1e-9), middle.Bound.Overhead, "seed %d: %v",
					seed, p.Options.Level())
			}
		}
	}
	require.Greater(t, below, rapidflags.Cases(60))
}

func sameOrder(p, q *planner.Plan) bool {
	for i, id := range p.Analysis.Order {
		if q.Analysis.Order[i] != id {
			return false
		}
	}
	return true
}

// TestLowestArena: what an infeasible budget calls the smallest arena can be had by asking for it,
// and nothing right below it can.
func TestLowestArena(t *testing.T) {
	for seed := range uint64(rapidflags.Cases(40)) {
		rng := rand.New(rand.NewPCG(seed, 32))
		m := smallTraining(rng, seed)
		types, err := op.Infer(m)
		require.NoError(t, err)
		budget := planner.Budget{Effort: 0.01, Seed: int64(seed)}
		if seed%6 == 5 {
			budget.Effort, budget.Solver = 0, "greedy"
		}
		no := infeasible(t, m, types, planner.Options{}, budget)
		for _, d := range []int64{0, 1, 100, 300, no.LowestArena / 50} {
			b := budget
			b.Arena = no.LowestArena - d
			p, err := planner.Make(m, types, planner.Options{Strategy: &b})
			if d == 0 {
				require.NoError(t, err, "seed %d: the smallest arena that was reached cannot be had", seed)
				require.LessOrEqual(t, p.Arena.Bytes, no.LowestArena)
				continue
			}
			var again *planner.InfeasibleError
			require.True(t, errors.As(err, &again), "seed %d: %d was the smallest arena, and %d fits",
				seed, no.LowestArena, b.Arena)
			require.LessOrEqual(t, again.LowestArena, no.LowestArena, "seed %d", seed)
		}
	}
}

// TestNeverAboveTheBaseline: neither a level nor an order that is to save memory takes more than
// the graph as it is.
func TestNeverAboveTheBaseline(t *testing.T) {
	for seed := range uint64(rapidflags.Cases(40)) {
		rng := rand.New(rand.NewPCG(seed, 33))
		m := smallTraining(rng, seed)
		types, err := op.Infer(m)
		require.NoError(t, err)
		var workspace []int64
		if seed%4 == 1 {
			for range m.Graph.Nodes {
				workspace = append(workspace, int64(rng.IntN(4))*int64(rng.IntN(2000)))
			}
		}
		make := func(level planner.Level, order planner.OrderChoice) *planner.Plan {
			p, err := planner.Make(m, types, planner.Options{Strategy: level, Order: order, Workspace: workspace})
			require.NoError(t, err, "seed %d", seed)
			return p
		}
		for _, order := range []planner.OrderChoice{planner.OrderFile, planner.OrderORT, planner.OrderMemory} {
			base := make(planner.UserSpecified, order)
			one, two := make(planner.Layerwise, order), make(planner.LayerwiseCompromise, order)
			for _, p := range []*planner.Plan{one, two} {
				require.LessOrEqual(t, p.Planned.Peak.Bytes, base.Planned.Peak.Bytes, "seed %d, order %s, level %d",
					seed, order, p.Options.Level())
				require.LessOrEqual(t, p.Arena.Bytes, base.Arena.Bytes, "seed %d, order %s, level %d",
					seed, order, p.Options.Level())
			}
			require.LessOrEqual(t, two.Planned.Peak.Bytes, one.Planned.Peak.Bytes, "seed %d, order %s", seed, order)
		}
		for level := range planner.Level(3) {
			file, memory := make(level, planner.OrderFile), make(level, planner.OrderMemory)
			require.LessOrEqual(t, memory.Planned.Peak.Bytes, file.Planned.Peak.Bytes, "seed %d, level %d", seed, level)
			require.LessOrEqual(t, memory.Arena.Bytes, file.Arena.Bytes, "seed %d, level %d", seed, level)
		}
	}
}

// TestInnerCountsOnce: values inside subgraphs are in the peak of live bytes, and the arena has room
// for it behind all values.
func TestInnerCountsOnce(t *testing.T) {
	inner := 0
	for seed := range uint64(30) {
		m := smallTraining(rand.New(rand.NewPCG(seed, 34)), 1)
		types, err := op.Infer(m)
		require.NoError(t, err)
		p, err := planner.Make(m, types, planner.Options{})
		require.NoError(t, err)
		if p.Sizes.Inner == nil {
			continue
		}
		inner++
		bare := live.NewProgram(m.Graph, p.Analysis.Order, p.Sizes)
		for i := range bare.Steps {
			bare.Steps[i].Inner = 0
		}
		tl, err := bare.Simulate()
		require.NoError(t, err)
		require.Equal(t, arena.NewLayout(context.Background(), tl, p.Sizes.Bytes).Bytes+slices.Max(p.Sizes.Inner),
			p.Arena.Bytes)
		require.LessOrEqual(t, p.Base.Peak.Bytes, p.Arena.Bytes)
		require.GreaterOrEqual(t, p.Base.Peak.Bytes, tl.Peak.Bytes)
		same, err := planner.Make(m, types,
			planner.Options{Strategy: &planner.Budget{Arena: p.Arena.Bytes, Effort: 0.01}})
		require.NoError(t, err)
		require.Zero(t, same.Recompute.Nodes, "the graph as it is fits its own arena")
	}
	require.Greater(t, inner, 10)
}
