package report

import (
	"fmt"
	"io"

	"memopt/planner"
)

// planColumns are the columns of a plan as CSV. The rows are of five kinds, each with the columns that
// apply to it: the answer, the chunked regions, the recomputed nodes by operator, the alternatives,
// and the clusters.
var planColumns = []string{"id", "strategy", "config", "frequency", "save_ratio", "saving_bytes",
	"saving_expr", "peak_drop_bytes", "enabled", "requested", "applied", "row", "bytes", "overhead", "fits"}

// PlanCSV writes a plan as one table of CSV. The column row is the kind of a line: "answer" with the
// peaks (id baseline, planned, arena, total), "region" with the value that names a chunked region, how
// many (frequency) and the bytes of the largest part, "again" with an operator, the number of
// recomputed nodes (frequency), their bytes and cost, "alternative", or "cluster".
func PlanCSV(w io.Writer, p *planner.Plan, view PlanView) error {
	t := &Table{Header: planColumns}
	add := func(row, id, frequency, bytes, overhead, fits string) {
		cells := make([]string, len(planColumns))
		cells[0], cells[3] = id, frequency
		copy(cells[11:], []string{row, bytes, overhead, fits})
		t.Rows = append(t.Rows, cells)
	}
	if r := p.PeakRecord(); p.Base != nil {
		fit := ""
		if p.Fit != nil {
			fit = fmt.Sprint(p.Fit.Fits())
		}
		add("answer", "baseline", "", fmt.Sprint(r.BaselineBytes), "0", "")
		add("answer", "planned", fmt.Sprint(p.Recompute.Nodes), fmt.Sprint(r.PlannedBytes), share(p.Overhead), fit)
		add("answer", "arena", "", fmt.Sprint(r.ArenaBytes), "", "")
		add("answer", "total", "", fmt.Sprint(r.TotalBytes), "", "")
	}
	for i, c := range p.Fission {
		_, part := p.RegionBytes(i)
		add("region", c.Region, fmt.Sprint(c.Parts), fmt.Sprint(part), "", "")
	}
	for _, r := range again(p) {
		add("again", r.op, fmt.Sprint(r.nodes), fmt.Sprint(r.bytes), share(r.time), "")
	}
	for _, o := range others(p, view) {
		add("alternative", o.String(), "", fmt.Sprint(o.Live), share(o.Overhead), fmt.Sprint(o.Fits))
	}
	for _, cells := range clusterTable(p).Rows {
		t.Rows = append(t.Rows, append(cells, "cluster", "", "", ""))
	}
	return t.WriteCSV(w)
}

// share prints a share of a step.
func share(x float64) string { return fmt.Sprintf("%.6f", x) }

// PlanMarkdown writes the answer, the recomputed nodes, alternatives, clusters, peak and stashed
// activations as Markdown.
func PlanMarkdown(w io.Writer, p *planner.Plan, view PlanView) error {
	for _, text := range answer(p, view) {
		if _, err := fmt.Fprintf(w, "- %s\n", escapeMarkdown(text)); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	for _, t := range []*Table{fissionTable(p, sizesInBytes), againTable(p), othersTable(p, view), clusterTable(p)} {
		if len(t.Rows) == 0 {
			continue
		}
		if err := t.WriteMarkdown(w); err != nil {
			return err
		}
	}
	if err := spanTable(w, MarkdownFormat, p); err != nil {
		return err
	}
	if err := Formulas(w, MarkdownFormat, p, -1); err != nil {
		return err
	}
	if err := peakMarkdown(w, p); err != nil {
		return err
	}
	return stashMarkdown(p).WriteMarkdown(w)
}

// peakMarkdown writes the peak in bytes by kind.
func peakMarkdown(w io.Writer, p *planner.Plan) error {
	if p.Base == nil {
		return nil
	}
	t := Table{Title: "Peak of one step", Header: []string{"item", "bytes"}, Right: []bool{false, true}}
	for _, r := range peakRows(p) {
		t.Add(lower(r.name), fmt.Sprint(r.bytes))
	}
	if err := t.WriteMarkdown(w); err != nil {
		return err
	}
	return compositionMarkdown(w, p)
}

// stashMarkdown lists all stashed activations.
func stashMarkdown(p *planner.Plan) *Table {
	t := &Table{Title: fmt.Sprintf("Stashed activations (%d)", len(p.Stashed)),
		Header: []string{"Bytes", "Value", "Op", "Why it is kept"}, Right: []bool{true}}
	g := p.Analysis.Graph
	for _, r := range sortedStashes(p) {
		why := r.WhyKept
		if why == "" {
			why = "recomputed"
		}
		t.Add(stashSize(p, r, Thousands), g.Values[r.Value].Name, g.Nodes[r.Node].Op, why)
	}
	return t
}

func clusterTable(p *planner.Plan) *Table {
	t := &Table{Title: "Clusters",
		Header: []string{"id", "strategy", "config", "frequency", "save_ratio", "saving_bytes", "saving_expr",
			"peak_drop_bytes", "enabled", "requested", "applied"},
		Right: []bool{false, true, false, true, true, true, false, true, false, true, true}}
	for i := range p.Clusters {
		r := &p.Clusters[i]
		bytes, drop := "", ""
		if r.Evaluated {
			bytes = fmt.Sprint(r.SavingBytes)
		}
		if r.Dropped {
			drop = fmt.Sprint(r.PeakDrop)
		}
		t.Add(string(r.ID), fmt.Sprint(int(r.Strategy)), r.Config, fmt.Sprint(r.Frequency), fmt.Sprint(r.Ratio.Float()),
			bytes, r.SavingExpr(), drop, fmt.Sprint(r.Enabled), fmt.Sprint(r.Requested), fmt.Sprint(r.Applied))
	}
	return t
}
