package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/graph/ortsim"
	"memopt/planner/anchor"
	"memopt/planner/arena"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

// Options of Make. The zero value plans level 0 without a configuration: it lists what
// could be recomputed and changes nothing.
type Options struct {
	Level   Level
	Config  []ConfigEntry    // what level 0 recomputes
	Probe   *recompute.Probe // nil: the level's own
	Order   OrderChoice      // "": OrderAuto
	Dims    symbolic.Env     // bindings of symbols; extra ones do no harm
	Profile *Profile         // nil: DefaultProfile
	// Costs are measured seconds of one execution by node; NaN and negative ones, like
	// all where it is nil, come from the profile.
	Costs      []float64
	CostSource string // where Costs come from, as reports say it: "measured:trace.json"
	// Placements of a plan file stand in for level and configuration.
	Placements []recompute.Placement
	// FixedOrder is the order that the plan file assumes; it stands in for Order.
	FixedOrder graph.Order
	// RowPeaks says that every cluster's row should say how much it alone lowers the
	// peak, which takes one simulation per cluster or more.
	RowPeaks bool
	// Budget is what the plan must fit at the least cost; nil: level, configuration or
	// placements decide.
	Budget *Budget
	// Workspace is the bytes that a device's kernels need besides their operands, by node; nil:
	// none. They count in peaks and in the arena.
	Workspace []int64
	// Aliased says of a runtime that writes nothing in place which nodes' outputs lie in their
	// first inputs, by node; nil: memory is shared as the op table says.
	Aliased []bool
	// CloneBytes is memory that every node that runs again takes throughout, besides its outputs.
	CloneBytes int64
	began      time.Time // when Make was called
	// SkipLayout leaves Plan.Arena out, for plans of which only the live peak is wanted.
	SkipLayout bool
}

// Plan is what to recompute in a training graph and what it is worth.
type Plan struct {
	Model     *graph.Model
	Types     *op.Result
	Analysis  *recompute.Analysis
	Options   Options
	Rewritten bool // the graph has been rewritten by memopt before

	Clusters   []ClusterRow // as ONNX Runtime sorts its rows
	Stashed    []StashRow
	Placements []recompute.Placement

	Unbound   []string // symbols without a binding; then there are no bytes
	unbound   *symbolic.UnboundError
	Sizes     *live.Sizes
	Base      *live.Timeline // the graph as it is
	Planned   *live.Timeline // the graph as it would be rewritten
	bench     *place.Bench
	latest    tried           // by evaluate
	ctx       context.Context // of Make: ends the search for layouts, and what a plan is shown beside
	nodeCosts *nodeCosts      // nil until it is asked for
	budgeter  *budgeter       // of a plan to a budget, for explanations
	baseArena *arena.Layout   // of Base; nil until it is asked for
	packed    *arena.Layout   // of the selection that is adopted next, where it is known

	Persistent int64         // bytes of inputs and weights
	Arena      *arena.Layout // of Planned
	Step       Cost          // one execution of the graph as it is
	Recompute  Cost          // what is executed on top
	Overhead   float64       // Recompute.Seconds / Step.Seconds

	Solver string // that found the plan to a budget
	// Stopped says that the budget's time limit ended the search for it.
	Stopped bool
	Bound   *Bound // of its cost; nil without a budget
	// Runtime is what the plan's file comes to in stock ONNX Runtime; nil unless the budget was for
	// that.
	Runtime *anchor.Anchoring
	Next    *NextStep // what less would cost; nil without a budget and where nothing less was found

	Warnings []string
}

// Make is MakeContext without a limit to the time of a search.
func Make(m *graph.Model, types *op.Result, opts Options) (*Plan, error) {
	return MakeContext(context.Background(), m, types, opts)
}

