package planner

import (
	"context"

	"memopt/graph"
	"memopt/graph/op"
	ortsim "memopt/sim/ort"
)

// Simulated makes a plan and returns how many steps have been simulated for it.
func Simulated(m *graph.Model, types *op.Result, opts Options) (int, error) {
	r, err := newRequest(m, types, opts)
	if err != nil {
		return 0, err
	}
	o, err := chooseOrder(m, r.boundary, opts.Order)
	if err != nil {
		return 0, err
	}
	mk, err := newMaker(r, o)
	if err != nil {
		return 0, err
	}
	c := &Chooser{maker: mk}
	if err := opts.Strategy.Choose(context.Background(), c); err != nil {
		return 0, err
	}
	_, err = mk.plan(context.Background(), c.made)
	return mk.evaluator.Steps(), err
}

// InRuntime returns what a plan's graph as it is comes to in stock ONNX Runtime.
func InRuntime(p *Plan) ortsim.Peaks { return p.inRuntime() }
