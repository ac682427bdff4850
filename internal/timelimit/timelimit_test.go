package timelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/internal/timelimit"
)

// TestWithout: the work beneath a deadline is ended by an interrupt alone, however many shares of the
// time lie between.
func TestWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, interrupt := context.WithCancel(t.Context())
		ctx, done := timelimit.With(whole, time.Now().Add(10*time.Second))
		defer done()
		half, end := timelimit.Share(ctx, 0.5)
		defer end()
		until, ok := half.Deadline()
		require.True(t, ok)
		require.Equal(t, 5*time.Second, time.Until(until))
		require.Equal(t, whole, timelimit.Without(half))

		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.True(t, timelimit.Ended(half))
		require.False(t, timelimit.Ended(ctx))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.True(t, timelimit.Ended(ctx))
		require.NoError(t, timelimit.Without(half).Err())
		interrupt()
		require.Error(t, timelimit.Without(half).Err())
	})
}

// TestSpent: a run without any time is told from a search that begins when the time is up.
func TestSpent(t *testing.T) {
	for limit, want := range map[time.Duration]bool{-time.Second: true, 0: true, time.Hour: false} {
		ctx, done := timelimit.With(t.Context(), time.Now().Add(limit))
		defer done()
		share, doneToo := timelimit.Share(ctx, 0)
		defer doneToo()
		require.Equal(t, want, timelimit.Spent(share), limit)
	}
	require.False(t, timelimit.Spent(t.Context()))
}

// TestInterrupted: an interrupt is not the end of the time.
func TestInterrupted(t *testing.T) {
	whole, interrupt := context.WithCancel(t.Context())
	ctx, done := timelimit.With(whole, time.Now().Add(time.Hour))
	defer done()
	interrupt()
	require.Error(t, ctx.Err())
	require.False(t, timelimit.Ended(ctx))
}

// TestNoDeadline: a context without one is shared and stripped as it is.
func TestNoDeadline(t *testing.T) {
	ctx, done := timelimit.Share(t.Context(), 0.1)
	defer done()
	require.Equal(t, t.Context(), ctx)
	require.Equal(t, t.Context(), timelimit.Without(ctx))
}