// MakeContext plans a model whose types are inferred. A context that is done ends the search for a
// plan to a budget with the best plan so far. The error is live.ErrNoBoundary for a model without a
// backward half, an *UnfitError where nothing fits the budget, or says what contradicts what.
func MakeContext(ctx context.Context, m *graph.Model, types *op.Result, opts Options) (*Plan, error) {
	if !opts.Level.Valid() {
		return nil, fmt.Errorf("level %d: wanted 0, 1 or 2", int(opts.Level))
	}
	if n := len(m.Graph.Nodes); opts.Costs != nil && len(opts.Costs) != n {
		return nil, fmt.Errorf("%d measured costs for %d nodes: wanted one for each", len(opts.Costs), n)
	}
	opts.began = time.Now()
	b, err := live.FindBoundary(m)
	if err != nil {
		return nil, err
	}
	if opts.FixedOrder == nil && opts.Order == OrderMemory {
		return makeForMemory(ctx, m, types, b, opts)
	}
	order := opts.FixedOrder
	if order == nil {
		if order, err = chooseOrder(m, b, opts.Order); err != nil {
			return nil, err
		}
	}
	return makeIn(ctx, m, types, b, order, opts)
}

// makeIn plans a model in an order.
func makeIn(ctx context.Context, m *graph.Model, types *op.Result, b live.Boundary, order graph.Order, opts Options) (*Plan, error) {
	_, rewritten := m.Meta(recompute.Key)
	probe := opts.Level.DefaultProbe()
	if opts.Probe != nil {
		probe = *opts.Probe
	}
	p := &Plan{Model: m, Types: types, Options: opts, Rewritten: rewritten, Analysis: recompute.Find(m, b, order, probe), ctx: ctx}
	p.Warnings = append(p.Warnings, p.Analysis.Warnings...)
	if err := p.measure(); err != nil {
		return nil, err
	}
	sel, err := p.choose(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.fillRows(sel); err != nil {
		return nil, err
	}
	p.warn(sel)
	return p, nil
}

// chooseOrder returns the order that a choice other than OrderMemory means.
func chooseOrder(m *graph.Model, b live.Boundary, choice OrderChoice) (graph.Order, error) {
	if choice == "" || choice == OrderAuto {
		choice = OrderFile
		if _, rewritten := m.Meta(recompute.Key); b.Kind == live.YieldBoundary && !rewritten {
			choice = OrderORT
		}
	}
	switch choice {
	case OrderFile:
		return graph.Topological(m.Graph)
	case OrderORT:
		yield := graph.NoNode
		if b.Kind == live.YieldBoundary {
			yield = b.Node
		}
		return ortsim.MemoryEfficientOrder(m.Graph, yield), nil
	}
	return nil, fmt.Errorf("order %q: wanted one of %v", choice, OrderChoices)
}

// needSizes returns a *symbolic.UnboundError that lists the symbols without a binding, if there are
// any.
func (p *Plan) needSizes() error {
	if p.Sizes == nil {
		return p.unbound
	}
	return nil
}

// measure evaluates sizes and simulates the graph as it is. Without bindings
// for all symbols it leaves bytes out.
func (p *Plan) measure() error {
	g := p.Analysis.Graph
	sizes, err := live.EvalSizes(g, p.Options.Dims)
	var unbound *symbolic.UnboundError
	memory := place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes}
	if errors.As(err, &unbound) {
		p.bench = place.NewBench(p.Analysis, nil, memory)
		p.Unbound, p.unbound = unbound.Symbols, unbound
		return nil
	}
	if err != nil {
		return err
	}
	if p.Options.Aliased != nil {
		sizes.Alias(g, p.Options.Aliased)
	}
	p.Sizes = sizes
	if p.Persistent, err = live.PersistentBytes(g, sizes); err != nil {
		return err
	}
	p.bench = place.NewBench(p.Analysis, sizes, memory)
	p.Base, err = p.bench.AsIs().Simulate()
	return err
}

