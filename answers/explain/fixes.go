package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/hint"
	"memopt/planner"
)

// The kinds of fixes.
const (
	Recompute = "recompute" // recompute the value
	Reorder   = "order"     // run the nodes in another order
	Parts     = "parts"     // compute regions of the graph in chunks
	Offload   = "offload"   // move the value to the host and back, which plans to a budget may do
)

// maxFixes is how many fixes of a value are kept.
const maxFixes = 4

// Fix is a change that was tried, and its effect.
type Fix struct {
	What   string // Recompute, Reorder, Parts or Offload
	How    string // the options to set, or an instruction
	Saves  int64  // bytes that the peak drops by; 0 or less if it does not
	Millis float64
	// Peak is the peak that is left, at the node PeakNode.
	Peak     int64
	PeakNode string
	Hint     bool // no selection does that for the value alone
}

// fixes finds fixes for the largest values.
func (e *explainer) fixes(r *Result, top int) error {
	if top < 0 {
		return nil
	}
	var err error
	if !e.moved() {
		if r.Order, err = e.reorder(); err != nil {
			return err
		}
		if r.Parts, r.Cuts, err = e.inParts(); err != nil {
			return err
		}
	}
	cut := e.nodesOf(r.Cuts)
	for i, v := range r.Values {
		if top > 0 && i >= top || e.ctx.Err() != nil {
			break
		}
		if err := e.fixesOf(v, r, cut); err != nil {
			return err
		}
	}
	return nil
}

// fixesOf tries the fixes of one value. cut marks the nodes of the regions of r.Cuts.
func (e *explainer) fixesOf(v *Value, r *Result, cut []bool) error {
	if v.ID == graph.NoValue || v.Kind == live.Unfilled || v.Kind == live.Workspace {
		return nil
	}
	var f *Fix
	var err error
	if !e.moved() {
		if f, err = e.recompute(v); err != nil {
			return err
		}
	}
	if f != nil {
		v.Fixes = append(v.Fixes, *f)
	}
	if r.Order != nil {
		v.Fixes = append(v.Fixes, *r.Order)
	}
	if e.inside(v, cut) {
		v.Fixes = append(v.Fixes, *r.Parts)
	}
	if f, err = e.offload(v); err != nil {
		return err
	}
	if f != nil {
		v.Fixes = append(v.Fixes, *f)
	}
	slices.SortStableFunc(v.Fixes, func(x, y Fix) int { return cmp.Compare(y.rate(), x.rate()) })
	v.Fixes = v.Fixes[:min(len(v.Fixes), maxFixes)]
	return nil
}

// moved reports whether the plan moves values: then the graph with its copies is no file that options are set for.
func (e *explainer) moved() bool { return e.moving != nil && len(e.moving.Moves) > 0 }

// leastMillis stands for no time in ratios.
const leastMillis = 1e-6

// rate is the bytes that a fix saves per millisecond.
func (f *Fix) rate() float64 { return float64(f.Saves) / max(f.Millis, leastMillis) }

// fix compares another plan with the plan.
func (e *explainer) fix(what, how string, q *planner.Plan) *Fix {
	return &Fix{What: what, How: how, Saves: e.t.Peak.Bytes - q.Planned.Peak.Bytes,
		Millis: (q.Recompute.Seconds - e.p.Recompute.Seconds) * 1e3, Peak: q.Planned.Peak.Bytes,
		PeakNode: e.g.NodeLabel(q.Planned.Peak.Node)}
}

// options are those of the plan, for another plan whose peak alone is read.
func (e *explainer) options() planner.Options {
	o := e.p.Options
	o.RowPeaks, o.Alternatives, o.Within = false, false, nil
	// A level chooses by the arena, too; everything else by live bytes.
	o.SkipLayout = o.Level() == planner.UserSpecified
	return o
}

