package explain

import (
	"cmp"
	"context"
	"slices"

	"memopt"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/offload"
	"memopt/planner/place"
	"memopt/symbolic"
)

// Options select the values to explain.
type Options struct {
	// Name is the name of a value, a node or a layer, or a glob of these (graph.Graph.Find); "":
	// everything that is live at the peak.
	Name string
	// Top is the number of largest values that get fixes, which takes a plan each; 0 means all values,
	// a negative number no fixes.
	Top int
}

// Result explains the peak of a plan.
type Result struct {
	Plan     *memopt.Plan
	Name     string // the requested name; "" for all values
	Step     int    // place of the peak among the runs of a step, clones included
	Steps    int    // runs of a step
	PeakNode string // the node that runs then
	Values   []*Value
	// Elsewhere are the values that were asked for and are not live at the peak, or live throughout.
	Elsewhere []*Absent
	// Order is the fix by another order of execution; nil if it does not lower the peak, or was not
	// tried because the plan has a fixed order or is one for a budget.
	Order *Fix
	// Parts is the fix by chunked regions, and Cuts is these regions; nil if that does not lower the
	// peak, or was not tried because the plan recomputes.
	Parts *Fix
	Cuts  *planner.Cuts
	// Moving is the plan whose values may move to the host (OfMoving), and Counts its values by placement; else both
	// are nil.
	Moving *memopt.Moving
	Counts map[Placement]Count
	// Copies are those between device and host over Link; nil without copies.
	Copies *planner.Copies
	Link   offload.Link
	// OnHost are the values that are on the host at the peak, the largest first, and HostBytes the bytes there.
	OnHost    []*Hosted
	HostBytes int64
}

// Value is one row of the memory at the peak.
type Value struct {
	ID    graph.ValueID // of the original graph; NoValue for a row without a value of it
	Name  string        // clones end in _recompute; "" for a row of no value
	Bytes int64         // that it takes at the peak
	Expr  symbolic.Expr // its size as a formula; unknown if it takes only a part of that
	Kind  live.Kind
	// Placement is "" for a value that neither leaves the device nor is stashed.
	Placement Placement
	Layer     string
	Op        string // of the producer
	Producer  string // "" for inputs and weights
	// LastReader is the last node that reads the value, or a view of it, in the whole step. HeldBy is
	// the first reader at the peak or behind it, for whose sake it is live. "" means that there is no
	// such reader: Why says why it is live then.
	LastReader, HeldBy string
	Cluster            string // that could make it again, as a configuration names it; ""
	Why                string // it is live
	Again              string // why it is or is not recomputed, if known; else ""
	Fixes              []Fix  // the best first; nil if not sought

	made, next, last int // steps: that makes it, of HeldBy and of LastReader; -1
	program          graph.ValueID
	root             graph.ValueID
}

// Absent is a value that is not in the rows of the peak.
type Absent struct {
	Name, Layer  string
	Bytes        int64
	Expr         symbolic.Expr
	Why          string // it is not there
	Producer     string // "" for inputs and weights
	LastReader   string // "" without readers
	First, Until int    // its live range, both steps included; -1 if it is live throughout
}

// Sum is the bytes of all values that are live at the peak.
func (r *Result) Sum() int64 {
	var sum int64
	for _, v := range r.Values {
		sum += v.Bytes
	}
	return sum
}

// Explain explains the peak of a plan, whose context and options are those of planning. A context that
// is done leaves fixes out. The error is a *symbolic.UnboundError for unknown sizes, wraps
// planner.ErrDemand for a name without a match, or is the planner's.
func Explain(ctx context.Context, p *memopt.Plan, o Options) (*Result, error) {
	return explain(ctx, p, nil, o)
}

func explain(ctx context.Context, p *memopt.Plan, moving *memopt.Moving, o Options) (*Result, error) {
	if p.Sizes == nil {
		return nil, &symbolic.UnboundError{Symbols: p.Unbound}
	}
	e, err := newExplainer(ctx, p, moving)
	if err != nil {
		return nil, err
	}
	asked, err := e.asked(o.Name)
	if err != nil {
		return nil, err
	}
	r := &Result{Plan: p, Name: o.Name, Step: e.peak, Steps: len(e.program.Steps),
		PeakNode: p.Analysis.Graph.NodeLabel(p.Planned.Peak.Node), Moving: moving, Link: e.link()}
	away := make([]bool, len(e.g.Values)) // by home: on the host, or back from it
	for _, h := range e.onHost() {
		away[h.home] = true
		if asked == nil || asked[e.base[h.home]] {
			r.OnHost = append(r.OnHost, h)
		}
	}
	if r.Copies, err = p.Copies(timelimit.Without(ctx), r.Link); err != nil {
		return nil, err
	}
	if e.t.Host != nil {
		r.HostBytes = e.t.Host.Live[e.peak]
	}
	if moving != nil {
		r.count(moving)
	}
	shown := e.shown(asked)
	present := make([]bool, len(e.program.Bytes))
	for _, v := range e.rows() {
		if asked == nil || v.program != graph.NoValue && shown[v.program] {
			r.Values = append(r.Values, v)
		}
		if v.program != graph.NoValue {
			present[v.program] = true
			if v.ID != graph.NoValue && e.moves[e.home[v.ID]] {
				away[e.home[v.ID]] = true
			}
		}
	}
	slices.SortStableFunc(r.Values, func(x, y *Value) int { return cmp.Compare(y.Bytes, x.Bytes) })
	r.Elsewhere = e.elsewhere(asked, present, away)
	return r, e.fixes(r, o.Top)
}

