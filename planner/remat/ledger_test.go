package remat

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireLedger compares a ledger with the definition.
func requireLedger(t require.TestingT, l *ledger) {
	out, err := l.g.Simulate(l.extras)
	require.NoError(t, err)
	require.Equal(t, out.Cost, l.cost)
	require.Equal(t, out.Peak, l.peak())
	var needs []int64
	for s := range l.stages {
		for _, e := range l.stages[s] {
			needs = append(needs, l.needAt(at(int32(s), e.task)))
		}
	}
	require.Equal(t, out.Live, needs)
	require.Equal(t, out.Peak, l.needAt(l.worst()))
	for x := range l.runs {
		require.Equal(t, l.lastReader(int32(x)), l.reach.tops[l.reach.leaves+x])
	}
}

// randomRun is an extra run that is allowed and not there.
func randomRun(l *ledger, rng *rand.Rand) (x, stage int32, ok bool) {
	stage = int32(rng.IntN(len(l.runs)))
	x = int32(rng.IntN(int(stage) + 1))
	return x, stage, l.allowed(x, stage) && !l.runsAt(x, stage)
}

// TestLedger inserts, removes and takes back at random and compares with the definition.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g := randomGraph(rng, rapid.IntRange(1, 20).Draw(t, "n"))
		if rapid.Bool().Draw(t, "beside") {
			for range g.Tasks {
				g.Beside = append(g.Beside, rng.Int64N(20))
			}
		}
		l := newLedger(g)
		requireLedger(t, l)
		for range 30 {
			mark, before := len(l.log), SortExtras(append([]Extra{}, l.extras...))
			for range rng.IntN(4) {
				if x, stage, ok := randomRun(l, rng); ok && rng.IntN(3) > 0 {
					l.insert(x, stage)
				} else if len(l.extras) > 0 {
					e := l.extras[rng.IntN(len(l.extras))]
					l.remove(e.Task, e.Before)
				}
				requireLedger(t, l)
			}
			if rng.IntN(2) == 0 {
				l.undo(mark)
				requireLedger(t, l)
				require.Equal(t, before, SortExtras(append([]Extra{}, l.extras...)))
			}
		}
	})
}
