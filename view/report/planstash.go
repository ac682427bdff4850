package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/planner"
)

// titled is a table and a note below it.
type titled struct {
	table Table
	note  string
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

// sortedStashes are the stashed activations, the largest first.
func sortedStashes(p *planner.Plan) []planner.StashRow {
	rows := slices.Clone(p.Stashed)
	size := func(r planner.StashRow) int64 {
		return rank(p.Analysis.Graph.Values[r.Value].Type.Bytes(), p.Options.Dims)
	}
	slices.SortStableFunc(rows, func(x, y planner.StashRow) int { return cmp.Compare(size(y), size(x)) })
	return rows
}

// stashTable lists the largest stashed activations. Exact bytes and operators are for screens
// without a limit, as are the configurations that enable their clusters.
func stashTable(p *planner.Plan, limit int, wide bool) *titled {
	rows := sortedStashes(p)
	t := &titled{table: Table{Title: fmt.Sprintf("Stashed activations (%d)", len(rows))}}
	if limit >= 0 && len(rows) > limit {
		t.note = fmt.Sprintf("… and %d more; -v lists all.\n", len(rows)-limit)
		rows = rows[:limit]
	}
	if wide {
		t.table.Header, t.table.Right = []string{"Bytes", "Op", "Why it is kept", "Value"}, []bool{true}
	} else {
		t.table.Right, t.table.Fit = []bool{true}, []Fit{Whole, Wrap, Cut}
	}
	unit, print := stashUnit(p, rows)
	if !wide {
		t.table.Header = []string{unit, "Why it is kept", "Value"}
	}
	g := p.Analysis.Graph
	for _, r := range rows {
		name, why := g.Values[r.Value].Name, cmp.Or(r.WhyKept, "recomputed")
		if wide {
			t.table.Add(stashSize(p, r, Thousands), g.Nodes[r.Node].Op, why, name)
			continue
		}
		why, _, _ = strings.Cut(why, ";")
		t.table.Add(stashSize(p, r, print), why, name)
	}
	return t
}

// stashUnit is the unit of the sizes of rows that are known.
func stashUnit(p *planner.Plan, rows []planner.StashRow) (unit string, print func(int64) string) {
	var sizes []int64
	for _, r := range rows {
		if n, err := p.Analysis.Graph.Values[r.Value].Type.Bytes().Eval(p.Options.Dims); err == nil {
			sizes = append(sizes, n)
		}
	}
	if len(sizes) == 0 {
		return "Bytes", Thousands
	}
	return SizeUnit(sizes...)
}

// stashSize is a size as a number, or as a formula where symbols are unbound.
func stashSize(p *planner.Plan, r planner.StashRow, print func(int64) string) string {
	e := p.Analysis.Graph.Values[r.Value].Type.Bytes()
	if !e.IsKnown() {
		return "unknown"
	}
	if n, err := e.Eval(p.Options.Dims); err == nil {
		return print(n)
	}
	return e.String()
}
