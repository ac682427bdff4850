package planner

import (
	"context"
	"math"
	"slices"
	"sync"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/timelimit"
	"memopt/planner/anchor"
	"memopt/planner/budget"
	"memopt/planner/cluster"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Types of plans to budgets, for callers that need no more of package budget.
type (
	StashLimit      = budget.StashLimit
	Lent            = budget.Lent
	Bound           = budget.Bound
	Lower           = budget.Lower
	Alternative     = budget.Alternative
	AlternativeKind = budget.AlternativeKind
	ParetoPoint     = budget.ParetoPoint
	InfeasibleError = budget.InfeasibleError
	// SearchProgress is the state of a search so far.
	SearchProgress = budget.Progress
)

// The kinds of alternatives.
const (
	EveryLayer  = budget.EveryLayer
	FewLayers   = budget.FewLayers
	LayerLevel1 = budget.LayerLevel1
	ToShare     = budget.ToShare
)

// Errors of plans to budgets.
var (
	ErrInfeasible = budget.ErrInfeasible
	ErrStashLimit = budget.ErrStashLimit
)

// Budget is the strategy that keeps within a limit at the least cost. Total, Share and Arena
// exclude each other; without any there must be StashLimits.
type Budget struct {
	Total       int64        // bytes of inputs, weights and the arena together; 0 for no such limit
	Share       float64      // of the baseline peak: bounds the bytes of the arena; 0 for no such limit
	Arena       int64        // bytes of the arena; 0 for no such limit
	Lent        Lent         // further bytes, of values that move elsewhere later; not with Clusters or Runtime
	StashLimits []StashLimit // limits of the bytes that parts of the graph stash
	// Clusters restricts the choice to plans that a configuration of ONNX Runtime can express.
	Clusters bool
	// Runtime makes the budget one for the simulated arena of stock ONNX Runtime at default settings,
	// with the anchors that the plan's file would have; a share then refers to that arena for the
	// unchanged graph. It excludes Clusters.
	Runtime bool
	// ORTModule says that the runtime is ORTModule's session: Clusters are those of its own memory optimizer, with
	// the order and the memory that they have there; other plans are the file, without anchors and in its own order,
	// in the place of the graph. A share refers to the unchanged graph's peak there.
	ORTModule bool
	// Solver is "auto" or "", "greedy" (the first plan that fits) or "lns" (without dynamic
	// programming).
	Solver string
	Seed   int64 // of random choices
	// Effort is how many seconds the search should take on a typical core: its work is counted, so
	// that the plan does not depend on the machine. 0 asks for the first plan that fits. The time is
	// limited by the deadline of the context of Make alone.
	Effort float64
	// at, first and brief are At, First and Brief of budget.Options.
	at, brief bool
	first     int64
	// Found, if not nil, is called when the search has a plan that fits; from then on, ending the
	// search still yields a plan.
	Found func()
	// Progress, if not nil, is called whenever a search among nodes has tried another plan.
	Progress func(SearchProgress)
}

// bytes is the most that an arena may take besides persistent bytes; a share is of base, the bytes
// or the peak of the arena of the unchanged graph.
func (b Budget) bytes(persistent, base int64) int64 {
	switch {
	case b.Total > 0:
		return b.Total - persistent
	case b.Share > 0:
		return int64(b.Share * float64(base))
	case b.Arena > 0:
		return b.Arena
	}
	return math.MaxInt64
}

// options are the options for package budget.
func (b Budget) options(persistent, peak int64) *budget.Options {
	o := &budget.Options{Bytes: b.bytes(persistent, peak), Lent: b.Lent, StashLimits: b.StashLimits, Solver: b.Solver,
		Seed: b.Seed, Effort: b.Effort, Found: b.Found,
		Progress: b.Progress, At: b.at, First: b.first, Brief: b.brief}
	if b.Total > 0 {
		o.Persistent = persistent
	}
	return o
}

func (Budget) enables() bool           { return true }
func (Budget) probe() recompute.Probe  { return UserSpecified.DefaultProbe() }
func (Budget) fixedOrder() graph.Order { return nil }

// choose looks for the cheapest plan within the budget. The error is an *InfeasibleError if no plan was
// found.
func (b Budget) choose(ctx context.Context, m *maker) (*choice, error) {
	if err := m.needSizes(); err != nil {
		return nil, err
	}
	opts := b.options(m.persistent, m.basePeak())
	if b.Clusters && b.ORTModule {
		return m.fitClustersInORTModule(ctx, b, opts)
	}
	if b.Clusters && !b.Runtime {
		return m.fitClusters(ctx, opts, cluster.Work(len(m.analysis.Order)))
	}
	problem := &budget.Problem{Evaluator: m.evaluator, Base: m.base, Seconds: m.costs.seconds,
		Checkpoints: m.checkpointed}
	m.demands.apply(problem)
	var a *budget.Answer
	var err error
	if b.Runtime {
		anchoring, limit := newAnchoring(m.analysis, m.sizes, &m.opts), ctx
		if b.Effort <= 0 && timelimit.Ended(ctx) {
			var done context.CancelFunc
			ctx, done = quickly(ctx, quickTime)
			defer done()
		}
		a, err = budget.FitRuntime(ctx, problem, opts, &budget.Runtime{
			Anchor: func(list []recompute.Placement) (*anchor.Anchoring, error) {
				if b.ORTModule {
					return m.judgedInORTModule(list)
				}
				return anchoring.choose(limit, list)
			},
			Starts:  m.runtimeStarts(b),
			Session: b.ORTModule,
			Limit:   func(base int64) int64 { return b.bytes(m.persistent, m.runtimeBase(base)) },
			Object:  b.runtimeObject(),
		})
		m.comparedWithWhole(a)
	} else {
		a, err = budget.Fit(ctx, problem, opts)
	}
	if err != nil {
		return nil, err
	}
	c, err := m.place(a.Placements)
	if err != nil {
		return nil, err
	}
	c.layout, c.solver, c.stopped, c.answer = a.Layout, a.Method, a.Stopped, a
	return c, nil
}

// runtimeStarts are lists of candidates of plans to start the search from: in ORTModule those of level 1, whose plan is
// at hand there, and low where layers are alike, and those of each cluster.
func (m *maker) runtimeStarts(b Budget) [][]int {
	if !b.ORTModule {
		return nil
	}
	level := m.selectLevel(false).chosen
	starts := [][]int{level}
	for i := range m.analysis.Clusters {
		of := func(c int) bool { return m.analysis.Candidates[c].Cluster != i }
		starts = append(starts, slices.DeleteFunc(slices.Clone(level), of))
	}
	return slices.DeleteFunc(starts, func(s []int) bool { return len(s) == 0 })
}

// runtimeObject names the object of a search with Runtime.
func (b Budget) runtimeObject() string {
	if b.ORTModule {
		return "plan for ORTModule"
	}
	return "plan for stock ONNX Runtime"
}

// basePeak is the bytes that a budget's share refers to, for a plan of the unchanged graph.
func (p *Plan) basePeak(b *Budget) int64 {
	if b.Runtime {
		return p.inRuntime().Arena
	}
	return p.Base.Peak.Bytes
}

// simulateOnce returns a function that simulates the unchanged graph in stock ONNX Runtime on its first
// call: many plans of chunked variants ask for it.
func simulateOnce(m *graph.Model, dims symbolic.Env, sizes *live.Sizes) func() ortsim.Peaks {
	return sync.OnceValue(func() ortsim.Peaks { return anchor.AsIs(m.Graph, ortsim.NewFacts(m, dims), sizes) })
}

// runtimeBase is the arena of the original graph in stock ONNX Runtime, given that of the chunked
// graph.
func (m *maker) runtimeBase(inParts int64) int64 {
	if m.whole == nil {
		return inParts
	}
	return m.whole.inRuntime().Arena
}

// comparedWithWhole compares an answer with the original graph.
func (m *maker) comparedWithWhole(a *budget.Answer) {
	if m.whole == nil || a == nil || a.Runtime == nil {
		return
	}
	base := m.whole.inRuntime()
	a.Runtime.Base, a.Runtime.BaseArena = base.Live, base.Arena
}

// RuntimeBudget returns the bytes that the plan's budget leaves the arena of stock ONNX Runtime, or the step in
// ORTModule where the plan's memory there is known, and whether its file stays within them; 0 and true where no
// budget was asked for that bounds an arena, or the runtime was not simulated.
func (p *Plan) RuntimeBudget(a *anchor.Anchoring) (limit int64, fits bool) {
	b := p.Options.Limit()
	if b == nil || b.Total == 0 && b.Share == 0 && b.Arena == 0 || a == nil || !a.Simulated {
		return 0, true
	}
	if s := p.Session; s != nil {
		limit = b.bytes(p.Persistent, s.Base)
		return limit, s.Planned <= limit
	}
	limit = b.bytes(p.Persistent, a.BaseArena)
	return limit, a.AnchoredArena <= limit
}
