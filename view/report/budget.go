package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"memopt/planner"
)

// budgetSummary writes the bounds of a plan for a budget and the cost of a smaller one.
func budgetSummary(w io.Writer, p *planner.Plan) error {
	for _, text := range budgetTexts(p) {
		if err := Paragraph(w, text); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// budgetTexts are sentences about a plan for a budget besides the answer.
func budgetTexts(p *planner.Plan) []string {
	b := p.Bound
	text := fmt.Sprintf("Found by %s; ", p.Solver)
	switch {
	case p.Whole != nil && b.Gap == 0:
		text += "with these parts, no plan is cheaper."
	case p.Whole != nil:
		text += fmt.Sprintf("with these parts, no plan costs less than +%s: at most %s of a step could "+
			"still be saved.", Percent(b.Overhead), Percent(b.Gap))
	case b.Optimal:
		text += "no plan in this order is cheaper."
	default:
		text += fmt.Sprintf("no plan in this order costs less than +%s: at most %s of a step "+
			"could still be saved.", Percent(b.Overhead), Percent(b.Gap))
	}
	out := []string{text}
	if n := p.Lower; n != nil {
		out = append(out, fmt.Sprintf("The next lower plan found: %s live, an arena of %s, for +%s time.",
			Bytes(n.Live), Bytes(n.Arena), Percent(n.Overhead)))
	}
	return out
}

// others are the alternatives to a plan: ONNX Runtime's level 1, checkpoints of whole layers, or, for a plan
// without recomputation, the costs of lower peaks.
func others(p *planner.Plan, view PlanView) []planner.Alternative {
	if p.Base == nil || p.Bound == nil && len(view.TradeOffs) == 0 {
		return nil
	}
	var list []planner.Alternative
	if l := view.Level1; l != nil && p.Bound != nil {
		live := l.Planned.Peak.Bytes
		list = append(list, planner.Alternative{Kind: planner.LayerLevel1, Live: live, Overhead: l.Overhead,
			Fits: live <= p.Planned.Peak.Bytes})
	}
	return append(append(list, p.Alternatives...), view.TradeOffs...)
}

// othersTable shows the plan beside the others.
func othersTable(p *planner.Plan, view PlanView) *Table {
	list := others(p, view)
	if len(list) == 0 {
		return &Table{}
	}
	peaks := []int64{p.Planned.Peak.Bytes}
	for _, o := range list {
		peaks = append(peaks, o.Live)
	}
	unit, size := SizeUnit(peaks...)
	t := &Table{Title: "Alternatives", Header: []string{"Peak, " + unit, "Less", "Time", "Plan"},
		Right: []bool{true, true, true, false}, Fit: []Fit{Whole, Whole, Whole, Wrap}}
	add := func(name string, live int64, overhead float64) {
		less := 0.0
		if base := p.Baseline().Base.Peak.Bytes; base > 0 {
			less = 1 - float64(live)/float64(base)
		}
		t.Add(size(live), Percent(less), "+"+Percent(overhead), name)
	}
	this := "this plan"
	if p.Recompute.Nodes == 0 && p.Whole == nil {
		this = "no recomputation"
	}
	add(this, p.Planned.Peak.Bytes, p.Overhead)
	for _, o := range list {
		add(o.String()+fits(o.Fits), o.Live, o.Overhead)
	}
	return t
}

func fits(ok bool) string {
	if ok {
		return ""
	}
	return " (does not fit)"
}

// ParetoSchema is the schema of the JSON of a curve.
const ParetoSchema = "memopt.pareto/v1"

type paretoJSON struct {
	Schema          string      `json:"schema"`
	Model           string      `json:"model"`
	PersistentBytes int64       `json:"persistent_bytes"`
	Stopped         bool        `json:"stopped"`
	Points          []pointJSON `json:"points"`
}

type pointJSON struct {
	BudgetBytes        int64   `json:"budget_bytes"`
	PeakBytes          int64   `json:"peak_bytes"`
	ArenaBytes         int64   `json:"arena_bytes"`
	Overhead           float64 `json:"overhead"`
	OverheadLowerBound float64 `json:"overhead_lower_bound"`
	Nodes              int     `json:"nodes"`
	Regions            int     `json:"regions_in_parts"`
	Plan               *string `json:"plan"`
}

// Pareto writes the curve of budget and cost. Budgets and peaks are bytes without inputs and
// weights. If the plans of the points were saved, files has their names and folder their folder.
func Pareto(w io.Writer, f Format, model string, c *planner.Curve, folder string, files []string) error {
	if f == JSONFormat {
		j := paretoJSON{Schema: ParetoSchema, Model: model, PersistentBytes: c.Persistent, Stopped: c.Stopped,
			Points: []pointJSON{}}
		for i, pt := range c.Points {
			p := pointJSON{pt.Budget, pt.Live, pt.Arena, pt.Overhead, pt.LowerBound, pt.Nodes,
				len(c.Fission(i)), nil}
			if files != nil {
				p.Plan = &files[i]
			}
			j.Points = append(j.Points, p)
		}
		return WriteJSON(w, j)
	}
	t := &Table{Title: "Budget and cost",
		Header: []string{"budget_bytes", "peak_bytes", "arena_bytes", "overhead", "overhead_lower_bound", "nodes",
			"regions_in_parts"},
		Right: []bool{true, true, true, true, true, true, true}}
	size := Bytes
	if f == TableFormat {
		var unit string
		unit, size = curveUnit(c)
		t.Header = []string{"Budget, " + unit, "Peak, " + unit, "Arena, " + unit, "Overhead", "At least",
			"Recomputed nodes"}
		if cutsAny(c) {
			t.Header = append(t.Header, "Cuts")
		}
	} else if files != nil {
		t.Header = append(t.Header, "plan")
	}
	for i, pt := range c.Points {
		if f == TableFormat {
			cells := []string{size(pt.Budget), size(pt.Live), size(pt.Arena), Percent(pt.Overhead),
				Percent(pt.LowerBound), Thousands(int64(pt.Nodes)), fmt.Sprint(len(c.Fission(i)))}
			t.Add(cells[:len(t.Header)]...)
			continue
		}
		cells := []string{fmt.Sprint(pt.Budget), fmt.Sprint(pt.Live), fmt.Sprint(pt.Arena),
			fmt.Sprintf("%.6f", pt.Overhead), fmt.Sprintf("%.6f", pt.LowerBound), fmt.Sprint(pt.Nodes),
			fmt.Sprint(len(c.Fission(i)))}
		if files != nil {
			cells = append(cells, files[i])
		}
		t.Add(cells...)
	}
	switch f {
	case CSVFormat:
		return t.WriteCSV(w)
	case MarkdownFormat:
		return t.WriteMarkdown(w)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	text := fmt.Sprintf("Sizes exclude inputs and weights, which take %s.", Bytes(c.Persistent))
	if n := len(files); n > 0 {
		text += fmt.Sprintf(" The plans are in %s, from %s to %s, in this order.", folder, files[0], files[n-1])
	}
	return Paragraph(w, text)
}

// cutsAny reports whether a plan of a curve computes regions in chunks.
func cutsAny(c *planner.Curve) bool {
	for i := range c.Points {
		if len(c.Fission(i)) > 0 {
			return true
		}
	}
	return false
}

// curveUnit is the unit of all sizes of a curve.
func curveUnit(c *planner.Curve) (unit string, print func(int64) string) {
	var sizes []int64
	for _, pt := range c.Points {
		sizes = append(sizes, pt.Budget, pt.Live, pt.Arena)
	}
	return SizeUnit(sizes...)
}

// againRow is the recomputed nodes of an operator.
type againRow struct {
	op    string
	nodes int
	bytes int64
	time  float64 // as a share of a step
}

// again sums the recomputed nodes of a plan by operator, the costliest first.
func again(p *planner.Plan) []againRow {
	if p.Base == nil {
		return nil
	}
	g, seconds, step := p.Analysis.Graph, p.NodeSeconds(), p.Baseline().Step.Seconds
	var rows []againRow
	at := map[string]int{}
	for _, pl := range p.Placements {
		for _, id := range pl.Nodes {
			n := g.Nodes[id]
			k, ok := at[n.Op]
			if !ok {
				k = len(rows)
				at[n.Op] = k
				rows = append(rows, againRow{op: n.Op})
			}
			rows[k].nodes++
			if step > 0 {
				rows[k].time += seconds[id] / step
			}
			for _, v := range n.Outputs {
				if v >= 0 {
					rows[k].bytes += max(p.Sizes.Bytes[v], 0)
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b againRow) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(b.bytes, a.bytes))
	})
	return rows
}

// againTable lists the recomputed nodes of a plan by operator.
func againTable(p *planner.Plan) *Table {
	rows := again(p)
	var sizes []int64
	for _, r := range rows {
		sizes = append(sizes, r.bytes)
	}
	unit, size := SizeUnit(sizes...)
	t := &Table{Title: "Recomputed nodes", Header: []string{"Runs", "Makes, " + unit, "Time of a step", "Op"},
		Right: []bool{true, true, true, false}}
	for _, r := range rows {
		t.Add(Thousands(int64(r.nodes)), size(r.bytes), "+"+Percent(r.time), r.op)
	}
	return t
}
