package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner/chunk"
	"memopt/planner/place"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// request is the input of Make.
type request struct {
	model    *graph.Model
	types    *op.Result
	boundary live.Boundary
	opts     Options
	// How a chunked graph was cut, and the plan of the original graph; nil for another graph.
	cuts    []chunk.Cut
	whole   *Plan
	applied *chunk.Applied
	share   *shares
	floor   int64         // lower bound of every chunking; 0 without chunked regions, or before it is computed
	least   []graph.Order // the orders of memoryOrders; nil before its search
}

func newRequest(m *graph.Model, types *op.Result, opts Options) (*request, error) {
	b, err := live.FindBoundary(m)
	return &request{model: m, types: types, boundary: b, opts: opts}, err
}

// in makes the plan in an order.
func (r *request) in(ctx context.Context, o graph.Order) (*Plan, error) {
	m, err := newMaker(r, o)
	if err != nil {
		return nil, err
	}
	c := &Chooser{maker: m}
	if err := r.opts.strategy().Choose(ctx, c); err != nil {
		return nil, err
	}
	if c.made == nil {
		if _, err := c.Recompute(); err != nil {
			return nil, err
		}
	}
	return m.plan(ctx, c.made)
}

// maker makes a plan in one order: it holds the facts about the graph that precede any choice, and
// the evaluator that strategies try placements with.
type maker struct {
	*request
	analysis   *recompute.Analysis
	unbound    *symbolic.UnboundError // nil where sizes are known; then there are no bytes
	sizes      *live.Sizes
	persistent int64 // bytes of inputs and weights
	evaluator  *place.Evaluator
	latest     tried
	base       *live.Timeline // of the unchanged graph
	costs      *nodeCosts
	demands    *demands // nil without demands
}

func newMaker(r *request, o graph.Order) (*maker, error) {
	probe := probeOf(r.opts.strategy())
	if r.opts.Probe != nil {
		probe = *r.opts.Probe
	}
	m := &maker{request: r, analysis: recompute.Find(r.model, r.boundary, o, probe)}
	var err error
	if m.demands, err = r.demands(m.analysis); err != nil {
		return nil, err
	}
	if err = m.measure(); err == nil && m.demands != nil {
		m.evaluator.Forced = m.demands.forced
	}
	return m, err
}

// measure evaluates sizes and simulates the unchanged graph. Without bindings for all symbols it
// leaves bytes out.
func (m *maker) measure() error {
	g := m.analysis.Graph
	memory := place.Memory{Workspace: m.opts.Workspace, CloneBytes: m.opts.CloneBytes}
	sizes, err := live.EvalSizes(g, m.opts.Dims)
	if errors.As(err, &m.unbound) {
		m.evaluator = place.NewEvaluator(m.analysis, nil, memory)
		return nil
	}
	if err != nil {
		return err
	}
	if sizes.States, err = live.FindStates(m.model); err != nil {
		return err
	}
	if len(sizes.States) > 0 {
		sizes.Failures, err = op.FailuresOf(m.model, m.types, m.analysis.Order, m.opts.Dims)
		if err != nil {
			return err
		}
	}
	if m.opts.Aliased != nil {
		sizes.Alias(g, m.opts.Aliased)
	}
	m.sizes = sizes
	if m.persistent, err = live.PersistentBytes(g, sizes); err != nil {
		return err
	}
	m.evaluator = place.NewEvaluator(m.analysis, sizes, memory)
	m.base, err = m.evaluator.AsIs().Simulate()
	m.costs = newNodeCosts(m.model, m.types, sizes, &m.opts, m.share)
	return err
}

// needSizes returns a *symbolic.UnboundError that lists the symbols without a binding, if there are
// any.
func (m *maker) needSizes() error {
	if m.sizes == nil {
		return m.unbound
	}
	return nil
}

// tried is a selection and its trial.
type tried struct {
	sel   *selection
	trial *place.Trial
	steps int // that the evaluator had simulated when it was done
}