// recompute plans with a recomputed value; nil if it cannot be recomputed, or already is. A plan for
// a budget keeps its choices.
func (e *explainer) recompute(v *Value) (*Fix, error) {
	if e.copies[v.program] > 0 || e.stash[v.program] == 0 || e.p.Stashed[e.stash[v.program]-1].WhyKept == "" {
		return nil, nil
	}
	o, how := e.options(), hint.Recompute.With(strconv.Quote(v.Name)).String()
	o.Recompute = append(slices.Clone(o.Recompute), v.Name)
	if o.Budget() != nil {
		o.Strategy = &planner.PlanFile{Placements: e.p.Placements, Order: e.p.Analysis.Order}
		how += fmt.Sprintf(" with the saved plan (%v)", hint.PlanFile)
	}
	q, err := planner.MakeContext(e.ctx, e.p.Model, e.p.Types, o)
	if errors.Is(err, planner.ErrDemand) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e.fix(Recompute, how, q), nil
}

// reorder plans in an order of less memory; nil where the peak is no lower, or the order is given.
func (e *explainer) reorder() (*Fix, error) {
	o := e.options()
	_, file := o.Strategy.(*planner.PlanFile)
	if o.Order == planner.OrderMemory || o.Budget() != nil || file || e.ctx.Err() != nil {
		return nil, nil
	}
	o.Order, o.SkipLayout = planner.OrderMemory, false
	q, err := planner.MakeContext(e.ctx, e.p.Model, e.p.Types, o)
	if err != nil {
		return nil, err
	}
	f := e.fix(Reorder, hint.Order.With("memory").String(), q)
	if f.Saves <= 0 {
		return nil, nil
	}
	return f, nil
}

// offload simulates that a value is not there from before the peak until it is read behind it; nil
// where the node at the peak needs it, or the plan is for a device without a link to the host, such as a CPU.
func (e *explainer) offload(v *Value) (*Fix, error) {
	link := e.link()
	if v.made < 0 || v.made >= e.peak || v.next <= e.peak || e.outputs[v.program] || link.BytesPerSecond == 0 ||
		e.moved() && v.Placement == Moved {
		return nil, nil
	}
	t, err := e.without(v).Simulate()
	if err != nil || t.Peak.Bytes >= e.t.Peak.Bytes {
		return nil, err
	}
	bytes := e.program.Bytes[v.program]
	advice := fmt.Sprintf("plan %v with %v chooses values to move", hint.Budget, hint.HostBudget)
	if e.moved() {
		advice = fmt.Sprintf("a plan to a lower %v moves more values", hint.Budget)
	}
	return &Fix{What: Offload, Hint: true,
		How: fmt.Sprintf("to the host and back at %.4g GB/s, if no computation hides it; %s",
			link.BytesPerSecond/1e9, advice),
		Saves:  e.t.Peak.Bytes - t.Peak.Bytes,
		Millis: 2 * (link.Latency.Seconds() + float64(bytes)/link.BytesPerSecond) * 1e3, Peak: t.Peak.Bytes,
		PeakNode: e.g.NodeLabel(t.Peak.Node)}, nil
}

// without is the program with a value fetched from elsewhere right before its next reader.
func (e *explainer) without(v *Value) *live.Program {
	p := e.program.Clone()
	back := graph.ValueID(len(p.Bytes))
	p.Bytes = append(p.Bytes, p.Bytes[v.program])
	p.Persistent = append(p.Persistent, false)
	for i := v.next; i < len(p.Steps); i++ {
		s := &p.Steps[i]
		s.In = slices.Clone(s.In)
		for k, x := range s.In {
			if x != graph.NoValue && int(x) < len(e.source) && e.source[x] == v.program {
				s.In[k] = back
			}
		}
	}
	p.Steps = slices.Insert(p.Steps, v.next, live.Step{Node: p.Steps[v.next].Node, Kind: op.Unknown,
		Out: []graph.ValueID{back}, Memory: live.Owning})
	return p
}
