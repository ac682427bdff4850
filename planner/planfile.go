package planner

import (
	"context"

	"memopt/graph"
	"memopt/recompute"
)

// PlanFile is the strategy that takes over the placements of a plan file, which people may have
// edited.
type PlanFile struct {
	Placements []recompute.Placement
	// Order is the one that the file assumes, which stands in for Options.Order; nil: that.
	Order graph.Order
}

func (PlanFile) enables() bool             { return true }
func (PlanFile) probe() recompute.Probe    { return UserSpecified.DefaultProbe() }
func (f PlanFile) fixedOrder() graph.Order { return f.Order }

func (f PlanFile) choose(_ context.Context, m *maker) (*choice, error) {
	a := m.analysis
	placements, err := recompute.Arrange(a.Graph, a.Order, a.Backward, f.Placements)
	if err != nil {
		return nil, err
	}
	c, err := m.place(placements)
	if err != nil {
		return nil, err
	}
	c.solver = "plan-file"
	return c, nil
}
