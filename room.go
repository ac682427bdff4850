package memopt

import (
	"context"
	"maps"

	"memopt/planner"
)

// BatchSymbol returns the symbol that a batch's size is bound to: the one whose name says so, else
// the first dim of the first input that has a symbol there; "" if there is none, or if it is bound
// to 1 or to nothing.
func (m *Model) BatchSymbol() string {
	name := m.batchName()
	if m.Dims[name] <= 1 {
		return ""
	}
	return name
}

// Room looks for the largest size of a symbol, below the one that is bound, at which a plan fits a
// budget that nothing fits at that size, which unfit says. The budget's bytes stay the same, also
// those of a share. Each size gets the first plan that is found, so that a longer search may find room
// for more; a context that is done ends the search with the largest size so far.
func (m *Model) Room(ctx context.Context, symbol string, b Budget, unfit *planner.UnfitError,
	o PlanOptions) (*planner.Room, error) {
	if b.Share > 0 {
		b.Share, b.Arena = 0, max(unfit.Budget, 1)
	}
	b.Effort, b.Found, b.Progress = 0, nil, nil
	o.RowPeaks, o.Alternatives, o.Within = false, false, nil
	bound := m.Dims[symbol]
	guess := int64(float64(bound) * float64(unfit.Budget) / float64(max(unfit.LowestArena, 1)))
	return planner.FindRoom(ctx, symbol, bound, guess, func(n int64) (*planner.Plan, error) {
		at := *m
		at.Dims = maps.Clone(m.Dims)
		at.Dims[symbol] = n
		p, err := at.Plan(ctx, b, o)
		if err != nil {
			return nil, err
		}
		return p.Plan, nil
	})
}