// try tries a selection, unless it is the one that the evaluator has tried last. The outcome is good
// until the evaluator's next trial.
func (m *maker) try(sel *selection) (*place.Trial, error) {
	if l := &m.latest; l.sel == sel && l.steps == m.evaluator.Steps() {
		return l.trial, nil
	}
	m.latest = tried{} // its memory is free for the next one
	trial, err := m.evaluator.Candidates(sel.chosen)
	if err == nil {
		m.latest = tried{sel, trial, m.evaluator.Steps()}
	}
	return trial, err
}

// place chooses placements, whichever candidates they belong to.
func (m *maker) place(placements []recompute.Placement) (*choice, error) {
	c := &choice{sel: selectionOf(m.analysis, placements), trial: &place.Trial{Placements: placements}}
	if m.sizes == nil {
		return c, nil
	}
	var err error
	c.trial, err = m.evaluator.Simulate(placements)
	return c, err
}

// plan makes the plan of a choice.
func (m *maker) plan(ctx context.Context, c *choice) (*Plan, error) {
	_, rewritten := m.model.Meta(recompute.Key)
	p := &Plan{Model: m.model, Types: m.types, Options: m.opts, Rewritten: rewritten,
		Fission: m.cuts, Whole: m.whole, applied: m.applied, floor: m.floor, least: m.least,
		Analysis: m.analysis, Sizes: m.sizes, Persistent: m.persistent, Base: m.base,
		costs: m.costs, demands: m.demands, Solver: c.solver, Stopped: c.stopped}
	if m.unbound != nil {
		p.Unbound = m.unbound.Symbols
	} else {
		p.inRuntime = simulateOnce(m.model, m.opts.Dims, m.sizes)
	}
	m.demands.count(c.sel)
	m.demands.leftOut(c.answer)
	m.adopt(ctx, p, c)
	if a := c.answer; a != nil {
		p.Bound, p.Lower, p.Runtime, p.waits = &a.Bound, a.Lower, a.Runtime, a.Waits
		if m.opts.Alternatives {
			p.Alternatives = a.Alternatives(ctx)
		}
	}
	p.reprice()
	if err := m.fillRows(ctx, p, c); err != nil {
		return nil, err
	}
	var err error
	if p.Session, err = m.session(p, c); err != nil {
		return nil, err
	}
	m.warn(p, c)
	if len(p.Unbound) > 0 && m.opts.Ranges != nil {
		if err := p.formulas(ctx); err != nil && !timelimit.Ended(ctx) {
			return nil, err
		}
	}
	if err := m.hold(p); err != nil {
		return nil, err
	}
	return p, nil
}

// basePeak is the most live bytes of the original graph.
func (m *maker) basePeak() int64 {
	if m.whole != nil {
		return m.whole.Base.Peak.Bytes
	}
	return m.base.Peak.Bytes
}

// adopt makes the choice the plan.
func (m *maker) adopt(ctx context.Context, p *Plan, c *choice) {
	c.trial.Explain()
	p.Placements, m.latest = c.trial.Placements, tried{}
	var again []graph.NodeID
	for _, pl := range p.Placements {
		again = append(again, pl.Nodes...)
	}
	if m.opts.ByORTModule() { // which makes one clone of a node
		slices.Sort(again)
		again = slices.Compact(again)
	}
	p.Recompute.Nodes = len(again)
	if m.sizes == nil {
		return
	}
	p.Planned = c.trial.Timeline.Clone()
	if p.Arena = c.layout; p.Arena == nil && (!m.opts.SkipLayout || m.opts.Within != nil) {
		p.Arena = c.trial.Layout(timelimit.Without(ctx)) // one plan, one number of bytes
	}
	if !m.opts.SkipLayout {
		m.compose(p, c.trial)
	}
	p.Step, p.Recompute = m.costs.of(m.analysis.Order), m.costs.of(again)
	p.Overhead = p.overhead()
}

