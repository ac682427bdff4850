package budget

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/internal/timelimit"
	"memopt/planner/remat"
)

// TestQuickest: when the time was up before the run began, an answer takes counted work alone: budgets that no
// search reaches end with the lowest arena of that, whatever the machine, and equal runs have equal answers.
func TestQuickest(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	p := problemOf(t, m, ex.Dims, nil)
	base := p.Base.Peak.Bytes
	ctx, done := timelimit.With(t.Context(), time.Now())
	defer done()
	fits := 0
	for _, share := range []float64{0.2, 0.365, 0.37, 0.38, 0.4, 0.6, 0.8} {
		o := &Options{Bytes: int64(share * float64(base))}
		a, err := Fit(ctx, p, o)
		again, e := Fit(ctx, p, o)
		require.Equal(t, err, e, share)
		if err == nil {
			require.Equal(t, a.Layout.Bytes, again.Layout.Bytes)
			require.Equal(t, a.Placements, again.Placements)
			require.LessOrEqual(t, a.Layout.Bytes, o.Bytes)
			fits++
			continue
		}
		var infeasible *InfeasibleError
		require.ErrorAs(t, err, &infeasible)
		require.False(t, infeasible.Searched(), "a bound rules it out: %g", share)
	}
	require.GreaterOrEqual(t, fits, 3)
}

// TestQuickWork: a search for the quickest answer ends after its counted work, which grows with large graphs alone.
func TestQuickWork(t *testing.T) {
	for _, tasks := range []int{1, 1000, 10_000, 15_000, 100_000, 1_000_000} {
		require.GreaterOrEqual(t, quickWork(tasks), int64(1_000_000))
		require.LessOrEqual(t, quickWork(tasks), max(4_000_000, 50*int64(tasks)))
	}
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	p := problemOf(t, m, ex.Dims, nil)
	b := newBudgeter(t.Context(), p, &Options{})
	ctx, done := timelimit.Counted(t.Context(), 2000)
	defer done()
	_, err = b.newSearch().Fit(ctx, p.Base.Peak.Bytes*37/100, 0)
	require.Error(t, err)
	require.True(t, timelimit.Ended(ctx))
	low, err := b.newSearch().Lowest(ctx, 1<<40)
	require.NoError(t, err, "what is known, and nothing more")
	require.Empty(t, low.Extras)
	none, release := context.WithCancel(ctx)
	defer release()
	require.EqualValues(t, 0, timelimit.Left(none))
}

// TestQuickestFirst: with a deadline, however far, the plan of a limit of 0 comes first; that its counted work ends is
// no end of the time.
func TestQuickestFirst(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	p := problemOf(t, m, ex.Dims, nil)
	ended, done := timelimit.With(t.Context(), time.Now())
	defer done()
	late, lateDone := timelimit.With(t.Context(), time.Now().Add(time.Hour))
	defer lateDone()
	o := &Options{Bytes: p.Base.Peak.Bytes / 2, Effort: 1}
	answer, err := Fit(ended, p, &Options{Bytes: o.Bytes})
	require.NoError(t, err)
	for _, c := range []struct {
		ctx   context.Context
		found bool
	}{{late, true}, {t.Context(), false}} {
		b := newBudgeter(c.ctx, p, o)
		require.NoError(t, b.add(&remat.Answer{Method: "order"}))
		found, err := b.quickest(b.newSearch())
		require.NoError(t, err)
		require.Equal(t, c.found, found)
		require.False(t, b.quick || b.stopped)
		if found {
			require.Equal(t, answer.Placements, b.cheapest(o.Bytes).placements)
		}
	}
}
