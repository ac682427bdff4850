package planner

import (
	"context"
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/anchor"
	"memopt/planner/arena"
	"memopt/planner/chunk"
	"memopt/planner/device"
	"memopt/planner/place"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Options of Make. The zero value lists possible recomputations and changes no node.
type Options struct {
	Strategy Strategy         // chooses the recomputed values; nil means that no value is recomputed
	Probe    *recompute.Probe // nil means the strategy's own
	Order    OrderChoice      // "": OrderAuto
	Dims     symbolic.Env     // bindings of symbols; others are ignored
	Profile  *device.Profile  // nil means device.Default
	// Costs are measured seconds of one execution by node; NaN and negative ones, like
	// all where it is nil, come from the profile.
	Costs      []float64
	CostSource string // where Costs come from, as reports say it: "measured:trace.json"
	// RowPeaks asks for every cluster's row to say how much it alone lowers the peak, which takes
	// at least one simulation per cluster.
	RowPeaks bool
	// Alternatives asks for checkpoints of whole layers to compare a plan for a budget with.
	Alternatives bool
	// Workspace is the bytes that a device's kernels need besides their operands, by node; nil means
	// no workspaces. They count in peaks and in the arena.
	Workspace []int64
	// Aliased marks the nodes whose outputs lie in their first inputs in a runtime that writes no
	// output in place, by node; nil means that memory is shared as the op table says.
	Aliased []bool
	// CloneBytes is memory that every recomputed node takes throughout, besides its outputs.
	CloneBytes int64
	// Within is a budget that the plan of another strategy is compared with: Plan.Fit has the result.
	// Nil means no comparison. StashLimits and the fields about the search do not count; Make fails
	// with a *symbolic.UnboundError if sizes are unknown.
	Within *Budget
	// Keep are names or globs of values, nodes or layers (graph.Graph.Find) that are never recomputed,
	// and Recompute those whose stashed activations are recomputed before the first backward node that
	// needs them; either may be a list with commas, such as "h.*.attn,logits". Every strategy obeys:
	// its own choices are among the rest. A name without a match, a value that is in both, and a value
	// that cannot be recomputed are errors that wrap ErrDemand; a glob need only match some value that
	// can be recomputed.
	Keep, Recompute []string
	// Ranges asks for formulas of the peak where symbols are unbound, over these ranges, and
	// AssumedRange for symbols without one (Plan.Formulas); nil does not.
	Ranges map[string]symbolic.Range
	// CheckSeed seeds the random bindings at which formulas are compared with simulations.
	CheckSeed int64
	// SkipLayout leaves Plan.Arena out unless the strategy needs it, for callers that read only the
	// live peak.
	SkipLayout bool
	// Chunk is the mode in which a plan for a Budget of bytes may compute regions of the graph in
	// chunks, if that costs less than recomputation alone; "" forbids it. Budgets of Clusters and with
	// StashLimits are never chunked; plans of other strategies only by a PlanFile's own cuts.
	Chunk chunk.Mode
	// ORTModule asks for the plan's memory in ORTModule (Plan.Session) for a graph with a YieldOp. A Level is then
	// the graph that ORTModule's own optimizer makes, whether its peak falls by that or not.
	ORTModule bool
	// Written says that the plan is for a file with anchors, which ORTModule gets in the place of its graph: its own
	// optimizer is off then, whatever the strategy.
	Written bool
	// Origin has, for a graph that has been rewritten, the node of the original graph that each node runs, by node:
	// of those with one origin, all but the first are clones. NoNode is for nodes that copy values to the host or
	// back. Reports read it; nil means that no node is known to be a clone.
	Origin []graph.NodeID
	// WorkspaceOf returns the Workspace of a chunked graph; nil means that a part has that of the
	// whole node.
	WorkspaceOf func(ctx context.Context, m *graph.Model, types *op.Result) ([]int64, error)
}

// strategy is the strategy in effect.
func (o *Options) strategy() Strategy {
	if o.Strategy == nil {
		return Config(nil)
	}
	return o.Strategy
}

// Level is the strategy's level; UserSpecified if the strategy is not a level.
func (o *Options) Level() Level {
	l, _ := o.Strategy.(Level)
	return l
}

// Budget is the strategy's budget; nil if the strategy is not a budget.
func (o *Options) Budget() *Budget {
	switch b := o.Strategy.(type) {
	case Budget:
		return &b
	case *Budget:
		return b
	}
	return nil
}

// Limit is the budget that the plan has to keep: the strategy's, or Within; nil without a budget.
func (o *Options) Limit() *Budget {
	if b := o.Budget(); b != nil {
		return b
	}
	return o.Within
}

// Enabled reports whether the options ask for anything to be recomputed.
func (o *Options) Enabled() bool { return enables(o.strategy()) || len(o.Recompute) > 0 }

// Plan is the recomputations of a training graph, and their memory and cost. It is complete when Make
// returns it, and is immutable then.
type Plan struct {
	Model     *graph.Model
	Types     *op.Result
	Analysis  *recompute.Analysis
	Options   Options
	Rewritten bool // the graph has been rewritten by memopt before

	// Fission are the chunked regions of the plan. Then Model is the chunked graph, all fields below
	// refer to it, Options has its per-node lists for its nodes, and Whole is the plan of the original
	// graph, without changes. Nil means that no region is chunked.
	Fission []chunk.Cut
	Whole   *Plan

	Clusters   []ClusterRow // as ONNX Runtime sorts its rows
	Stashed    []StashRow
	Placements []recompute.Placement

	// If symbols are unbound, only Recompute.Nodes is known among the fields up to Overhead.
	Unbound    []string  // symbols without a binding; then there are no bytes
	Span       *Span     // the sizes that the plan is for; nil means those of Options.Dims alone
	Formulas   *Formulas // of the peak where symbols are unbound, if Options asks for them
	Sizes      *live.Sizes
	Base       *live.Timeline // the unchanged Model; Baseline has that of the original graph
	Planned    *live.Timeline // the graph as it would be rewritten
	Persistent int64          // bytes of inputs and weights
	Arena      *arena.Layout  // of Planned; nil with Options.SkipLayout
	// Before and After are the memory of Base and of Planned by kind; nil with Options.SkipLayout.
	Before, After *live.Composition
	Step          Cost // one execution of the unchanged Model
	Recompute     Cost // the added executions
	// Overhead is the time that Step and Recompute take together beyond a step of Baseline, as a share
	// of that.
	Overhead float64

	// Fit compares the plan with its budget, or with Options.Within; nil without a budget of bytes,
	// and with Options.SkipLayout.
	Fit *Fit

	Solver  string // name of the solver of the placements, as in records
	Stopped bool   // the budget's time limit ended the search for the plan
	// The rest is nil without a budget, and for one of clusters.
	Bound *Bound // of the plan's cost
	Lower *Lower // the cheapest plan found with less memory; nil if no such plan was found
	// Runtime is the memory of the plan's file in stock ONNX Runtime; nil unless the budget was for
	// that.
	Runtime *anchor.Anchoring
	// Alternatives are plans to compare this one with; nil if Options does not ask for them, if no
	// layers are found, or if the context of Make is done, since the plan should then be shown at
	// once.
	Alternatives []Alternative

	// Session is the memory in ORTModule; nil unless Options asks for it, without sizes, and without a YieldOp.
	Session *Session

	Warnings []string

	selected []int          // candidates that ORTModule's own optimizer recomputes; nil for a graph of memopt's
	applied  *chunk.Applied // how Model was made; nil without chunked regions
	waits    float64        // that a step with moves is expected to take beside Overhead, as a share
	floor    int64          // lower bound of every chunking; 0 without chunked regions
	least    []graph.Order  // the orders that OrderMemory compares; nil with another one
	costs    *nodeCosts     // nil without sizes
	demands  *demands       // nil without demands
	// inRuntime is the memory of the unchanged Model in stock ONNX Runtime; nil without sizes.
	inRuntime func() ortsim.Peaks
}

// Baseline is the plan that this one is compared with, of the original graph: Whole for a chunked
// plan, else the plan itself, whose Base, Before and Step are of the unchanged graph.
func (p *Plan) Baseline() *Plan {
	if p.Whole != nil {
		return p.Whole
	}
	return p
}

// Make is MakeContext without a limit to the time of a search.
func Make(m *graph.Model, types *op.Result, opts Options) (*Plan, error) {
	return MakeContext(context.Background(), m, types, opts)
}

// MakeContext plans a model whose types are inferred. A context that is done ends the search for a
// budget with the best plan so far. The error is live.ErrNoBoundary for a model without a backward
// half, an *InfeasibleError for an infeasible budget, or names a contradiction.
func MakeContext(ctx context.Context, m *graph.Model, types *op.Result, opts Options) (*Plan, error) {
	if n := len(m.Graph.Nodes); opts.Costs != nil && len(opts.Costs) != n {
		return nil, fmt.Errorf("%d measured costs for %d nodes: wanted one for each",
			len(opts.Costs), n)
	}
	r, err := newRequest(m, types, opts)
	if err != nil {
		return nil, err
	}
	return r.made(ctx)
}

// Again plans the graph of Baseline with other options. They may differ in the strategy and in the
// reports beside the plan; orders of least memory are those that this plan has found.
func (p *Plan) Again(ctx context.Context, opts Options) (*Plan, error) {
	of := p.Baseline()
	r, err := newRequest(of.Model, of.Types, opts)
	if err != nil {
		return nil, err
	}
	r.least = of.least
	return r.made(ctx)
}

// made makes the plan.
func (r *request) made(ctx context.Context) (*Plan, error) {
	if f, ok := r.opts.Strategy.(*PlanFile); ok && f.Cuts != nil {
		return r.ofFile(ctx, f)
	}
	return r.planned(ctx)
}

// plan makes the plan of the request's graph in the order that is asked for.
func (r *request) plan(ctx context.Context) (*Plan, error) {
	if o := fixedOrder(r.opts.strategy()); o != nil {
		return r.in(ctx, o)
	}
	if r.opts.Order == OrderMemory {
		return r.inLeast(ctx)
	}
	o, err := r.order()
	if err != nil {
		return nil, err
	}
	if b := r.opts.Budget(); b != nil && b.ORTModule && b.Runtime && r.automatic() {
		return r.inSession(ctx, o)
	}
	return r.in(ctx, o)
}

// automatic reports whether the order is for memopt to choose.
func (r *request) automatic() bool { return r.opts.Order == "" || r.opts.Order == OrderAuto }

// order is the order that Options.Order means, which is not OrderMemory.
func (r *request) order() (graph.Order, error) {
	o, err := chooseOrder(r.model, r.boundary, r.opts.Order)
	if err == nil && r.automatic() {
		o, err = r.writingLate(o)
	}
	return o, err
}

// compose fills in the memory of a plan by kind, before and after.
func (m *maker) compose(p *Plan, trial *place.Trial) {
	a := m.analysis
	roles := live.FindRoles(a.Graph, m.sizes.States, a.Backward, a.Order)
	always := live.PersistentParts(a.Graph, m.sizes, roles)
	p.Before = live.Compose(a.Graph, m.evaluator.AsIs(), m.base, roles, a.Backward, always)
	p.After = live.Compose(a.Graph, trial.Program, trial.Timeline, roles, a.Backward, always)
}

// AtPeak returns the memory at the plan's peak by kind, and the unused bytes of the arena at that
// step (gaps), because values cannot always be packed without gaps. Their sum is inputs, weights and
// the arena, with the space for subgraphs. It returns nil for a plan without sizes or without a
// layout.
func (p *Plan) AtPeak() (parts *live.Parts, gaps int64) {
	if p.Arena == nil || p.After == nil {
		return nil, 0
	}
	at := p.After.Peak.Parts
	return &at, p.Persistent + p.Arena.Bytes - at.Sum()
}

// Run is one execution of a node in a plan.
type Run struct {
	Node  graph.NodeID
	Again bool // the node has run before: this run is its clone's
}

// Sequence lists all executions of a step in the plan's order: every node once, and the clones
// right before the backward node that they are for.
func (p *Plan) Sequence() []Run {
	runs := make([]Run, 0, len(p.Analysis.Order)+p.Recompute.Nodes)
	placements := p.Placements
	for _, id := range p.Analysis.Order {
		for ; len(placements) > 0 && placements[0].Before == id; placements = placements[1:] {
			for _, again := range placements[0].Nodes {
				runs = append(runs, Run{again, true})
			}
		}
		runs = append(runs, Run{id, false})
	}
	return runs
}
