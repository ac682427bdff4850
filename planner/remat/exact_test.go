package remat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestExactAgainstOracle compares the exact search with Dijkstra's algorithm over all states.
func TestExactAgainstOracle(t *testing.T) {
	hard := 0
	rapid.Check(t, func(t *rapid.T) {
		in := tightInstances(t, 8)
		want := cheapest(in)
		r, err := Solve(context.Background(), in, Options{Solver: "exact"})
		if want < 0 {
			require.ErrorIs(t, err, ErrInfeasible)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, r.Cost)
		require.True(t, r.Optimal && r.InOrder)
		if base := newSingle(in, in.Budget).base; r.Cost > base {
			hard++
		}
	})
	require.Positive(t, hard)
}

// TestExactBounds: the bounds of states, quick ones and their own, are no more than what is left to
// pay on a cheapest way through them, and what the search says when it is stopped is a bound.
func TestExactBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := tightInstances(t, 8)
		p := newSingle(in, in.Budget)
		e := newExactSearch(context.Background(), p, 0)
		want := cheapest(in)
		steps := rapid.IntRange(0, 40).Draw(t, "steps")
		_, bound, over := e.run(func() bool { steps--; return steps < 0 })
		if want >= 0 {
			require.LessOrEqual(t, p.base+bound, want)
		}
		if over {
			return
		}
		found, bound, over := e.run(func() bool { return false })
		require.True(t, over)
		if want < 0 {
			require.Nil(t, found)
			return
		}
		require.Equal(t, want, p.base+bound)
		for id := e.goal(); id >= 0; id = e.states[id].behind {
			s := &e.states[id]
			left := bound - s.cost
			require.LessOrEqual(t, e.quick(s), left)
			require.LessOrEqual(t, e.refined(s), left)
		}
	})
}

// goal is the cheapest state with nothing left, or -1.
func (e *exactSearch) goal() int32 {
	best := int32(-1)
	for id := range e.states {
		if s := &e.states[id]; s.left == 0 && (best < 0 || s.cost < e.states[best].cost) {
			best = int32(id)
		}
	}
	return best
}

// TestExactQueue: entries leave the queue in order.
func TestExactQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q exactQueue
		var want []exactEntry
		for id := range rapid.Int32Range(0, 50).Draw(t, "entries") {
			e := exactEntry{rapid.Int64Range(0, 5).Draw(t, "total"), rapid.Int32Range(0, 3).Draw(t, "left"), id}
			want = append(want, e)
			q.push(e)
		}
		slices.SortFunc(want, func(a, b exactEntry) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for _, e := range want {
			require.Equal(t, e, q.pop())
		}
	})
}

// TestExactProves: sample instances that the exact search settles within the work given here.
func TestExactProves(t *testing.T) {
	for _, ref := range references(t) {
		switch ref.Name {
		case "dev_mlp7_b50", "dev_mlp7_b70", "dev_mlp7_b80", "dev_mlp7_b90", "dev_rl30_b70", "dev_rl30_b80",
			"dev_rl30_b90",
			"dev_resnet4_b90", "dev_tf2_b70", "dev_unet3_b90":
		default:
			continue
		}
		f, err := os.Open(filepath.Join(shared, ref.Name+".json"))
		require.NoError(t, err)
		in, err := Read(f)
		f.Close()
		require.NoError(t, err)
		r, err := Solve(context.Background(), in, Options{Solver: "exact", Nodes: 30_000_000, RequireOptimal: true})
		require.NoError(t, err, ref.Name)
		base := newSingle(in, in.Budget).base
		require.InDelta(t, *ref.Best, 100*float64(r.Cost-base)/float64(base), 1e-3, ref.Name)
	}
}

// TestExactTooLarge: the solver says so.
func TestExactTooLarge(t *testing.T) {
	_, err := Solve(context.Background(), layered(exactNodes+1, 800, 0.9, 1), Options{Solver: "exact"})
	require.ErrorContains(t, err, "at most 256 nodes, the instance has 257")
	require.False(t, errors.Is(err, ErrInfeasible))
}
