package timelimit

import (
	"context"
	"errors"
	"math"
)

// errSpent is the cause of the end of a context whose counted work is done.
var errSpent = errors.New("the counted work is done")

// allowance is the counted work that is left for a context of Counted, and allowanceKey its key.
type allowance struct {
	left   int64
	end    context.CancelCauseFunc
	within *allowance // of the context around it; nil: that one has no limit
}

type allowanceKey struct{}

// Counted returns a context that ends when Spend has been told of so much work, and the function that
// releases it. A piece of work takes about 100 ns on a typical core. Work of this context is work of the
// ones around it, too. One goroutine at a time may work in it, else its end would depend on the machine.
func Counted(parent context.Context, work int64) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	a := &allowance{left: work, end: end, within: allowanceOf(parent)}
	a.spend(0)
	return context.WithValue(ctx, allowanceKey{}, a), func() { end(context.Canceled) }
}

// Spend notes work that was done, which may end the context.
func Spend(ctx context.Context, work int64) {
	for a := allowanceOf(ctx); a != nil; a = a.within {
		a.spend(work)
	}
}

func (a *allowance) spend(work int64) {
	if a.left -= work; a.left <= 0 {
		a.left = 0
		a.end(errSpent)
	}
}

// Left is the counted work that is left for a context; math.MaxInt64 where it is not limited.
func Left(ctx context.Context) int64 {
	left := int64(math.MaxInt64)
	for a := allowanceOf(ctx); a != nil; a = a.within {
		left = min(left, a.left)
	}
	return left
}

func allowanceOf(ctx context.Context) *allowance {
	a, _ := ctx.Value(allowanceKey{}).(*allowance)
	return a
}
