package webpage

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"

	"memopt"
	"memopt/answers/explain"
	"memopt/planner"
	"memopt/planner/offload"
	"memopt/view/report"
	"memopt/view/timeline"
)

// Options are the contents of a page besides its plan.
type Options struct {
	// Explained says why memory is live at the plan's peak, and which changes would lower it.
	Explained *explain.Result
	// Moving is the plan of the page where its values may move to the host; then the plan that Write gets has its
	// recomputations alone. Nil for another plan.
	Moving *memopt.Moving
	Moves  report.MovingPlan // the report of Moving
	// Step is the planned training step; nil if unspecified.
	Step *report.Step
	// Reserved is the bytes of the device's memory that count beside the step.
	Reserved int64
	// Curve has the costs of plans for other budgets; nil without a curve.
	Curve []Point
	// Marks are usual ways to save memory, by the options that ask for them.
	Marks []planner.Alternative
	// Runs are measurements.
	Runs []*Run
	// Version is the program that makes the page.
	Version string
}

// Write writes the page of a plan. A context that is done ends the search for a smaller arena of the
// baseline. The error is a *symbolic.UnboundError where sizes are unknown, or the writer's.
func Write(ctx context.Context, w io.Writer, p *memopt.Plan, o Options) error {
	d, err := newDocument(ctx, p, o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return assemble(w, data)
}

func newDocument(ctx context.Context, p *memopt.Plan, o Options) (*document, error) {
	base, err := timeline.Baseline(p.Plan)
	if err != nil {
		return nil, err
	}
	base.Pack(ctx)
	base.Over(o.Explained.Link)
	n := &names{index: map[string]int64{}}
	d := &document{Schema: Schema, Version: o.Version, Title: p.Of.Path, Kinds: kinds(),
		LowerBound: lowerBound(p.Plan), StashClusters: stashClusters(p.Plan),
		Pareto: newParetoJSON(p.Plan, o), Runs: newRunsJSON(o.Runs)}
	d.Graphs = append(d.Graphs, newGraphJSON(base.Graph, p.Baseline().Sizes.Bytes, n))
	d.Executions = append(d.Executions, newExecutionJSON(base, "baseline", 0, n))
	switch {
	case o.Moving != nil:
		if err := d.addMoving(o.Moving, o.Moves, n); err != nil {
			return nil, err
		}
	case p.Rewrites():
		if err := d.addPlan(p.Plan, o.Explained.Link, n); err != nil {
			return nil, err
		}
	}
	if o.Moving == nil && p.Fit != nil {
		d.Limit = &p.Fit.Limit
	}
	if d.Plan, err = compact(func(w io.Writer) error {
		return report.PlanJSON(w, p.Plan, p.Of.StructureSHA256, o.Step, o.Reserved)
	}); err != nil {
		return nil, err
	}
	d.Explain, err = compact(func(w io.Writer) error {
		return explain.Report(w, report.JSONFormat, o.Explained, explain.View{Reserved: o.Reserved, Step: o.Step})
	})
	d.Names = n.list
	return d, err
}

// lowerBound is a lower bound on every plan; for one with chunked regions, on every chunking.
func lowerBound(p *planner.Plan) int64 {
	r := p.PeakRecord()
	if p.Whole != nil {
		return r.PartsBoundBytes
	}
	return r.LowerBoundBytes
}

// addMoving adds the execution of a plan whose values may move to the host, and its report.
func (d *document) addMoving(p *memopt.Moving, r report.MovingPlan, n *names) error {
	d.LowerBound = 0 // values that move go below those of plans without
	if p.Budget != math.MaxInt64 {
		d.Limit = &p.Budget
	}
	var err error
	d.Moves, err = compact(func(w io.Writer) error { return report.Moving(w, report.JSONFormat, r) })
	if err != nil || len(p.Moves) == 0 && !p.Plan.Rewrites() {
		return err
	}
	return d.addPlan(p.Laid, p.Options.Link, n)
}

// addPlan adds the execution of a plan that changes something, with its copies over a link.
func (d *document) addPlan(p *planner.Plan, link offload.Link, n *names) error {
	t, err := timeline.Of(p)
	if err != nil {
		return err
	}
	t.Over(link)
	at := 0
	if p.Whole != nil || p.Options.Origin != nil { // another graph
		at = len(d.Graphs)
		d.Graphs = append(d.Graphs, newGraphJSON(t.Graph, p.Sizes.Bytes, n))
	}
	d.Executions = append(d.Executions, newExecutionJSON(t, "plan", at, n))
	return nil
}

// kinds are the names of the kinds of bytes.
func kinds() []string {
	out := make([]string, timeline.NumKinds)
	for k := range timeline.NumKinds {
		out[k] = k.String()
	}
	return out
}

// stashClusters has the configuration of a cluster that recomputes each stash; nil without a
// cluster.
func stashClusters(p *planner.Plan) []*string {
	a := p.Analysis
	out := make([]*string, len(p.Stashed))
	for i, s := range p.Stashed {
		if cs := a.OfEntry(s.Node); len(cs) > 0 {
			config := a.Clusters[a.Candidates[cs[0]].Cluster].Config()
			out[i] = &config
		}
	}
	return out
}

// compact is JSON without spaces.
func compact(write func(io.Writer) error) (json.RawMessage, error) {
	var long, short bytes.Buffer
	if err := write(&long); err != nil {
		return nil, err
	}
	err := json.Compact(&short, long.Bytes())
	return short.Bytes(), err
}

// paretoJSON is the costs of plans.
type paretoJSON struct {
	Points []pointJSON `json:"points"` // from the lowest peak to the baseline
	Marks  []markJSON  `json:"marks"`
}

type pointJSON struct {
	Budget   int64   `json:"budget_bytes"`
	Live     int64   `json:"live_bytes"`
	Overhead float64 `json:"overhead"`
	Nodes    int     `json:"nodes"`
}

type markJSON struct {
	Name     string  `json:"name"`
	Live     int64   `json:"live_bytes"`
	Overhead float64 `json:"overhead"`
	Chosen   bool    `json:"chosen"`
}

func newParetoJSON(p *planner.Plan, o Options) paretoJSON {
	out := paretoJSON{Points: []pointJSON{}, Marks: []markJSON{}}
	for _, x := range o.Curve {
		out.Points = append(out.Points, pointJSON(x))
	}
	plan, changes, overhead := p, p.Rewrites(), p.Overhead
	if m := o.Moving; m != nil {
		plan, changes, overhead = m.Laid, changes || len(m.Moves) > 0, m.Overhead
	}
	out.Marks = append(out.Marks, markJSON{"as it is", p.Baseline().Base.Peak.Bytes, 0, !changes})
	for _, m := range o.Marks {
		if changes && m.Live == plan.Planned.Peak.Bytes && m.Overhead == overhead {
			continue // that is the plan
		}
		out.Marks = append(out.Marks, markJSON{m.String(), m.Live, m.Overhead, false})
	}
	if changes {
		out.Marks = append(out.Marks, markJSON{"the plan", plan.Planned.Peak.Bytes, overhead, true})
	}
	return out
}
