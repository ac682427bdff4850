package place

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/recompute"
)

// TestBeside: what is forced is added to placements in the way with the lowest peak of those that
// are tried, and runs again in it.
func TestBeside(t *testing.T) {
	differ := 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 71))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 20 + rng.IntN(60), Layers: seed%2 == 0})
		_, err := op.Infer(m)
		require.NoError(t, err)
		boundary, err := live.FindBoundary(m)
		require.NoError(t, err)
		order, err := graph.Topological(m.Graph)
		require.NoError(t, err)
		sizes, err := live.EvalSizes(m.Graph, nil)
		require.NoError(t, err)
		a := recompute.Find(m, boundary, order, recompute.Probe{Level: 1})
		b := NewEvaluator(a, sizes, Memory{})
		var chosen []int
		for i := range a.Candidates {
			switch {
			case a.Uncloneable(i) != "":
			case i%3 == 0:
				b.Forced = append(b.Forced, a.Candidates[i])
			default:
				chosen = append(chosen, i)
			}
		}
		forced := b.Forced
		b.Forced = nil
		given, err := b.Candidates(chosen)
		require.NoError(t, err)
		placements, set := given.Placements, given.barriers(nil)
		b.Forced = forced
		r := newReruns(b, b.candidates(nil), placements)
		var peaks []int64
		for _, way := range [][]recompute.Placement{b.merged(placements, r, r.plan(nil, noLimit)),
			b.merged(placements, r, r.plan(set, noLimit))} {
			for _, list := range [][]recompute.Placement{way, b.sharing(way, placements)} {
				tried, err := b.Simulate(list)
				require.NoError(t, err)
				peaks = append(peaks, tried.Peak)
			}
		}
		best, err := b.Beside(placements)
		require.NoError(t, err)
		for _, peak := range peaks {
			require.LessOrEqual(t, best.Peak, peak, "seed %d", seed)
			if peak > best.Peak {
				differ++
			}
		}
		for _, c := range forced {
			found := false
			for _, pl := range best.Placements {
				for _, id := range pl.Nodes {
					found = found || id == c.Entry
				}
			}
			require.True(t, found, "seed %d", seed)
		}
	}
	require.Positive(t, differ)
}
