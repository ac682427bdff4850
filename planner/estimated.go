package planner

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// NodeSeconds estimates the time of one execution of every node of any graph by a device profile, by
// NodeID; nil stands for DefaultProfile. The error is a *symbolic.UnboundError if sizes are not known.
func NodeSeconds(m *graph.Model, types *op.Result, dims symbolic.Env, p *Profile) ([]float64, error) {
	sizes, err := live.EvalSizes(m.Graph, dims)
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &DefaultProfile
	}
	return newProfileCosts(m.Graph, sizes, op.FLOPs(m.Graph, m.Opsets, types), dims, p, nil).seconds, nil
}
