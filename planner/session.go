package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/hint"
	"memopt/planner/anchor"
	"memopt/planner/budget"
	"memopt/planner/cluster"
	"memopt/planner/place"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Session is the memory of a step in ORTModule: the most live bytes without inputs and weights, with gradients.
type Session struct {
	// Base is that of the graph as it is. ORTModule's memory optimizer is off then, and its session runs the nodes
	// in its default order, in which it has also written the file.
	Base int64
	// Planned is that of the plan's graph: of a level or a configuration the graph that ORTModule's own optimizer
	// makes, in the memory-efficient order; of other plans the file without anchors in its place, in the file's
	// order, which memopt.ortmodule sets. It is Base where there is neither a budget nor a value to recompute.
	Planned int64
}

// ByORTModule reports whether ORTModule's own memory optimizer makes the plan's graph.
func (o *Options) ByORTModule() bool {
	switch s := o.strategy().(type) {
	case Config, Level:
		return o.ORTModule && !o.Written && enables(s)
	case Budget:
		return o.ORTModule && !o.Written && s.Clusters
	}
	return false
}

// sessionBase is the peak of the unchanged graph in ORTModule.
func (m *maker) sessionBase() (int64, error) {
	return ortsim.TrainingPeak(m.model, graph.FileOrder(m.model.Graph), m.opts.Dims)
}

// sessionOf is the peak in ORTModule of the file that placements make in an order, in which its session runs it.
func (r *request) sessionOf(o graph.Order, placements []recompute.Placement) (int64, error) {
	w, err := recompute.Apply(r.model, r.boundary, o, placements, recompute.Options{Release: true})
	if err != nil {
		return 0, err
	}
	return ortsim.TrainingPeak(w.Model, ortsim.PriorityOrder(w.Model.Graph), r.opts.Dims)
}

// sessionOfSelection is the peak in ORTModule where its own optimizer recomputes candidates.
func (m *maker) sessionOfSelection(selected []int) (int64, error) {
	r, err := m.analysis.ByORTModule(selected, 0)
	if err != nil {
		return 0, err
	}
	return ortsim.TrainingPeak(r.Model, graph.FileOrder(r.Model.Graph), m.opts.Dims)
}

// session finds the memory of a plan in ORTModule; nil without sizes, or where it is not asked for.
func (m *maker) session(p *Plan, c *choice) (*Session, error) {
	if !m.opts.ORTModule || m.sizes == nil || m.boundary.Kind != live.YieldBoundary || m.whole != nil {
		return nil, nil
	}
	var err error
	s := &Session{}
	if s.Base, err = m.sessionBase(); err != nil {
		return nil, err
	}
	_, recorded := m.opts.strategy().(*PlanFile)
	switch {
	case p.Runtime != nil:
		s.Planned = p.Runtime.AnchoredArena
	case len(p.Placements) == 0 && !recorded:
		s.Planned = s.Base
	case m.opts.ByORTModule():
		p.selected = c.sel.chosen
		s.Planned, err = m.sessionOfSelection(c.sel.chosen)
	default:
		s.Planned, err = m.sessionOf(m.analysis.Order, p.Placements)
	}
	return s, err
}

// warnNames says that ORTModule refuses the graph that its own optimizer makes of candidates: two of its nodes have one
// name. The name of a clone is that of its node with an ending, and so the ending alone where nodes have no names.
func (m *maker) warnNames(p *Plan, chosen []int) {
	g := m.analysis.Graph
	names, cloned := map[string]bool{}, make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		names[n.Name] = true
	}
	for _, c := range chosen {
		for _, id := range m.analysis.Candidates[c].Nodes {
			name := g.Nodes[id].Name + recompute.Suffix
			if names[name] && !cloned[id] {
				p.warnf("ORTModule refuses this graph (two nodes with same node name (%s)): its optimizer does not "+
					"name clones apart, such as that of %q; plan to a budget, whose file memopt writes with names",
					name, g.NodeLabel(id))
				return
			}
			names[name], cloned[id] = true, true
		}
	}
}

// ByORTModule returns the graph that ORTModule's own optimizer makes of a level or a configuration, in its order; nil
// where the plan's graph is memopt's. seed determines the seeds of random nodes without seeds of their own.
func (p *Plan) ByORTModule(seed int64) (*recompute.Rewritten, error) {
	if p.selected == nil {
		return nil, nil
	}
	return p.Analysis.ByORTModule(p.selected, seed)
}

// judgedInORTModule has the peaks in ORTModule of placements in place of those in stock ONNX Runtime. Its session
// keeps the order of the file, so there are no anchors.
func (m *maker) judgedInORTModule(placements []recompute.Placement) (*anchor.Anchoring, error) {
	out := &anchor.Anchoring{Simulated: true}
	var err error
	if out.Base, err = m.sessionBase(); err != nil {
		return nil, err
	}
	if out.Anchored, err = m.sessionOf(m.analysis.Order, placements); err != nil {
		return nil, err
	}
	out.BaseArena, out.Bare, out.Planned, out.AnchoredArena = out.Base, out.Anchored, out.Anchored, out.Anchored
	return out, nil
}

// maxNarrower bounds the budgets of memopt's arena that are tried for a budget in ORTModule; each is the share narrower
// of the one before.
const (
	maxNarrower = 24
	narrower    = 0.96
)

// fitClustersInORTModule is fitClusters for a budget that counts in ORTModule: smaller and smaller budgets of memopt's
// own arena are tried until the configuration stays within it there.
func (m *maker) fitClustersInORTModule(ctx context.Context, b Budget, o *budget.Options) (*choice, error) {
	base, err := m.sessionBase()
	if err != nil {
		return nil, err
	}
	limit, lowest := b.bytes(m.persistent, base), int64(math.MaxInt64)
	tried := *o
	tried.Bytes = limit
	for range maxNarrower {
		c, err := m.fitClusters(ctx, &tried, cluster.Work(len(m.analysis.Order)))
		var low *InfeasibleError
		if errors.As(err, &low) {
			break
		}
		if err != nil {
			return nil, err
		}
		took := base
		if len(c.sel.chosen) > 0 {
			if took, err = m.sessionOfSelection(c.sel.chosen); err != nil {
				return nil, err
			}
		}
		if took <= limit {
			return c, nil
		}
		lowest = min(lowest, took)
		tried.Bytes = int64(narrower * float64(tried.Bytes))
	}
	return nil, &InfeasibleError{Budget: limit, LowestArena: lowest, LowestLive: lowest, Persistent: o.Persistent,
		Object: clusterConfiguration}
}

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
