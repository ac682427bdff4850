package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/planner"
	"memopt/planner/arena"
)

// PlanView says which parts of a plan the table shows.
type PlanView struct {
	ConfigPath string // of the configuration in force, or ""
	Details    bool   // the node-level table too
	Stashes    int    // how many stashed activations to list; -1: all
	// Level1 is the plan of level 1, to say what it would save; nil for none.
	Level1 *planner.Plan
}

// PlanTable writes a plan for people: the table of clusters as ONNX Runtime prints it at log level
// INFO, the peak before and after, what it is made of, and the largest stashed activations with the
// reason each is kept.
func PlanTable(w io.Writer, p *planner.Plan, view PlanView) error {
	if err := fitAnswer(w, p); err != nil {
		return err
	}
	if err := chosenTable(w, p, view.ConfigPath); err != nil {
		return err
	}
	if view.Details {
		if err := detailTable(w, p, view.ConfigPath); err != nil {
			return err
		}
	}
	if err := peakSummary(w, p); err != nil {
		return err
	}
	if err := budgetSummary(w, p, view.Level1); err != nil {
		return err
	}
	if err := levelSummary(w, p, view.Level1); err != nil {
		return err
	}
	if err := compositionTables(w, p); err != nil {
		return err
	}
	return stashTable(p, view.Stashes).write(w)
}

