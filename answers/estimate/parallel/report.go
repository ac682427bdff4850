package parallel

import (
	"fmt"
	"io"
	"strings"

	"memopt/answers/estimate/parts"
	"memopt/graph/precision"
	"memopt/view/report"
)

// Facts are the facts of a report about the model and the step besides the result.
type Facts struct {
	Path            string
	StructureSHA256 string
	Dims            map[string]int64
	Text            string // names the step; "": it is not named
	Device          string // the profile's name; "" without a profile
	Sources         []string
	Optimizer       string // "" for an unchanged graph
	Precision       precision.Precision
	Types           *parts.Types // nil means the graph's own
	Parameters      int64        // of the whole model
	PerParameter    *parts.PerParameter
}

// Report writes a result: the answer first, then the stages, the arithmetic of the one that limits
// (of all, if verbose), and how tensor parallel divides weights.
func (r *Result) Report(w io.Writer, format report.Format, f *Facts, verbose bool) error {
	switch format {
	case report.JSONFormat:
		return report.WriteJSON(w, r.json(f))
	case report.CSVFormat:
		return r.csv().WriteCSV(w)
	}
	if f.Text != "" {
		if err := report.StepLine(w, format, &report.Step{Text: f.Text}); err != nil {
			return err
		}
	}
	if err := report.Sentences(w, format, r.Answer()); err != nil {
		return err
	}
	tables := []*report.Table{r.stageTable()}
	if len(r.Stages) > 1 {
		tables = append(tables, r.layerTable())
	}
	for i := range r.Stages {
		if verbose || i == r.Limiting {
			tables = append(tables, r.arithmeticTable(&r.Stages[i]))
		}
	}
	if len(r.Weights) > 0 {
		tables = append(tables, r.weightTable(verbose))
	}
	for _, t := range tables {
		if err := t.WriteAs(w, format); err != nil {
			return err
		}
		if format != report.MarkdownFormat { // whose tables end with an empty line
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
	}
	return report.Sentences(w, format, r.notes(f)...)
}

// notes say how the figures came about.
func (r *Result) notes(f *Facts) []string {
	l := r.Layout
	var list []string
	if l.PP > 1 {
		list = append(list, fmt.Sprintf("Stages are cut by %s; the schedule is %s of %d micro-batches.", r.Cuts,
			scheduleName(l), l.Microbatches))
	}
	if f.PerParameter != nil {
		list = append(list, fmt.Sprintf("Parameters: %s, each %s.", report.Thousands(f.Parameters), f.PerParameter))
	}
	if r.Options.Memory > 0 {
		list = append(list, "For stage "+fmt.Sprint(r.Limiting)+", "+r.budgetSum(&r.Stages[r.Limiting])+".")
	}
	return append(list, "Not counted: buffers of communication, except for gathered values, and the rounding of "+
		"allocators.")
}

func scheduleName(l Layout) string {
	if l.Interleave > 1 {
		return fmt.Sprintf("1F1B with %d interleaved chunks on each device,", l.Interleave)
	}
	return "1F1B"
}

func (r *Result) stageTable() *report.Table {
	t := &report.Table{Title: "Memory of a device of each stage",
		Header: []string{"stage", "flight", "states", "activations", "rest", "total"},
		Right:  []bool{true, true, true, true, true, true, true}}
	planned := false
	for i := range r.Stages {
		planned = planned || r.Stages[i].Plan != nil
	}
	if planned {
		t.Header = append(t.Header, "planned")
	}
	for i := range r.Stages {
		st := &r.Stages[i]
		p := &st.Parts
		states := p.Weights - p.Inputs + p.Gradients + p.State
		row := []string{fmt.Sprint(st.Stage), r.flight(st), report.Bytes(states), report.Bytes(p.Activations),
			report.Bytes(p.Total() - states - p.Activations), report.Bytes(p.Total())}
		if planned {
			row = append(row, plannedCell(st))
		}
		t.Add(row...)
	}
	return t
}

// layerTable lists the layers by stage.
func (r *Result) layerTable() *report.Table {
	t := &report.Table{Header: []string{"stage", "micro-batch", "layers"}, Right: []bool{true, true, false}}
	for i := range r.Stages {
		st := &r.Stages[i]
		t.Add(fmt.Sprint(st.Stage), fmt.Sprintf("%.3g ms", 1000*st.Seconds), st.layers())
	}
	return t
}

// flight is how many micro-batches of all layers of a device are in flight.
func (r *Result) flight(st *Stage) string {
	if r.Layout.Interleave == 1 {
		return fmt.Sprint(st.InFlight)
	}
	return fmt.Sprintf("%.2f", float64(st.InFlight)/float64(r.Layout.Interleave))
}

func plannedCell(st *Stage) string {
	switch {
	case st.Plan == nil:
		return "as it is"
	case st.Plan.Fits:
		return report.Bytes(st.Plan.Total) + ", +" + report.Percent(st.Plan.Overhead)
	}
	return "does not fit"
}

func (r *Result) arithmeticTable(st *Stage) *report.Table {
	title := fmt.Sprintf("Stage %d, on each device", st.Stage)
	if len(r.Stages) == 1 {
		title = "On each device"
	}
	t := &report.Table{Title: title, Header: []string{"item", "bytes", "sum"}, Right: []bool{false, true, false},
		Fit: []report.Fit{report.Whole, report.Whole, report.Wrap}}
	for _, l := range r.Arithmetic(st) {
		t.Add(l.What, report.Thousands(l.Bytes), l.Sum)
	}
	return t
}

// weightTable lists the division of weights by tensor parallel.
func (r *Result) weightTable(verbose bool) *report.Table {
	t := &report.Table{Title: fmt.Sprintf("Values that %d ranks of tensor parallel divide, by %s", r.Layout.TP, r.Rule),
		Header: []string{"weights", "dims", "divided"}, Right: []bool{true, false, false, false},
		Fit: []report.Fit{report.Whole, report.Whole, report.Wrap, report.Wrap}}
	t.Header = append(t.Header, "such as")
	for _, w := range r.Weights {
		t.Add(fmt.Sprint(len(w.Names)), strings.ReplaceAll(strings.Trim(fmt.Sprint(w.Dims), "[]"), " ", "×"),
			w.text(verbose), w.Names[0])
	}
	return t
}

// text describes the division of weights.
func (w *WeightRule) text(verbose bool) string {
	switch {
	case w.Axis >= 0:
		return fmt.Sprintf("axis %d, %s", w.Axis, w.Role)
	case w.Why == "":
		return "whole"
	case verbose || len(w.Why) < 60:
		return "whole: " + w.Why
	}
	return "whole: cannot be (-v says why)"
}

// csv has a row for every term of every stage.
func (r *Result) csv() *report.Table {
	t := &report.Table{Header: []string{"stage", "part", "bytes"}, Right: []bool{true, false, true}}
	for i := range r.Stages {
		st := &r.Stages[i]
		add := func(part string, n int64) { t.Add(fmt.Sprint(st.Stage), part, fmt.Sprint(n)) }
		for _, row := range st.Parts.Rows() {
			add(row.Field, row.Bytes)
		}
		add("total_bytes", st.Parts.Total())
		if r.Options.Memory > 0 {
			add("memory_bytes", r.Options.Memory)
			add("budget_bytes", st.Budget)
		}
		if st.Plan != nil {
			add("with_plan_bytes", st.Plan.Total)
		}
	}
	return t
}
