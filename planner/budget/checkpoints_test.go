package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner/remat"
	"memopt/recompute"
)

// TestCheckpointsOfHugeGraphs: the plans that huge graphs get without a search are what the
// simulator and the costs of a step say, and the first that fits ends the list.
func TestCheckpointsOfHugeGraphs(t *testing.T) {
	var text strings.Builder
	text.WriteString("<ir_version: 8, opset_import: [\"\": 18]> g (float[64, 64] x) => (float loss) <float w = {1}> " +
		"{\nv0 = Mul (x, w)\n")
	const nodes = 400
	for i := range nodes {
		fmt.Fprintf(&text, "v%d = Relu (v%d)\n", i+1, i)
	}
	fmt.Fprintf(&text, "loss = ReduceMean <keepdims = 0> (v%d)\n}", nodes)
	m, err := graph.Parse(text.String(), "chain")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	joint, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	p := problemOf(t, joint.Model, nil, nil)
	distances := []int{8, 32, 128}
	p.Checkpoints = func(yield func([]int) bool) {
		for _, every := range distances {
			if !yield(withoutEvery(p.Evaluator.Analysis, every)) {
				return
			}
		}
	}
	for _, c := range []struct {
		share float64
		plans int // the graph as it is included
		late  bool
	}{{0.9, 2, false}, {0.9, 2, true}, {0.001, 1 + len(distances), false}, {0.001, 1 + len(distances), true}} {
		found := 0
		bytes := int64(c.share * float64(p.Base.Peak.Bytes))
		ctx, cancel := t.Context(), func() {}
		if c.late {
			ctx, cancel = timelimit.With(ctx, time.Now().Add(-time.Hour)) // the first plan is worth the wait
		}
		b := newBudgeter(ctx, p, &Options{Bytes: bytes, Found: func() { found++ }})
		defer cancel()
		require.NoError(t, b.add(&remat.Answer{Method: "order"}))
		require.NoError(t, b.checkpoints())
		require.Equal(t, c.plans, len(b.points))
		best := b.cheapest(b.budget)
		require.Equal(t, c.share > 0.5, best != nil)
		if best == nil {
			require.Zero(t, found)
			continue
		}
		require.Equal(t, 1, found)
		require.NotEmpty(t, best.placements[0].Reason)
		again, err := p.Evaluator.Simulate(best.placements)
		require.NoError(t, err)
		require.Equal(t, again.Peak, best.live)
		require.Equal(t, again.Layout(t.Context()).Bytes, best.arena)
		require.Less(t, best.arena, p.Base.Peak.Bytes)
		seconds, step := 0.0, 0.0
		for _, pl := range best.placements {
			for _, id := range pl.Nodes {
				seconds += p.Seconds[id]
			}
		}
		for _, s := range p.Seconds {
			step += s
		}
		require.InEpsilon(t, seconds/step, float64(best.cost)/b.tasks.stepCost(), 1e-3)
	}
}

// withoutEvery lists the candidates of strategy 1 but every n-th.
func withoutEvery(a *recompute.Analysis, n int) []int {
	var all, out []int
	for i := range a.Candidates {
		if a.Candidates[i].Strategy == recompute.Full && a.Uncloneable(i) == "" {
			all = append(all, i)
		}
	}
	for k, i := range all {
		if k%n != n-1 {
			out = append(out, i)
		}
	}
	return out
}