// shown marks the values of the program that show a requested one, or whose views do.
func (e *explainer) shown(asked []bool) []bool {
	shown := make([]bool, len(e.program.Bytes))
	for v, id := range e.origin {
		if asked != nil && id != graph.NoValue && asked[e.base[id]] {
			shown[e.source[v]] = true
		}
	}
	return shown
}

// explainer knows a plan's execution.
type explainer struct {
	ctx     context.Context
	p       *memopt.Plan
	g       *graph.Graph
	bench   *place.Evaluator
	program *live.Program
	t       *live.Timeline
	tenants []live.Tenant
	peak    int             // step
	source  []graph.ValueID // by value of the program: the one that it shows
	made    []int32         // by value of the program: the step that makes it, or -1
	origin  []graph.ValueID // by value of the program: the value of the graph that it is or repeats
	copies  []int           // by value of the program: the number of the clone that makes it, or 0
	next    []int32         // by source: the first step at the peak or behind it that reads it; -1
	last    []int32         // by source: the last step that reads it; -1
	stash   []int           // by source: one past its first row in Plan.Stashed, or 0
	outputs []bool          // by source: it, or a view of it, is an output of the graph

	moving   *memopt.Moving  // whose graph is explained; nil for another plan
	home     []graph.ValueID // by value of the graph: the one that it is a copy of, on the host or back from it
	base     []graph.ValueID // by value of the graph: the one that it is a copy of, or that a clone makes again
	moves    []bool          // by value of the graph: it goes to the host
	again    []int           // by node of a rewritten graph: the number of the clone that it is, or 0
	repeated []bool          // by node of a rewritten graph: it has clones
}

func newExplainer(ctx context.Context, p *memopt.Plan, moving *memopt.Moving) (*explainer, error) {
	a := p.Analysis
	e := &explainer{ctx: ctx, p: p, g: a.Graph, peak: p.Planned.Peak.Step, moving: moving}
	e.bench = place.NewEvaluator(a, p.Sizes,
		place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes})
	trial, err := e.bench.Simulate(p.Placements)
	if err != nil {
		return nil, err
	}
	e.program, e.t = trial.Program.Clone(), trial.Timeline.Clone()
	roles := live.FindRoles(e.g, p.Sizes.States, a.Backward, a.Order)
	e.tenants, e.source = live.Alive(e.g, e.program, e.t, roles, a.Backward, e.peak)
	e.trace()
	e.trackCopies()
	e.reads()
	e.stash, e.outputs = make([]int, len(e.program.Bytes)), make([]bool, len(e.program.Bytes))
	for i, st := range p.Stashed {
		if src := e.source[st.Value]; e.stash[src] == 0 {
			e.stash[src] = i + 1
		}
	}
	for _, v := range e.program.Outputs {
		e.outputs[e.source[v]] = true
	}
	return e, nil
}

// trace finds out where the values of the program come from.
func (e *explainer) trace() {
	n := len(e.program.Bytes)
	e.made, e.origin, e.copies = make([]int32, n), make([]graph.ValueID, n), make([]int, n)
	for v := range e.origin {
		e.made[v], e.origin[v] = -1, graph.NoValue
		if v < len(e.g.Values) {
			e.origin[v] = graph.ValueID(v)
		}
	}
	runs := make([]int, len(e.g.Nodes))
	for i := range e.program.Steps {
		s := &e.program.Steps[i]
		outputs := e.g.Nodes[s.Node].Outputs
		for slot, v := range s.Out {
			if v == graph.NoValue {
				continue
			}
			e.made[v] = int32(i)
			if slot < len(outputs) && outputs[slot] != graph.NoValue {
				e.origin[v], e.copies[v] = outputs[slot], runs[s.Node]
			}
		}
		runs[s.Node]++
	}
}

// reads finds the readers of values, or of views of them.
func (e *explainer) reads() {
	n := len(e.program.Bytes)
	e.next, e.last = make([]int32, n), make([]int32, n)
	for v := range e.next {
		e.next[v], e.last[v] = -1, -1
	}
	for i := range e.program.Steps {
		s := &e.program.Steps[i]
		for _, v := range s.In {
			if v == graph.NoValue || s.Output0() != graph.NoValue && e.source[s.Output0()] == e.source[v] {
				continue // a view does not read its bytes
			}
			src := e.source[v]
			if e.last[src] = int32(i); i >= e.peak && e.next[src] < 0 {
				e.next[src] = int32(i)
			}
		}
	}
}

// label is the name of the node that a step runs; "" without a node.
func (e *explainer) label(step int32) string {
	if step < 0 {
		return ""
	}
	return e.g.NodeLabel(e.program.Steps[step].Node)
}

// asked marks the requested values; nil means all.
func (e *explainer) asked(name string) ([]bool, error) {
	if name == "" {
		return nil, nil
	}
	found, _, err := planner.FindValues(e.g, name)
	if err != nil {
		return nil, &memopt.Error{Fault: memopt.OfCaller, Err: err}
	}
	asked := make([]bool, len(e.g.Values))
	for _, v := range found {
		asked[v] = true
	}
	return asked, nil
}
