package budget

import (
	"cmp"
	"errors"
	"fmt"
)

// ErrInfeasible means that no plan that was found stays within the budget.
var ErrInfeasible = errors.New("no plan fits the budget")

// InfeasibleError says how far from a budget the best plans are. All sizes are bytes without the
// persistent ones. It wraps ErrInfeasible.
type InfeasibleError struct {
	Budget int64
	// LowestArena is the smallest arena that any plan reached, LowestLive the lowest peak of
	// live bytes. They may belong to different plans. Both are 0 where no plan was tried, because
	// LowerBound, or Persistent, rules the budget out.
	LowestArena, LowestLive int64
	// LowerBound is a lower bound on the arena of every plan in this order, or in Orders; 0 means that no bound is
	// known.
	LowerBound int64
	// Orders is how many orders were tried, if several: the fields above then cover all of them.
	Orders int
	// Persistent is the bytes of inputs and weights where the budget was for these, too; else 0.
	Persistent int64
	// Whole is how low plans without chunked regions come, if chunking was tried, too: then the fields
	// above cover both kinds. nil means that no chunking was tried.
	Whole *Lowest
	// InCuts is the least that a step takes in any of the ways in which regions were cut into parts, where that rules
	// them all out; else 0. LowerBound holds for all other cuts, too.
	InCuts int64
	// Stopped is set if the time limit ended the search.
	Stopped bool
	// Object is the searched object in the error message, for example "configuration of clusters"; ""
	// means "plan".
	Object string
}

// Searched reports whether plans were tried; else a bound rules the budget out.
func (e *InfeasibleError) Searched() bool { return e.LowestArena > 0 }

// RuledOut reports whether bounds rule out all plans, those with the regions that were cut into parts included: no
// search has started.
func (e *InfeasibleError) RuledOut() bool {
	return !e.Searched() && max(e.LowerBound, e.InCuts) > e.Budget
}

// Lowest is how low plans come, in bytes, as in InfeasibleError.
type Lowest struct {
	Arena, Live, Bound int64
}

// InParts adds the lowest arena and peak of plans with chunked regions (0 if no such plan was searched),
// and the lower bound of every chunking.
func (e *InfeasibleError) InParts(arena, live, bound int64) {
	if e.Whole == nil {
		e.Whole = &Lowest{e.LowestArena, e.LowestLive, e.LowerBound}
	}
	switch {
	case arena == 0: // a bound of these parts has ruled the budget out before any search
	case !e.Searched():
		e.LowestArena, e.LowestLive = arena, live
	default:
		e.LowestArena, e.LowestLive = min(e.LowestArena, arena), min(e.LowestLive, live)
	}
	e.LowerBound = bound
}

// InOtherOrder adds that the budget is infeasible in one more order.
func (e *InfeasibleError) InOtherOrder(o *InfeasibleError) {
	e.Orders = max(e.Orders, 1) + max(o.Orders, 1)
	switch {
	case !e.Searched():
		e.LowestArena, e.LowestLive = o.LowestArena, o.LowestLive
	case o.Searched():
		e.LowestArena, e.LowestLive = min(e.LowestArena, o.LowestArena), min(e.LowestLive, o.LowestLive)
	}
	e.LowerBound, e.Stopped = min(e.LowerBound, o.LowerBound), e.Stopped || o.Stopped
}

// InOrders names the orders that the bound holds for.
func (e *InfeasibleError) InOrders() string {
	if e.Orders > 1 {
		return fmt.Sprintf("in one of %d orders", e.Orders)
	}
	return "in this order"
}

// Error names the budget and the smallest arena that was reached.
func (e *InfeasibleError) Error() string {
	object := cmp.Or(e.Object, "plan")
	if e.Stopped && e.Searched() {
		object += " that was found"
	}
	text := fmt.Sprintf("no %s fits an arena of %d bytes", object, e.Budget)
	switch {
	case e.Persistent > 0 && e.Budget <= 0:
		text = fmt.Sprintf("no %s fits the budget of %d bytes: inputs and weights alone take %d", object,
			e.Budget+e.Persistent, e.Persistent)
	case e.Persistent > 0:
		text += fmt.Sprintf(", the rest of the budget of %d after inputs and weights (%d)",
			e.Budget+e.Persistent, e.Persistent)
	}
	switch w := e.Whole; {
	case !e.Searched() && e.LowerBound > 0:
		text += fmt.Sprintf(": no plan %s has an arena of less than %d bytes", e.InOrders(), e.LowerBound)
		if e.InCuts > 0 {
			text += fmt.Sprintf(", and with regions in the parts that were tried a step takes at least %d", e.InCuts)
		}
		return text + "; allow more, or use smaller dims"
	case !e.Searched():
		return text + "; allow more, or use smaller dims"
	case w != nil && w.Arena > 0:
		text += e.lowest() + fmt.Sprintf(", with regions in parts; without them it is %d (%d live)", w.Arena, w.Live)
	case w != nil:
		text += e.lowest() + fmt.Sprintf(", with regions in parts; without them it is at least %d", w.Bound)
	case e.LowerBound > 0:
		text += e.lowest() + fmt.Sprintf(", and no plan %s has one of less than %d", e.InOrders(), e.LowerBound)
	default:
		text += e.lowest()
	}
	if e.Stopped {
		return text + "; the time limit ended the search: allow more time or bytes, or use smaller dims"
	}
	return text + "; allow more, or use smaller dims"
}

// lowest says how low plans came.
func (e *InfeasibleError) lowest() string {
	return fmt.Sprintf(": the smallest arena that was reached is %d bytes (%d live)", e.LowestArena, e.LowestLive)
}

// Unwrap returns ErrInfeasible.
func (e *InfeasibleError) Unwrap() error { return ErrInfeasible }
