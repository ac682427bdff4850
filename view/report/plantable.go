package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"memopt/planner"
	"memopt/planner/arena"
)

// PlanView selects the parts of a plan that a report shows, and has further facts.
type PlanView struct {
	ConfigPath string // of the configuration in force, or ""
	Details    bool   // the node-level table too
	Stashes    int    // how many stashed activations to list; -1: all
	// Level1 is the plan of level 1, to compare a plan for a budget with; nil means no comparison.
	Level1 *planner.Plan
	// TradeOffs are the costs of lower peaks, for a plan without recomputation.
	TradeOffs []planner.Alternative
	// Bind is the flag that binds the unbound symbols, with example sizes; "" if all are bound.
	Bind string
	// Chart is the number of columns for a chart of live bytes; 0 means no chart.
	Chart int
}

// PlanTable writes a plan for people: the answer in three sentences, the alternatives, the clusters
// that ONNX Runtime's memory optimizer knows or the recomputed nodes, the peak by kind, the largest
// stashed activations with the reason each is kept, and on terminals a chart.
func PlanTable(w io.Writer, p *planner.Plan, view PlanView) error {
	if err := writeAnswer(w, p, view); err != nil {
		return err
	}
	if err := chosenTables(w, p, view); err != nil {
		return err
	}
	if view.Details {
		if err := ortmoduleTable(w, p); err != nil {
			return err
		}
		if err := detailTable(w, p, view.ConfigPath); err != nil {
			return err
		}
	}
	if err := spanTable(w, TableFormat, p); err != nil {
		return err
	}
	most := formulaParts
	if view.Stashes < 0 {
		most = -1
	}
	if err := Formulas(w, TableFormat, p, most); err != nil {
		return err
	}
	if err := peakTable(w, p); err != nil {
		return err
	}
	if err := compositionTables(w, p); err != nil {
		return err
	}
	if err := stashTable(p, view.Stashes, columnsOf(w) == 0).write(w); err != nil {
		return err
	}
	return timeChart(w, p, view.Chart)
}

// Unsized writes for people all that is known of a plan without sizes: formulas of the peak and of persistent bytes.
func Unsized(w io.Writer, format Format, p *planner.Plan, view PlanView) error {
	if err := Sentences(w, format, answer(p, view)...); err != nil {
		return err
	}
	most := formulaParts
	if view.Stashes < 0 {
		most = -1
	}
	return Formulas(w, format, p, most)
}

// formulaParts is how many parts of a formula a table lists.
const formulaParts = 12

// chosenTables list the recomputed nodes by operator for a plan for a budget, which chooses among
// all nodes; for other plans the table of clusters, enabled or not.
func chosenTables(w io.Writer, p *planner.Plan, view PlanView) error {
	if err := fissionTable(p, sizesInUnit).paragraph(w); err != nil {
		return err
	}
	if p.Bound == nil {
		if err := offersTable(w, p, view); err != nil {
			return err
		}
		return clusterTables(w, p, view.ConfigPath)
	}
	if err := againTable(p).paragraph(w); err != nil {
		return err
	}
	if err := budgetSummary(w, p); err != nil {
		return err
	}
	return othersTable(p, view).paragraph(w)
}

// offersTable is othersTable with a note on its numbers.
func offersTable(w io.Writer, p *planner.Plan, view PlanView) error {
	t := othersTable(p, view)
	isBudget := func(o planner.Alternative) bool { return o.Kind == planner.ToShare }
	if !slices.ContainsFunc(view.TradeOffs, isBudget) {
		return t.paragraph(w)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	if err := Paragraph(w, firstPrice); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

const firstPrice = "The price of a budget is that of the first plan that is found; with the flag, the search " +
	"goes on and often finds a cheaper one. A row without a flag is there to compare with."

// paragraph writes the table and an empty line, if it has rows.
func (t *Table) paragraph(w io.Writer) error {
	if len(t.Rows) == 0 {
		return nil
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// dimsText prints bindings in the order of their names.
func dimsText(dims map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, dims[name]))
	}
	return strings.Join(parts, ", ")
}

// peakTable lists the node of the peak before and after, and the rest of the memory.
func peakTable(w io.Writer, p *planner.Plan) error {
	if p.Base == nil {
		return nil
	}
	rows := peakRows(p)
	var sizes []int64
	for _, r := range rows {
		sizes = append(sizes, r.bytes)
	}
	unit, size := SizeUnit(sizes...)
	t := Table{Title: "Peak of one step", Header: []string{"", unit, "Bytes", "At"},
		Right: []bool{false, true, true, false}, Fit: []Fit{Wrap, Whole, Whole, Wrap}}
	for _, r := range rows {
		t.Add(r.name, size(r.bytes), Thousands(r.bytes), r.at)
	}
	return t.paragraph(w)
}

// peakRow is a row of the table of the peak.
type peakRow struct {
	name  string
	bytes int64
	at    string
}

func peakRows(p *planner.Plan) []peakRow {
	g, whole, r := p.Analysis.Graph, p.Baseline(), p.PeakRecord()
	at := func(node *string) string {
		if node == nil {
			return ""
		}
		return *node
	}
	rows := []peakRow{
		{"Baseline, live", r.BaselineBytes, at(label(whole.Analysis.Graph, whole.Base.Peak.Node))},
		{"Planned, live", r.PlannedBytes, at(label(g, p.Planned.Peak.Node))},
		{"Lower bound", r.LowerBoundBytes, "recomputation goes no lower"},
	}
	if r.PartsBoundBytes > 0 {
		rows = append(rows, peakRow{"Lower bound in parts", r.PartsBoundBytes, "regions in parts go no lower"})
	}
	rows = append(rows,
		peakRow{"Planned, arena", r.ArenaBytes, fmt.Sprintf("packed at multiples of %d bytes", arena.Alignment)})
	if r.CloneBytes > 0 {
		rows = append(rows, peakRow{"Clones' own memory", r.CloneBytes,
			fmt.Sprintf("in the planned lines above, for %d clones", p.Recompute.Nodes)})
	}
	rows = append(rows, peakRow{"Inputs and weights", r.PersistentBytes, "live throughout"},
		peakRow{"Total", r.TotalBytes, "arena + inputs and weights"})
	if a := p.Runtime; a != nil {
		rows = append(rows,
			peakRow{"In ONNX Runtime", a.AnchoredArena, fmt.Sprintf("predicted size of its arena, anchors "+
				"included; %s for the original graph", Bytes(a.BaseArena))},
			peakRow{"Total there", a.AnchoredArena + p.Persistent, "arena + inputs and weights"})
	}
	return rows
}
