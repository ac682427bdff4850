package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"memopt/planner"
)

// budgetSummary says how good a plan to a budget is and what less would cost.
func budgetSummary(w io.Writer, p, level1 *planner.Plan) error {
	b := p.Bound
	if b == nil {
		return nil
	}
	text := fmt.Sprintf("Budget: the arena fits. Found by %s; ", p.Solver)
	if p.Runtime != nil {
		text = fmt.Sprintf("Budget: the arena of stock ONNX Runtime fits. Found by %s; ", p.Solver)
	}
	if b.Optimal {
		text += "no plan in this order is cheaper.\n"
	} else {
		text += fmt.Sprintf("no plan in this order costs less than +%s: at most %s of a step "+
			"could still be saved.\n",
			Percent(b.Overhead), Percent(b.Gap))
	}
	if n := p.Lower; n != nil {
		text += fmt.Sprintf("The peak is at node %q. The next lower plan found: %s live, an arena "+
			"of %s, for +%s time.\n",
			p.Analysis.Graph.NodeLabel(p.Planned.Peak.Node), Bytes(n.Live), Bytes(n.Arena), Percent(n.Overhead))
	}
	if _, err := io.WriteString(w, text+"\n"); err != nil {
		return err
	}
	return besides(w, p, level1)
}

// besides shows the plan beside the usual alternatives: ONNX Runtime's level 1, and checkpoints of
// whole layers.
func besides(w io.Writer, p, level1 *planner.Plan) error {
	t := Table{
		Title: "Alternatives", Header: []string{"What runs again", "Peak, live", "Time"},
		Right: []bool{false, true, true}, Fit: []Fit{Wrap},
	}
	t.Add("this plan", Bytes(p.Planned.Peak.Bytes), "+"+Percent(p.Overhead))
	if level1 != nil {
		t.Add("--level 1", Bytes(level1.Planned.Peak.Bytes)+fits(level1.Planned.Peak.Bytes <= p.Planned.Peak.Bytes),
			"+"+Percent(level1.Overhead))
	}
	for _, alt := range p.Alternatives {
		t.Add(alt.Name, Bytes(alt.Live)+fits(alt.Fits), "+"+Percent(alt.Overhead))
	}
	if len(t.Rows) < 2 {
		return nil
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
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
	Points          []pointJSON `json:"points"`
}

type pointJSON struct {
	BudgetBytes        int64   `json:"budget_bytes"`
	PeakBytes          int64   `json:"peak_bytes"`
	ArenaBytes         int64   `json:"arena_bytes"`
	Overhead           float64 `json:"overhead"`
	OverheadLowerBound float64 `json:"overhead_lower_bound"`
	Nodes              int     `json:"nodes"`
}

// Pareto writes the curve of budget and cost. Budgets and peaks are bytes without inputs and
// weights.
func Pareto(w io.Writer, f Format, model string, c *planner.Curve) error {
	if f == JSONFormat {
		j := paretoJSON{Schema: ParetoSchema, Model: model, PersistentBytes: c.Persistent, Points: []pointJSON{}}
		for _, pt := range c.Points {
			j.Points = append(j.Points, pointJSON{pt.Budget, pt.Live, pt.Arena, pt.Overhead, pt.LowerBound, pt.Nodes})
		}
		return WriteJSON(w, j)
	}
	t := &Table{Title: "Budget and cost",
		Header: []string{"budget_bytes", "peak_bytes", "arena_bytes", "overhead", "overhead_lower_bound", "nodes"},
		Right:  []bool{true, true, true, true, true, true}}
	if f == TableFormat {
		t.Header = []string{"Budget", "Peak", "Arena", "Overhead", "At least", "Nodes run again"}
	}
	for _, pt := range c.Points {
		if f == TableFormat {
			t.Add(Bytes(pt.Budget), Bytes(pt.Live), Bytes(pt.Arena), Percent(pt.Overhead), Percent(pt.LowerBound),
				Thousands(int64(pt.Nodes)))
			continue
		}
		t.Add(fmt.Sprint(pt.Budget), fmt.Sprint(pt.Live), fmt.Sprint(pt.Arena), fmt.Sprintf("%.6f", pt.Overhead),
			fmt.Sprintf("%.6f", pt.LowerBound), fmt.Sprint(pt.Nodes))
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
	_, err := fmt.Fprintf(w, "Sizes exclude inputs and weights, which take %s.\n", Bytes(c.Persistent))
	return err
}

// againTable says what a plan to a budget runs again, by operator, the costliest first.
func againTable(p *planner.Plan) *Table {
	g, seconds := p.Analysis.Graph, p.NodeSeconds()
	type row struct {
		op    string
		nodes int
		bytes int64
		time  float64
	}
	var rows []row
	at := map[string]int{}
	for _, pl := range p.Placements {
		for _, id := range pl.Nodes {
			n := g.Nodes[id]
			k, ok := at[n.Op]
			if !ok {
				k = len(rows)
				at[n.Op] = k
				rows = append(rows, row{op: n.Op})
			}
			rows[k].nodes++
			rows[k].time += seconds[id]
			for _, v := range n.Outputs {
				if v >= 0 {
					rows[k].bytes += max(p.Sizes.Bytes[v], 0)
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(b.bytes, a.bytes))
	})
	t := &Table{
		Title: "What runs again", Header: []string{"Op", "Runs", "Makes", "Time of a step"},
		Right: []bool{false, true, true, true}, Fit: []Fit{Wrap},
	}
	for _, r := range rows {
		share := 0.0
		if p.Step.Seconds > 0 {
			share = r.time / p.Step.Seconds
		}
		t.Add(r.op, Thousands(int64(r.nodes)), Bytes(r.bytes), "+"+Percent(share))
	}
	return t
}
