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
	// Runtime if the budget is for that.
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
		return errors.New("a plan can only be held to a budget of bytes or to a share: there is none")
	}
	if p.Arena == nil {
		return nil
	}
	f := &Fit{Budget: b, Arena: p.Arena.Bytes, Persistent: p.Persistent}
	base := p.Baseline().Base.Peak.Bytes
	if b.Runtime {
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
