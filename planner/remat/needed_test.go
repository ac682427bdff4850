package remat

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNeededExtras: of drawn lists of extra runs those stay whose values are read before their task
// runs again, as a walk forward in time finds them one by one.
func TestNeededExtras(t *testing.T) {
	dropped := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 51))
		g := randomGraph(rng, 12)
		var extras []Extra
		for range 12 {
			x := Extra{Task: rng.Int32N(12), Before: rng.Int32N(12)}
			if g.checkExtra(x) == nil && !slices.Contains(extras, x) {
				extras = append(extras, x)
			}
		}
		extras = SortExtras(extras)
		want := slices.Clone(extras)
		for again := true; again; {
			again = false
			for i := range want {
				if !read(g, want, want[i]) {
					want, again = slices.Delete(want, i, i+1), true
					break
				}
			}
		}
		dropped += len(extras) - len(want)
		require.ElementsMatch(t, want, g.neededExtras(extras), "seed %d", seed)
	}
	require.Greater(t, dropped, 60)
}

// read reports whether another run reads the values of an extra run before its task runs again.
func read(g *Graph, extras []Extra, x Extra) bool {
	runs := g.Runs(extras)
	at, stage := -1, int32(0)
	for i, r := range runs {
		if r.Extra && r.Task == x.Task && stage == x.Before {
			at = i
		}
		if !r.Extra {
			stage = r.Task + 1
		}
	}
	for _, r := range runs[at+1:] {
		for _, u := range g.Tasks[r.Task].Uses {
			if slices.Contains(g.Tasks[x.Task].Makes, u) {
				return true
			}
		}
		if r.Task == x.Task {
			return false
		}
	}
	return false
}
