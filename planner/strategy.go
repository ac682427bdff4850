package planner

import (
	"context"

	"memopt/graph"
	"memopt/planner/arena"
	"memopt/planner/budget"
	"memopt/planner/place"
	"memopt/recompute"
)

// Strategy chooses what a plan recomputes: a Level, a Config, a Budget or a PlanFile. It is a value
// from which any number of plans can be made; making a plan does not change it.
type Strategy interface {
	// enables reports whether it asks for anything to be recomputed.
	enables() bool
	// probe is how far candidates are searched where Options.Probe does not say.
	probe() recompute.Probe
	// fixedOrder is the only order that it can be followed in; nil: any.
	fixedOrder() graph.Order
	// choose makes a choice from what the maker knows, trying candidates on its evaluator.
	choose(ctx context.Context, m *maker) (*choice, error)
}

// choice is what a strategy chose.
type choice struct {
	sel      *selection
	trial    *place.Trial   // of the placements; the last that was made on the evaluator
	layout   *arena.Layout  // of the trial; nil: not packed yet
	solver   string         // what chose, as records name it
	stopped  bool           // a time limit ended the search
	answer   *budget.Answer // to a budget that is not one of clusters; else nil
	warnings []string
}
