package timelimit_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/internal/timelimit"
)

// TestCounted: counted work ends a context when it is done and no earlier, and work of a part is work of the whole.
func TestCounted(t *testing.T) {
	require.EqualValues(t, math.MaxInt64, timelimit.Left(t.Context()))
	timelimit.Spend(t.Context(), 5) // has no effect
	whole, done := timelimit.Counted(t.Context(), 10)
	defer done()
	part, partDone := timelimit.Counted(whole, 4)
	defer partDone()
	timelimit.Spend(part, 3)
	require.EqualValues(t, 1, timelimit.Left(part))
	require.EqualValues(t, 7, timelimit.Left(whole))
	require.NoError(t, part.Err())
	timelimit.Spend(part, 2)
	require.True(t, timelimit.Ended(part))
	require.EqualValues(t, 0, timelimit.Left(part))
	require.NoError(t, whole.Err(), "there is more for others")
	more, moreDone := timelimit.Counted(whole, 100)
	defer moreDone()
	require.EqualValues(t, 5, timelimit.Left(more), "no part has more than the whole")
	timelimit.Spend(more, 5)
	require.True(t, timelimit.Ended(more))
	require.True(t, timelimit.Ended(whole))
	none, noneDone := timelimit.Counted(t.Context(), 0)
	defer noneDone()
	require.True(t, timelimit.Ended(none))
}

// TestCountedInterrupted: an interrupt ends counted work, too, and is told from its end.
func TestCountedInterrupted(t *testing.T) {
	parent, interrupt := context.WithCancel(t.Context())
	ctx, done := timelimit.Counted(parent, 10)
	defer done()
	interrupt()
	require.Error(t, ctx.Err())
	require.False(t, timelimit.Ended(ctx))
	released, done := timelimit.Counted(t.Context(), 10)
	done()
	timelimit.Spend(released, 20)
	require.False(t, timelimit.Ended(released), "it was released before")
}

// TestCountedWithin: work that is counted beneath a deadline has none, and a deadline within counted work ends it.
func TestCountedWithin(t *testing.T) {
	ctx, done := timelimit.With(t.Context(), time.Now())
	defer done()
	counted, countedDone := timelimit.Counted(timelimit.Without(ctx), 10)
	defer countedDone()
	require.NoError(t, counted.Err())
	late, lateDone := context.WithDeadline(counted, time.Now())
	defer lateDone()
	require.True(t, timelimit.Ended(late))
	require.EqualValues(t, 10, timelimit.Left(late))
}