// warn adds the caveats of a plan.
func (m *maker) warn(p *Plan, c *choice) {
	p.Warnings = append(slices.Clone(m.analysis.Warnings), c.warnings...)
	if m.demands != nil {
		p.Warnings = append(p.Warnings, m.demands.warnings...)
	}
	if p.Rewritten {
		p.warnf("memopt has already rewritten this graph: its clones count as backward nodes, and " +
			"this plan adds to the earlier one")
	}
	p.warnUnknown()
	p.warnUnmeasured()
	if p.Planned == nil {
		return
	}
	before, after := p.Baseline().Base.Peak.Bytes, p.Planned.Peak.Bytes
	if s := p.Session; s != nil {
		before, after = s.Base, s.Planned
		p.warnUnfused()
		if p.selected != nil {
			m.warnNames(p, p.selected)
		}
	}
	if (len(c.sel.chosen) > 0 || len(m.evaluator.Forced) > 0) && after >= before {
		p.warnf("the selection does not lower the peak: %d bytes before, %d after; recomputation "+
			"only costs time", before, after)
	}
	if f, ok := p.Options.Strategy.(*PlanFile); ok {
		f.brokenPromise(p)
	}
	p.warnCopied()
	if n := len(p.Base.Unsized); n > 0 {
		p.warnf("%d values (the first is %q) have a size that depends on data or is unknown, and "+
			"count as 0 bytes", n, p.Analysis.Graph.Values[p.Base.Unsized[0]].Name)
	}
}

// warnUnfused says that ORTModule's session still changes the graph before it runs it.
func (p *Plan) warnUnfused() {
	found := ortsim.Unfused(p.Analysis.Graph)
	if len(found) == 0 {
		return
	}
	p.warnf("ORTModule's session does not run this graph as it is: it fuses %d products with the Transposes of their "+
		"operands, the first is %q; its clusters have other ids and it takes other memory. Plan "+
		"P_execution_model_training.onnx, which ORTModule writes beside P_optimized_training.onnx (save_onnx of its "+
		"DebugOptions)", len(found), p.Analysis.Graph.NodeLabel(found[0]))
}

// warnCopied names the states whose next values cannot be written in place.
func (p *Plan) warnCopied() {
	copied, bytes := p.Planned.Copied, int64(0)
	for _, s := range copied {
		bytes += max(p.Sizes.Bytes[s.Out], 0)
	}
	if bytes > 0 {
		g := p.Analysis.Graph
		p.warnf("%d of %d states take %d bytes beside their inputs to the end of a step, where they are "+
			"copied: the old value is needed when the next one is made%s; the first is %q, whose next value "+
			"is %q", len(copied), len(p.Sizes.States), bytes, p.mayFail(), g.ValueName(copied[0].In),
			g.ValueName(copied[0].Out))
	}
}

// mayFail names the last backward node that the data of a step can make fail, as a reason why next
// values are not written in place; "" if there is no such node.
func (p *Plan) mayFail() string {
	for _, id := range slices.Backward(p.Analysis.Order) {
		if p.Analysis.Backward[id] && p.Sizes.Failures[id] != op.NeverFails {
			return fmt.Sprintf(", or a node that runs later can fail because of the data, and must find the old one; "+
				"the last such node is %q (%s)", p.Analysis.Graph.NodeLabel(id), p.Analysis.Graph.Nodes[id].Op)
		}
	}
	return ""
}

func (p *Plan) warnf(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// warnUnknown names the operators that memopt does not know.
func (p *Plan) warnUnknown() {
	names := map[string]bool{}
	for _, id := range p.Types.NoRow {
		n := p.Analysis.Graph.Nodes[id]
		names[cmp.Or(n.Domain, "ai.onnx")+"."+n.Op] = true
	}
	if len(names) > 0 {
		p.warnf("%d nodes have operators that memopt does not know; their outputs have the types that "+
			"the file states and are never recomputed: %s", len(p.Types.NoRow),
			strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
}
