package planner

import (
	"context"
	"errors"
)

// Headroom is the largest size of a symbol at which a plan was found that fits a budget.
type Headroom struct {
	Symbol string
	Size   int64 // 0: not even size 1 fits
	Below  int64 // the size that does not fit
	// Of the plan at Size: bytes of its arena, of that with inputs and weights, and its price.
	Arena, Total int64
	Overhead     float64
	// Complete says that no plan was found one above; else the search was ended before.
	Complete bool
}

// FindHeadroom looks for the largest size of a symbol below one that does not fit, starting with a
// guess. Try plans at a size; its error is an *InfeasibleError where nothing fits there. If more may fit
// at a larger size than at a smaller one, the answer fits, but need not be the largest that does.
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