// choose selects candidates, places them and simulates the outcome.
func (p *Plan) choose(ctx context.Context) (*selection, error) {
	a := p.Analysis
	var sel *selection
	switch {
	case p.Options.Budget != nil:
		return p.fitBudget(ctx)
	case p.Options.Placements != nil:
		return p.usePlacements()
	case p.Options.Level == UserSpecified:
		var warnings []string
		sel, warnings = selectConfig(a, p.Options.Config)
		p.Warnings = append(p.Warnings, warnings...)
	default:
		var err error
		if sel, err = p.levelSelection(); err != nil {
			return nil, err
		}
	}
	return sel, p.use(sel)
}

// use makes a selection the plan.
func (p *Plan) use(sel *selection) error {
	e, err := p.evaluate(sel)
	if err == nil {
		p.adopt(e)
	}
	return err
}

// evaluate tries a selection, unless it is the one that the bench has tried last. The outcome is
// good until the bench's next trial.
func (p *Plan) evaluate(sel *selection) (*place.Trial, error) {
	if l := &p.latest; l.sel == sel && l.steps == p.bench.Steps() {
		return l.trial, nil
	}
	p.latest = tried{} // its memory is free for the next one
	trial, err := p.bench.Candidates(sel.chosen)
	if err == nil {
		p.latest = tried{sel, trial, p.bench.Steps()}
	}
	return trial, err
}

// tried is a selection and what came of it.
type tried struct {
	sel   *selection
	trial *place.Trial
	steps int // that the bench had simulated when it was done
}

// usePlacements takes over the placements of a plan file, which people may have edited.
func (p *Plan) usePlacements() (*selection, error) {
	a := p.Analysis
	placements, err := recompute.Arrange(a.Graph, a.Order, a.Backward, p.Options.Placements)
	if err != nil {
		return nil, err
	}
	return p.takePlacements(placements)
}

// adopt makes what was tried last the plan.
func (p *Plan) adopt(t *place.Trial) {
	t.Explain()
	p.Placements, p.latest = t.Placements, tried{}
	var again []graph.NodeID
	for _, pl := range t.Placements {
		again = append(again, pl.Nodes...)
	}
	p.Recompute.Nodes = len(again)
	if p.Sizes == nil {
		return
	}
	p.Planned = t.Timeline.Clone()
	if p.Arena, p.packed = p.packed, nil; p.Arena == nil && !p.Options.SkipLayout {
		p.Arena = t.Layout(p.ctx)
	}
	costs := p.costs()
	p.Step, p.Recompute = costs.of(p.Analysis.Order), costs.of(again)
	if p.Step.Seconds > 0 {
		p.Overhead = p.Recompute.Seconds / p.Step.Seconds
	}
}

// warn adds what the user should know before trusting the plan.
func (p *Plan) warn(sel *selection) {
	if p.Rewritten {
		p.Warnings = append(p.Warnings, "this graph has been rewritten by memopt already: its clones count as backward nodes, and the plan is on top of what was done")
	}
	p.warnUnknown()
	p.warnUnmeasured()
	if p.Planned == nil {
		return
	}
	if len(sel.chosen) > 0 && p.Planned.Peak.Bytes >= p.Base.Peak.Bytes {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the selection does not lower the peak: %d bytes before, %d after; recomputing for it is wasted time", p.Base.Peak.Bytes, p.Planned.Peak.Bytes))
	}
	if n := p.innerPeak(); n > 0 && p.Options.Budget != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the budget is that of the arena: what runs inside subgraphs takes up to %d bytes beside it", n))
	}
	if n := len(p.Base.Unsized); n > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d values have a size that depends on data or is unknown and count as 0 bytes, the first being %q", n, p.Analysis.Graph.Values[p.Base.Unsized[0]].Name))
	}
}

// warnUnknown names the operators that memopt does not know.
func (p *Plan) warnUnknown() {
	names := map[string]bool{}
	for _, id := range p.Types.NoRow {
		n := p.Analysis.Graph.Nodes[id]
		names[cmp.Or(n.Domain, "ai.onnx")+"."+n.Op] = true
	}
	if len(names) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d nodes have operators that memopt does not know; their outputs have the types that the file states and are never recomputed: %s",
			len(p.Types.NoRow), strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
	}
}
