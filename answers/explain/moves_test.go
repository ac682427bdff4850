package explain_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/offload"
)

// movedPlan is a plan that keeps, recomputes and moves values.
func movedPlan(t *testing.T, batch, seq int64, share, rate float64) *memopt.Moving {
	t.Helper()
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": batch, "seq": seq}})
	require.NoError(t, err)
	p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: share, Effort: 0.02}, memopt.PlanOptions{},
		memopt.MoveOptions{Link: offload.Link{BytesPerSecond: rate, Latency: time.Microsecond}, HostBudget: 1 << 30})
	require.NoError(t, err)
	require.NotEmpty(t, p.Moves)
	return p
}

// TestMoving: the rows of a plan with moves are its peak; its values on the host, found by a walk over its graph, are
// the bytes there; the placements are those of the plan's moves and placements; and the copies are the plan's.
func TestMoving(t *testing.T) {
	for _, p := range []*memopt.Moving{movedPlan(t, 4, 64, 0.6, 2e10), movedPlan(t, 16, 128, 0.3, 4e10)} {
		r, err := explain.OfMoving(t.Context(), p, explain.Options{Top: 3})
		require.NoError(t, err)
		require.Equal(t, p.Peak, r.Sum())
		require.Equal(t, []int64{p.HostPeak, p.Moved}, []int64{r.Copies.Peak, r.Copies.OutBytes})
		require.InDelta(t, p.Seconds, r.Copies.Seconds, 1e-9*p.Seconds)

		alone, err := p.Plan.Rewrite(memopt.RewriteOptions{})
		require.NoError(t, err)
		moved, again := map[string]bool{}, map[string]bool{}
		for _, move := range p.Moves {
			moved[alone.Model.Graph.ValueName(move.Value)] = true
		}
		for _, s := range p.Plan.Stashed {
			again[p.Plan.Analysis.Graph.ValueName(s.Value)] = s.WhyKept == ""
		}
		require.Equal(t, len(moved), r.Counts[explain.Moved].Values)
		require.Positive(t, r.Counts[explain.Kept].Values)
		seen := map[explain.Placement]int{}
		for _, v := range r.Values {
			home, _, _ := strings.Cut(v.Name, "_reload")
			seen[v.Placement]++
			switch {
			case moved[home]:
				require.Equal(t, explain.Moved, v.Placement, v.Name)
			case strings.Contains(v.Name, "_recompute") || again[v.Name]:
				require.Equal(t, explain.Recomputed, v.Placement, v.Name)
				require.True(t, strings.HasPrefix(v.Again, "yes"), v.Again)
			default:
				require.NotEqual(t, explain.Moved, v.Placement, v.Name)
				require.NotEqual(t, explain.Recomputed, v.Placement, v.Name)
			}
			for _, f := range v.Fixes {
				require.Equal(t, explain.Offload, f.What)
				require.NotEqual(t, explain.Moved, v.Placement)
			}
		}
		require.Positive(t, seen[explain.Kept])

		sum := int64(0)
		for _, h := range r.OnHost {
			require.True(t, moved[h.Name], h.Name)
			sum += h.Bytes
		}
		require.Equal(t, hostBytes(p, r.Step), sum)
		require.Equal(t, sum, r.HostBytes)
		require.Positive(t, sum)

		// A name stands for the value, its clones and its copies: it is in the peak, on the host or away from both.
		for _, name := range slices.Sorted(maps.Keys(moved))[:8] {
			one, err := explain.OfMoving(t.Context(), p, explain.Options{Name: name, Top: -1})
			require.NoError(t, err)
			onHost := slices.ContainsFunc(r.OnHost, func(h *explain.Hosted) bool { return h.Name == name })
			require.Equal(t, onHost, len(one.OnHost) > 0, name)
			require.NotZero(t, len(one.Values)+len(one.Elsewhere)+len(one.OnHost), name)
			for _, a := range one.Elsewhere {
				require.NotContains(t, a.Name, "_host")
			}
		}
	}
}

// hostBytes is the bytes of the copies that are on the host while a node of the graph with moves runs: from Offload to
// the last Reload or Wait of it.
func hostBytes(p *memopt.Moving, at int) (sum int64) {
	g := p.Model.Graph
	until := make([]int, len(g.Values)) // by output of Offload
	shows := map[graph.ValueID]graph.ValueID{}
	for id, n := range g.Nodes {
		switch op.Of(n.Kind).Transfer {
		case op.ToHost:
			shows[n.Output(0)], until[n.Output(0)] = n.Output(0), id
		case op.Awaits:
			if of, ok := shows[n.Inputs[0]]; ok {
				shows[n.Output(0)] = of
			}
		}
		for _, v := range n.Inputs {
			if of, ok := shows[v]; ok {
				until[of] = id
			}
		}
	}
	for id, n := range g.Nodes {
		if v := n.Output(0); op.Of(n.Kind).Transfer == op.ToHost && id <= at && at <= until[v] {
			sum += p.Laid.Sizes.Bytes[v]
		}
	}
	return sum
}

// TestMovingOfNone: without moves, the plan is explained as any other, and says so.
func TestMovingOfNone(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 4, "seq": 64}})
	require.NoError(t, err)
	p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: 0.7, Effort: 0.01}, memopt.PlanOptions{},
		memopt.MoveOptions{})
	require.NoError(t, err)
	require.Empty(t, p.Moves)
	r, err := explain.OfMoving(t.Context(), p, explain.Options{Top: 3})
	require.NoError(t, err)
	require.Equal(t, p.Plan.Planned.Peak.Bytes, r.Sum())
	require.Contains(t, r.Answer(), "No value moves to the host.")
	require.Nil(t, r.Copies)
	require.Zero(t, r.Counts[explain.Moved].Values)
	require.Positive(t, r.Counts[explain.Recomputed].Values)
	fixes := 0
	for _, v := range r.Values {
		fixes += len(v.Fixes)
	}
	require.Positive(t, fixes)
}
