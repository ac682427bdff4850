package planner

import (
	"context"
	"errors"
)

// Headroom is the largest size of a symbol with a plan that was found to fit a budget.
type Headroom struct {
	Symbol string
	Size   int64 // 0 means that not even size 1 fits
	Below  int64 // the size that does not fit
	// The plan at Size: bytes of its arena, of that with inputs and weights, and its price.
	Arena, Total int64
	Overhead     float64
	// Complete is set if no plan was found at Size+1; else the search ended early.
	Complete bool
}

// FindHeadroom looks for the largest size of a symbol below an infeasible one, starting with a guess. It
// plans sizes with the function try, whose error is an *InfeasibleError for an infeasible size. If a
// size above an infeasible one fits, the answer fits, but need not be the largest.
func FindHeadroom(ctx context.Context, symbol string, below, guess int64,
	try func(n int64) (*Plan, error)) (*Headroom, error) {
	r := &Headroom{Symbol: symbol, Below: below}
	low, high := int64(0), below // low fits, or is 0
	for low+1 < high {
		if ctx.Err() != nil {
			return r, nil
		}
		n := low + (high-low)/2
		if low < guess && guess < high {
			n = guess
		}
		p, err := try(n)
		switch {
		case ctx.Err() != nil:
			return r, nil
		case err == nil:
			low = n
			r.Size, r.Arena, r.Overhead = n, p.Arena.Bytes, p.Overhead
			r.Total = p.Arena.Bytes + p.Persistent
			if p.Runtime != nil {
				r.Arena, r.Total = p.Runtime.AnchoredArena, p.Runtime.AnchoredArena+p.Persistent
			}
		case errors.Is(err, ErrInfeasible):
			high = n
		default:
			return nil, err
		}
	}
	r.Complete = true
	return r, nil
}
