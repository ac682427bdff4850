package planner

import (
	"context"
	"fmt"
	"maps"

	"memopt/graph/live"
	"memopt/hint"
	"memopt/planner/anchor"
	"memopt/planner/place"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Anchor decides which anchors the plan's rewritten graph needs to keep its peak in stock ONNX
// Runtime's default order. Where symbols are unbound, their places are those that suit usual sizes. A context
// that is done ends the search for places with the first set. A plan with a Session gets no anchors: memopt.ortmodule
// has that session run the nodes in the order of the file.
func (p *Plan) Anchor(ctx context.Context) (*anchor.Anchoring, error) {
	if s := p.Session; s != nil {
		return &anchor.Anchoring{Simulated: true, Base: s.Base, BaseArena: s.Base, Bare: s.Planned, Planned: s.Planned,
			Anchored: s.Planned, AnchoredArena: s.Planned}, nil
	}
	if p.Sizes != nil {
		out, err := p.toAnchor().choose(ctx, p.Placements)
		if w := p.Whole; err == nil && w != nil && w.Sizes != nil {
			base := w.inRuntime()
			out.Base, out.BaseArena = base.Live, base.Arena
		}
		return out, err
	}
	guess, err := p.withUsualDims()
	if err != nil {
		why := fmt.Sprintf("no anchors are written, because no sizes are known: %v; bind symbols with %v",
			err, hint.Dims)
		return &anchor.Anchoring{Warnings: []string{why}}, nil
	}
	out, err := guess.choose(ctx, p.Placements)
	if err == nil {
		out = &anchor.Anchoring{Anchors: out.Anchors, Nodes: out.Nodes, Warnings: out.Warnings}
	}
	return out, err
}

// anchoring decides about the anchors of placements in one graph.
type anchoring struct {
	evaluator *place.Evaluator
	facts     *ortsim.Facts
	// always keeps anchors even if the simulated peaks do not need them.
	always bool
}

// newAnchoring does so with an evaluator without workspaces: ONNX Runtime's kernels have others.
func newAnchoring(a *recompute.Analysis, sizes *live.Sizes, o *Options) *anchoring {
	evaluator := place.NewEvaluator(a, sizes, place.Memory{CloneBytes: o.CloneBytes})
	return &anchoring{evaluator: evaluator, facts: ortsim.NewFacts(a.Model, o.Dims)}
}

func (p *Plan) toAnchor() *anchoring { return newAnchoring(p.Analysis, p.Sizes, &p.Options) }

// usualDim is the assumed size of an unbound symbol, for comparisons of sizes only.
const usualDim = 64

// withUsualDims has every symbol bound for a plan without sizes.
func (p *Plan) withUsualDims() (*anchoring, error) {
	dims := symbolic.Env{}
	maps.Copy(dims, p.Options.Dims)
	for _, symbol := range p.Unbound {
		dims[symbol] = usualDim
	}
	sizes, err := live.EvalSizes(p.Analysis.Graph, dims)
	if err != nil {
		return nil, err
	}
	evaluator := place.NewEvaluator(p.Analysis, sizes, place.Memory{})
	return &anchoring{evaluator: evaluator, facts: ortsim.NewFacts(p.Model, dims), always: true}, nil
}

func (a *anchoring) choose(ctx context.Context, placements []recompute.Placement) (*anchor.Anchoring, error) {
	t, err := a.evaluator.Simulate(placements)
	if err != nil {
		return nil, err
	}
	return anchor.Choose(ctx, &anchor.Plan{Analysis: a.evaluator.Analysis, Facts: a.facts, Sizes: a.evaluator.Sizes,
		Trial: t, Always: a.always})
}
