package budget

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/internal/test/graphtest"
	"memopt/planner/arena"
	"memopt/planner/offload"
)

// TestFitMoved compares plans whose values move with plans that only recompute and with the bound of moves: they cost
// no less than that, and some cost less than plans that only recompute.
func TestFitMoved(t *testing.T) {
	found, cheaper := 0, 0
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := graphtest.Vectors(20+rng.IntN(12), rng.IntN)
		p := problemOf(t, m, nil, graph.FileOrder(m.Graph))
		total := 0.0
		for _, s := range p.Seconds {
			total += s
		}
		if total == 0 {
			continue
		}
		bytes := p.Base.Peak.Bytes * 17 / 20
		link := offload.Link{BytesPerSecond: float64(p.Base.Peak.Bytes) / total * 4}
		o := &Options{Bytes: bytes, Effort: 0.01}
		plain, err := Fit(context.Background(), p, o)
		var none *InfeasibleError
		if err != nil {
			require.ErrorAs(t, err, &none)
		}
		with := *o
		with.Lent = Lent{Link: link, Hold: math.MaxInt64 / 4}
		a, err := Fit(context.Background(), p, &with)
		if errors.As(err, &none) {
			continue
		}
		require.NoError(t, err)
		tk, over := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State), a.Waits
		over += float64(costOf(tk, p, a.Placements)) / tk.stepCost()
		bound := MovedBound(context.Background(), p, bytes, link.BytesPerSecond)
		require.LessOrEqual(t, bound.Overhead, over+1e-9, "seed %d", seed)
		found++
		if plain == nil || over < float64(costOf(tk, p, plain.Placements))/tk.stepCost() {
			cheaper++
		}
	}
	t.Logf("%d plans, %d cheaper or where none is without moves", found, cheaper)
	require.Positive(t, cheaper)
}
