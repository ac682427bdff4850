package planner

import (
	"fmt"
	"maps"

	"memopt/graph/live"
	"memopt/planner/anchor"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

// Anchor decides which anchors the plan's rewritten graph needs to keep its peak in stock ONNX
// Runtime's default order. Where symbols are unbound, their places are those that suit usual sizes.
func (p *Plan) Anchor() (*anchor.Anchoring, error) {
	if p.Sizes != nil {
		return p.anchored(p.Placements, false)
	}
	guess, err := p.withUsualDims()
	if err != nil {
		return &anchor.Anchoring{Warnings: []string{fmt.Sprintf("no anchors are written, because no sizes are known: %v; bind symbols with --dim", err)}}, nil
	}
	out, err := guess.anchored(p.Placements, true)
	if err == nil {
		out = &anchor.Anchoring{Anchors: out.Anchors, Nodes: out.Nodes, Warnings: out.Warnings}
	}
	return out, err
}

// usualDim is what an unbound symbol is taken to be where only the order of sizes counts.
const usualDim = 64

// withUsualDims returns a copy of a plan without sizes in which every symbol is bound.
func (p *Plan) withUsualDims() (*Plan, error) {
	q := *p
	q.Options.Dims = maps.Clone(p.Options.Dims)
	if q.Options.Dims == nil {
		q.Options.Dims = symbolic.Env{}
	}
	for _, symbol := range p.Unbound {
		q.Options.Dims[symbol] = usualDim
	}
	var err error
	if q.Sizes, err = live.EvalSizes(p.Analysis.Graph, q.Options.Dims); err != nil {
		return nil, err
	}
	q.bench = place.NewBench(q.Analysis, q.Sizes, place.Memory{})
	return &q, nil
}

// anchored decides about the anchors of placements. always says that the simulated peaks are no
// reason to leave them out.
func (p *Plan) anchored(placements []recompute.Placement, always bool) (*anchor.Anchoring, error) {
	// ONNX Runtime's kernels have a workspace of their own.
	bench := place.NewBench(p.Analysis, p.Sizes, place.Memory{CloneBytes: p.bench.Memory.CloneBytes})
	trial, err := bench.Simulate(placements)
	if err != nil {
		return nil, err
	}
	return anchor.Choose(&anchor.Plan{Analysis: p.Analysis, Dims: p.Options.Dims, Sizes: p.Sizes, Trial: trial, Always: always})
}
