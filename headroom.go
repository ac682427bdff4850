package memopt

import (
	"context"
	"maps"

	"memopt/planner"
)

// BatchSymbol returns the symbol that a batch's size is bound to: the one whose name says so, for
// example batch_size, else the first dim of the first input that has a symbol there; "" without such a
// symbol, or if it is bound to 1 or unbound.
func (m *Model) BatchSymbol() string {
	name := m.batchName()
	if m.Dims[name] <= 1 {
		return ""
	}
	return name
}

// Headroom looks for the largest size of a symbol that fits a budget, below the bound size, which
// infeasible reports as infeasible. The budget's bytes stay the same, also those of a share. Each size
// gets the first plan that is found, so that a longer search may find more headroom; a context that is
// done ends the search with the largest size so far.
func (m *Model) Headroom(ctx context.Context, symbol string, b Budget, infeasible *planner.InfeasibleError,
	o PlanOptions) (*planner.Headroom, error) {
	if b.Share > 0 {
		b.Share, b.Arena = 0, max(infeasible.Budget, 1)
	}
	b.Effort, b.Found, b.Progress = 0, nil, nil
	o.RowPeaks, o.Alternatives, o.Within = false, false, nil
	bound := m.Dims[symbol]
	guess := int64(float64(bound) * float64(infeasible.Budget) / float64(max(infeasible.LowestArena, 1)))
	return planner.FindHeadroom(ctx, symbol, bound, guess, func(n int64) (*planner.Plan, error) {
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
