package budget

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/test/graphtest"
	"memopt/planner/arena"
	"memopt/planner/remat"
	"memopt/recompute"
)

// demandSome draws nodes that are kept and nodes that must run again.
func demandSome(rng *rand.Rand, p *Problem) {
	a := p.Evaluator.Analysis
	p.Kept = make([]string, len(a.Graph.Nodes))
	for id := range p.Kept {
		if !p.Evaluator.Sizes.View(a.Graph.Nodes[id]) && rng.IntN(4) == 0 { // of a view, it is the bytes that are kept
			p.Kept[id] = "it is kept"
		}
	}
	for _, st := range a.Stashed {
		if p.Kept[st.Node] == "" && rng.IntN(2) == 0 &&
			!slices.ContainsFunc(p.Forced, func(f Forced) bool { return f.Node == st.Node }) {
			p.Forced = append(p.Forced, Forced{Node: st.Node})
		}
	}
}

// obeys tells whether placements run nothing again that is kept, and all that must run again.
func obeys(p *Problem, forced []remat.Extra, placements []recompute.Placement) bool {
	again := make([]bool, len(p.Kept))
	for i := range placements {
		for _, id := range placements[i].Nodes {
			again[id] = true
			if p.Kept[id] != "" {
				return false
			}
		}
	}
	return !slices.ContainsFunc(forced, func(x remat.Extra) bool {
		return !again[p.Evaluator.Analysis.Order[x.Task]]
	})
}

// TestDemandsByBruteForce compares the bounds of plans that must obey with all of these plans that
// run up to two nodes again, and holds answers to what was demanded.
func TestDemandsByBruteForce(t *testing.T) {
	forced, tight, left := 0, 0, 0
	for seed := range uint64(250) {
		rng := rand.New(rand.NewPCG(seed, 43))
		m := withViews(t, rng, graphtest.Vectors(5+rng.IntN(4), rng.IntN))
		if _, err := live.FindBoundary(m); err != nil {
			continue
		}
		p := problemOf(t, m, nil, graph.FileOrder(m.Graph))
		demandSome(rng, p)
		b := newBudgeter(context.Background(), p, &Options{Bytes: math.MaxInt64})
		require.NoError(t, b.demand())
		for id, why := range p.Kept {
			if why != "" {
				require.Equal(t, why, b.tasks.whyNot[id], "the reason that an answer gives")
			}
		}
		fixed := b.tasks.graph.Fixed
		forced, left = forced+len(fixed), left+len(b.left)
		require.Len(t, p.Forced, len(fixed)+len(b.left))
		least := b.tasks.loose.PeakBound(context.Background(), 0) - (arena.Alignment - 1)
		whole := arena.NewLayout(context.Background(), p.Base, p.Evaluator.Sizes.Bytes).Bytes
		budget := least + rng.Int64N(max(1, whole-least))
		bound := b.leastCost(&point{extras: []remat.Extra{{}}, cost: math.MaxInt64}, budget, 0)
		cheapest := int64(math.MaxInt64)
		eachPlan(p.Evaluator.Analysis, m, func(placements []recompute.Placement) {
			if !obeys(p, fixed, placements) {
				return
			}
			e, err := p.Evaluator.Simulate(placements)
			require.NoError(t, err)
			taken := e.Layout(context.Background()).Bytes
			require.LessOrEqual(t, least, taken, "seed %d: %+v", seed, placements)
			if taken <= budget {
				cheapest = min(cheapest, costOf(b.tasks, p, placements))
			}
		})
		require.LessOrEqual(t, bound, cheapest, "seed %d: budget %d", seed, budget)
		if len(fixed) > 0 && bound == cheapest {
			tight++
		}
		for _, o := range []Options{{Bytes: budget, Effort: 0.01}, {Bytes: math.MaxInt64, Solver: "greedy"}} {
			answer, err := Fit(context.Background(), p, &o)
			if err != nil {
				require.ErrorIs(t, err, ErrInfeasible)
				continue
			}
			require.True(t, obeys(p, fixed, answer.Placements), "seed %d", seed)
			require.Len(t, answer.Left, len(b.left))
			if o.Bytes == math.MaxInt64 {
				require.True(t, answer.Bound.Optimal, "seed %d: what must run again alone is the cheapest", seed)
			}
		}
	}
	t.Logf("%d forced, %d left out, %d bounds met", forced, left, tight)
	require.Greater(t, forced, 60)
	require.Greater(t, tight, 10)
	require.Positive(t, left)
}
