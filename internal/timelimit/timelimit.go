// Package timelimit bounds a whole run by one deadline. A context made by With carries that
// deadline through all searches of the run, so that their times never add up; Without gives
// back the context beneath it, for the work that a valid answer needs even when the time is up
// and that only an interrupt may end. Such work is bounded by Counted: its end does not depend on
// how busy the machine is.
package timelimit

import (
	"context"
	"errors"
	"time"
)

// run is the value, and runKey its key, that a context with the deadline of a run carries.
type run struct {
	beneath context.Context // without the deadline
	spent   bool            // the time was up before the run began
}

type runKey struct{}

// With returns a context with the deadline of a run, and the function that releases it. The context
// also ends with its parent.
func With(parent context.Context, end time.Time) (context.Context, context.CancelFunc) {
	r := run{parent, !time.Now().Before(end)}
	return context.WithDeadline(context.WithValue(parent, runKey{}, r), end)
}

// Without returns the context that With was given, whose deadline is not that of the run; a context
// that With has not made is returned as it is.
func Without(ctx context.Context) context.Context {
	if r, ok := ctx.Value(runKey{}).(run); ok {
		return r.beneath
	}
	return ctx
}

// Spent reports whether the time was up when With made the context: a limit of 0 asks for the quickest
// answer, however long that takes. A search that begins when the time of others is up has no such claim.
func Spent(ctx context.Context) bool {
	r, ok := ctx.Value(runKey{}).(run)
	return ok && r.spent
}

// Ended reports whether the deadline has ended a context, or its counted work, rather than an interrupt.
func Ended(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errSpent)
}

// Share returns a context with a share of the time that the deadline leaves from now on: 0.5 for
// half of it. Without a deadline it is the context itself.
func Share(ctx context.Context, share float64) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(share*float64(time.Until(end))))
}
