package report

import (
	"fmt"
	"io"
	"strings"

	"memopt/hint"
	"memopt/planner"
)

// clusterTables are ONNX Runtime's table of clusters, the total saving of each, the drop of the
// peak by each alone, and notes.
func clusterTables(w io.Writer, p *planner.Plan, configPath string) error {
	if err := Paragraph(w, optimizerText(p, configPath)); err != nil {
		return err
	}
	t := infoTable(p, columnsOf(w) == 0)
	if len(t.Rows) > 0 {
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	return infoNotes(w, p)
}

// optimizerText lists the enabled clusters in ONNX Runtime's words.
func optimizerText(p *planner.Plan, configPath string) string {
	switch {
	case !p.Options.Enabled():
		return fmt.Sprintf("Memory Optimizer: OFF; %v, %v or %v enables clusters.", hint.Level.With("1"),
			hint.Level.With("2"), hint.Config.With("FILE"))
	case p.Options.Budget() != nil:
		return "Memory Optimizer: ON; clusters for the budget."
	}
	if configPath == "" {
		return fmt.Sprintf("Memory Optimizer: ON; Level: [%s]", p.Options.Level())
	}
	return fmt.Sprintf("Memory Optimizer: ON; Level: [%s], Config: [%s]", p.Options.Level(), configPath)
}

// infoTable has a row for each cluster. Configurations stand last and are never cut, so that they
// can be copied. Where sizes are known, formulas and exact bytes are for screens without a limit.
func infoTable(p *planner.Plan, wide bool) *Table {
	var sizes []int64
	known := true
	for i := range p.Clusters {
		r := &p.Clusters[i]
		known = known && r.Evaluated
		sizes = append(sizes, r.SavingBytes, r.PeakDrop)
	}
	unit, size := SizeUnit(sizes...)
	t := &Table{}
	add := func(head string, right bool, fit Fit) {
		t.Header, t.Right, t.Fit = append(t.Header, head), append(t.Right, right), append(t.Fit, fit)
	}
	add("State", false, Whole)
	add("Freq", true, Whole)
	add("Saving, "+unit, true, Whole)
	add("Peak drop, "+unit, true, Whole)
	if wide {
		add("Saving, bytes", true, Whole)
	}
	if wide || !known {
		add("Saving, formula", false, Wrap)
	}
	add("Configuration", false, Wrap)
	for i := range p.Clusters {
		r := &p.Clusters[i]
		row := []string{"OFF", fmt.Sprint(r.Frequency), "-", "-"}
		exact := "-"
		if r.Enabled {
			row[0] = "ON"
		}
		if r.Evaluated {
			row[2], exact = size(r.SavingBytes), Thousands(r.SavingBytes)
		}
		if r.Dropped {
			row[3] = size(r.PeakDrop)
		}
		if wide {
			row = append(row, exact)
		}
		if wide || !known {
			row = append(row, r.SavingExpr())
		}
		t.Add(append(row, r.Config)...)
	}
	return t
}

func infoNotes(w io.Writer, p *planner.Plan) error {
	var notes []string
	exclusive := 0
	for i := range p.Clusters {
		if len(p.Clusters[i].Excludes) > 0 {
			exclusive++
		}
	}
	if len(p.Clusters) == 0 {
		notes = append(notes, "No recomputable cluster was found; the list of stashed activations says why for each.")
	}
	if exclusive > 0 {
		notes = append(notes, fmt.Sprintf("%d %s stashed activations with another row (a node has both strategy 1 "+
			"and 2): only one of such rows can be enabled, and their savings do not add up.",
			exclusive, plural(exclusive, "row shares", "rows share")))
	}
	if len(p.Options.Dims) > 0 {
		notes = append(notes, fmt.Sprintf("Savings are for %s.", dimsText(p.Options.Dims)))
	}
	if len(p.Unbound) > 0 && p.Base != nil {
		notes = append(notes, fmt.Sprintf("Bind %s with %v to see bytes and the peak.",
			strings.Join(p.Unbound, ", "), hint.Dims.With("NAME=VALUE")))
	}
	for _, note := range notes {
		if err := Paragraph(w, note); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}
