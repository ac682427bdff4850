package planner

import (
	"context"
	"errors"

	"memopt/planner/anchor"
)

// Fit compares a plan with its budget, or with Options.Within. All sizes are bytes.
type Fit struct {
	Budget *Budget
	// Limit is the bytes that the budget leaves for the arena; negative if inputs and weights alone
	// exceed the budget.
	Limit int64
	// Arena is the bytes of the plan's arena: memopt's own, or the simulated one of stock ONNX
	// Runtime or the peak in ORTModule if the budget is for these.
	Arena int64
	// Persistent is the bytes of inputs and weights, which count where the budget is for these, too.
	Persistent int64
}

// Over is the bytes by which the plan exceeds the budget; 0 if it fits.
func (f *Fit) Over() int64 { return max(0, f.Arena-f.Limit) }

// Spare is how many bytes the budget has left; 0 where the plan does not fit.
func (f *Fit) Spare() int64 { return max(0, f.Limit-f.Arena) }

// Fits reports whether the plan is within the budget.
func (f *Fit) Fits() bool { return f.Arena <= f.Limit }

// hold compares the plan with its budget.
func (m *maker) hold(p *Plan) error {
	b := m.opts.Limit()
	if b == nil {
		return nil
	}
	if err := m.needSizes(); err != nil {
		return err
	}
	if b.Total == 0 && b.Share == 0 && b.Arena == 0 {
		if m.opts.Within == nil {
			return nil
		}
		return errors.New("a plan can only be held to a budget of bytes or to a share: no budget was given")
	}
	if p.Arena == nil {
		return nil
	}
	f := &Fit{Budget: b, Arena: p.Arena.Bytes, Persistent: p.Persistent}
	base := p.Baseline().Base.Peak.Bytes
	if p.Session != nil && b.ORTModule {
		f.Arena, base = p.Session.Planned, p.Session.Base
	} else if b.Runtime {
		a, err := p.anchored()
		if err != nil {
			return err
		}
		f.Arena, base = a.AnchoredArena, a.BaseArena
	}
	f.Limit = b.bytes(p.Persistent, base)
	p.Fit = f
	return nil
}

// anchored simulates the plan's file in stock ONNX Runtime.
func (p *Plan) anchored() (*anchor.Anchoring, error) {
	if p.Runtime != nil {
		return p.Runtime, nil
	}
	return p.Anchor(context.Background())
}

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