// chosenTable is the table of clusters; for a plan to a budget, which chooses among all nodes, what
// runs again.
func chosenTable(w io.Writer, p *planner.Plan, configPath string) error {
	if p.Bound == nil {
		return infoTable(w, p, configPath)
	}
	t := againTable(p)
	if len(t.Rows) == 0 {
		return nil
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (t *titled) write(w io.Writer) error {
	if len(t.table.Rows) == 0 {
		return nil
	}
	if err := t.table.WriteText(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, t.note)
	return err
}

type titled struct {
	table Table
	note  string
}

// infoTable is ONNX Runtime's INFO table with one more column, the drop of the peak.
func infoTable(w io.Writer, p *planner.Plan, configPath string) error {
	on := "OFF"
	what := "Enable with --level 1, --level 2 or --config FILE (or " +
		"ORTMODULE_MEMORY_OPT_LEVEL, ORTMODULE_MEMORY_OPT_CONFIG)"
	if p.Options.Enabled() {
		on = "ON"
		what = fmt.Sprintf("Memory Optimization Level: [%s], Optimization Config: [%s]", p.Options.Level(), configPath)
		if p.Options.Budget() != nil {
			what = "a plan to a budget"
		}
	}
	if err := columns(w, [][]string{{"Memory Optimizer", ":", on, ":", what}}); err != nil {
		return err
	}
	rows := [][]string{
		{"", "", "", "", "Configs", "Freq", "Max Saving(Bytes)", "Saving Symbolic(Bytes)", "Peak Drop(Bytes)"},
	}
	for i := range p.Clusters {
		rows = append(rows, infoRow(i, &p.Clusters[i]))
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	return infoNotes(w, p)
}

func infoRow(i int, r *planner.ClusterRow) []string {
	on := "OFF"
	if r.Enabled {
		on = "ON"
	}
	bytes, drop := r.SavingExpr(), "-"
	if r.Evaluated {
		bytes = Thousands(r.SavingBytes)
	}
	if r.Dropped {
		drop = Thousands(r.PeakDrop)
	}
	return []string{fmt.Sprintf(" - Plan %d", i+1), ":", on, ":", r.Config, fmt.Sprint(r.Frequency), bytes,
		r.SavingExpr(), drop}
}

func infoNotes(w io.Writer, p *planner.Plan) error {
	var b strings.Builder
	exclusive := 0
	for i := range p.Clusters {
		if len(p.Clusters[i].Excludes) > 0 {
			exclusive++
		}
	}
	if len(p.Clusters) == 0 {
		b.WriteString("No recomputable cluster was found; the list of stashed activations says why for each.\n")
	}
	if exclusive > 0 {
		fmt.Fprintf(&b,
			"%d rows share stashed activations with another row (a node has both strategy 1 and "+
				"2): only one of such rows can be enabled, and their savings do not add up.\n", exclusive)
	}
	if len(p.Options.Dims) > 0 {
		line(&b, "Savings are for %s.", dimsText(p.Options.Dims))
	}
	if len(p.Unbound) > 0 {
		line(&b, "Bind %s with --dim NAME=VALUE to see bytes and the peak.", strings.Join(p.Unbound, ", "))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
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

// peakSummary says where the peak is before and after, and what the rest of the
// memory is.
func peakSummary(w io.Writer, p *planner.Plan) error {
	if p.Base == nil {
		return nil
	}
	g, r := p.Analysis.Graph, p.PeakRecord()
	t := Table{
		Title: "Peak of one step", Header: []string{"", "Size", "Bytes", "At"}, Right: []bool{false, true, true, false},
		Fit: []Fit{Wrap, Whole, Whole, Wrap},
	}
	add := func(name string, n int64, at string) { t.Add(name, Bytes(n), Thousands(n), at) }
	at := func(node *string) string {
		if node == nil {
			return ""
		}
		return "node " + *node
	}
	add("Baseline, live", r.BaselineBytes, at(label(g, p.Base.Peak.Node)))
	add("Planned, live", r.PlannedBytes, at(label(g, p.Planned.Peak.Node)))
	add("Lower bound", r.LowerBoundBytes, "no order and no recomputation can go below it")
	add("Planned, arena", r.ArenaBytes, fmt.Sprintf("live values packed at multiples of %d bytes", arena.Alignment))
	if r.CloneBytes > 0 {
		add("Clones' own memory",
			r.CloneBytes, "included in the planned lines above, for "+strconv.Itoa(p.Recompute.Nodes)+" clones")
	}
	add("Inputs and weights", r.PersistentBytes, "live throughout")
	add("Total", r.TotalBytes, "arena + inputs and weights")
	if a := p.Runtime; a != nil {
		add("In ONNX Runtime",
			a.AnchoredArena,
			fmt.Sprintf("predicted size of its arena, anchors included; %s for the original graph", Bytes(a.BaseArena)))
		add("Total there", a.AnchoredArena+p.Persistent, "arena + inputs and weights")
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "Recomputed: %d nodes; +%s time %s (an estimate).\n\n",
		p.Recompute.Nodes, Percent(p.Overhead), costNote(p.ProfileName()))
	return err
}

// levelSummary says what level 1 would save.
func levelSummary(w io.Writer, p, level1 *planner.Plan) error {
	if level1 == nil || p.Bound != nil || level1.Planned.Peak.Bytes >= p.Base.Peak.Bytes {
		return nil
	}
	drop := 1 - float64(level1.Planned.Peak.Bytes)/float64(p.Base.Peak.Bytes)
	_, err := fmt.Fprintf(w, "With --level 1 the peak would be %s, %s less, for an estimated %s more time.\n\n",
		Bytes(level1.Planned.Peak.Bytes), Percent(drop), Percent(level1.Overhead))
	return err
}

// stashTable lists the largest stashed activations.
func stashTable(p *planner.Plan, limit int) *titled {
	rows := slices.Clone(p.Stashed)
	size := func(r planner.StashRow) int64 {
		return rank(p.Analysis.Graph.Values[r.Value].Type.Bytes(), p.Options.Dims)
	}
	slices.SortStableFunc(rows, func(x, y planner.StashRow) int { return cmp.Compare(size(y), size(x)) })
	t := &titled{table: Table{Title: fmt.Sprintf("Stashed activations (%d)", len(rows)),
		Header: []string{"Bytes", "Value", "Op", "Why it is kept"}, Right: []bool{true},
		Fit: []Fit{Whole, Cut, Cut, Wrap}}}
	if limit >= 0 && len(rows) > limit {
		t.note = fmt.Sprintf("… and %d more; -v lists all.\n", len(rows)-limit)
		rows = rows[:limit]
	}
	g := p.Analysis.Graph
	for _, r := range rows {
		why := r.WhyKept
		if why == "" {
			why = "recomputed"
		}
		t.table.Add(stashSize(p, r), g.Values[r.Value].Name, g.Nodes[r.Node].Op, why)
	}
	return t
}

func stashSize(p *planner.Plan, r planner.StashRow) string {
	e := p.Analysis.Graph.Values[r.Value].Type.Bytes()
	if !e.IsKnown() {
		return "unknown"
	}
	if n, err := e.Eval(p.Options.Dims); err == nil {
		return Thousands(n)
	}
	return e.String()
}

// PlanCSV writes the clusters of a plan as CSV.
func PlanCSV(w io.Writer, p *planner.Plan) error { return clusterTable(p).WriteCSV(w) }

// PlanMarkdown writes clusters, peak and stashed activations as Markdown tables.
func PlanMarkdown(w io.Writer, p *planner.Plan) error {
	if err := fitAnswer(w, p); err != nil {
		return err
	}
	if err := clusterTable(p).WriteMarkdown(w); err != nil {
		return err
	}
	if p.Base != nil {
		r := p.PeakRecord()
		t := Table{Title: "Peak of one step", Header: []string{"what", "bytes"}, Right: []bool{false, true}}
		t.Add("baseline, live", fmt.Sprint(r.BaselineBytes))
		t.Add("planned, live", fmt.Sprint(r.PlannedBytes))
		t.Add("lower bound", fmt.Sprint(r.LowerBoundBytes))
		t.Add("planned, arena", fmt.Sprint(r.ArenaBytes))
		t.Add("inputs and weights", fmt.Sprint(r.PersistentBytes))
		t.Add("total", fmt.Sprint(r.TotalBytes))
		if err := t.WriteMarkdown(w); err != nil {
			return err
		}
		if err := compositionMarkdown(w, p); err != nil {
			return err
		}
	}
	return stashTable(p, -1).table.WriteMarkdown(w)
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
