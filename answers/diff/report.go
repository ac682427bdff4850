package diff

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/view/report"
)

// Schema is the schema of the JSON of a comparison.
const Schema = "memopt.diff/v1"

// Write writes a comparison. Tables list at most so many changes of a kind; -1: all. JSON and CSV
// have all.
func Write(w io.Writer, f report.Format, r *Result, rows int) error {
	switch f {
	case report.JSONFormat:
		return report.WriteJSON(w, newJSON(r))
	case report.CSVFormat:
		return r.csv().WriteCSV(w)
	case report.MarkdownFormat:
		return r.writeMarkdown(w, rows)
	}
	return r.writeText(w, rows)
}

func (r *Result) writeText(w io.Writer, rows int) error {
	lines := strings.Split(r.headline(), "\n")
	for _, f := range r.Failed {
		lines = append(lines, fmt.Sprintf("Failed: %s: %s.", f.Condition, f.Why))
	}
	lines = append(lines, "", fmt.Sprintf("A: %s (%s)", r.A.Name, r.A.description()),
		fmt.Sprintf("B: %s (%s)", r.B.Name, r.B.description()))
	for _, line := range lines {
		if err := report.Paragraph(w, line); err != nil {
			return err
		}
	}
	for _, t := range r.tables(rows, false) {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := t.table.WriteText(w); err != nil {
			return err
		}
		if t.more > 0 {
			if err := report.Paragraph(w, fmt.Sprintf("… and %d more; -v lists all.", t.more)); err != nil {
				return err
			}
		}
	}
	return nil
}

// description is the schema of a report, else the kind of the subject.
func (s *Subject) description() string {
	if s.Kind == ReportKind {
		return s.Schema
	}
	return string(s.Kind)
}

// part is a table of a report.
type part struct {
	table *report.Table
	more  int // rows that it leaves out
	fold  bool
}

// tables are the tables of a report, without those that have no rows.
// A comment has room for the layer of each change.
func (r *Result) tables(rows int, comment bool) []part {
	parts := []part{{table: r.measureTable()}, {table: r.layerTable(), fold: true}}
	for _, k := range []struct {
		what  ChangeKind
		title string
	}{{LiveChange, "Live at the peak"}, {PlacementChange, "Placements"}, {MoveChange, "Moves to the host"},
		{ClusterChange, "Clusters"}, {StashChange, "Stashed activations"},
		{FieldChange, "Other fields"}} {
		layers := comment && slices.Contains([]ChangeKind{PlacementChange, MoveChange, StashChange}, k.what)
		parts = append(parts, r.changeTable(k.what, k.title, rows, layers))
	}
	out := parts[:0]
	for _, p := range parts {
		if len(p.table.Rows) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// measureTable has the measures on both sides.
func (r *Result) measureTable() *report.Table {
	t := &report.Table{Header: []string{"Measure", "A", "B", "Change"}, Right: []bool{false, true, true, true}}
	for _, p := range r.Measures {
		t.Add(p.Name, shown(p.A, p.Unit), shown(p.B, p.Unit), p.change())
	}
	return t
}

// layerTable sums changes up by layer.
func (r *Result) layerTable() *report.Table {
	t := &report.Table{Title: "By layer",
		Header: []string{"Layer", "Added", "Removed", "Changed", "Moves", "Stashes", "A stashes", "B stashes"},
		Right:  []bool{false, true, true, true, true, true, true, true}}
	for _, l := range r.Layers {
		t.Add(l.Name, fmt.Sprint(l.Added), fmt.Sprint(l.Removed), fmt.Sprint(l.Changed), fmt.Sprint(l.Moves),
			fmt.Sprint(l.Stashes), shown(l.A, Bytes), shown(l.B, Bytes))
	}
	return t
}

// changeTable lists changes of one kind.
func (r *Result) changeTable(kind ChangeKind, title string, rows int, layers bool) part {
	p := part{fold: true, table: &report.Table{}}
	p.table.Header = []string{"", "Name", "Change"}
	if layers {
		p.table.Header = []string{"", "Layer", "Name", "Change"}
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Kind != kind && !(kind == FieldChange && c.Kind == OrderChange) {
			continue
		}
		if rows >= 0 && len(p.table.Rows) >= rows {
			p.more++
			continue
		}
		sign := map[How]string{Added: "+", Removed: "-", Changed: "~"}[c.How]
		cells := []string{sign, c.Name, c.brief()}
		if layers {
			cells = []string{sign, c.Layer, c.Name, c.brief()}
		}
		p.table.Add(cells...)
	}
	p.table.Title = fmt.Sprintf("%s (%d)", title, len(p.table.Rows)+p.more)
	return p
}

// writeMarkdown writes a comment for a pull request: a headline, the measures, and the rest folded.
func (r *Result) writeMarkdown(w io.Writer, rows int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### memopt: %s\n\n", r.title())
	for _, f := range r.Failed {
		t := report.Table{Header: []string{"Failed", "Why"}}
		t.Add(f.Condition, f.Why)
		if err := t.WriteMarkdown(&b); err != nil {
			return err
		}
	}
	if !r.Same() {
		fmt.Fprintf(&b, "%s\n\n", r.counts())
	}
	sides := report.Table{Header: []string{"", "Compared", "Kind"}}
	sides.Add("A", r.A.Name, r.A.description())
	sides.Add("B", r.B.Name, r.B.description())
	for _, t := range r.tables(rows, true) {
		title := t.table.Title
		t.table.Title = ""
		if t.fold {
			fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", title)
		}
		if err := t.table.WriteMarkdown(&b); err != nil {
			return err
		}
		if t.more > 0 {
			fmt.Fprintf(&b, "… and %d more.\n\n", t.more)
		}
		if t.fold {
			b.WriteString("</details>\n\n")
		}
	}
	b.WriteString("<details><summary>Compared files</summary>\n\n")
	if err := sides.WriteMarkdown(&b); err != nil {
		return err
	}
	b.WriteString("</details>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// title is the headline of a comment: the failed condition, or the change of the peak. It has no
// names from files.
func (r *Result) title() string {
	for _, f := range r.Failed {
		if slices.ContainsFunc(measures[:], func(m Measure) bool { return m.Name == f.Field }) {
			return "FAILED: " + f.Why
		}
	}
	text := "no difference"
	if !r.Same() {
		text = "the plans differ"
		for _, p := range r.Measures {
			if p.Name == "peak" || p.Name == "time" {
				text = sentence(p)
				break
			}
		}
	}
	if len(r.Failed) > 0 {
		return "FAILED: " + text
	}
	return text
}

// csv is a row for each fact of each change, after the measures.
func (r *Result) csv() *report.Table {
	t := &report.Table{Header: []string{"what", "change", "layer", "name", "fact", "unit", "a", "b"}}
	exact := func(v Value) string { return v.Text }
	for _, f := range r.Failed {
		t.Add("failed", "", "", f.Condition, f.Field, string(f.Pair.Unit), exact(f.Pair.A), exact(f.Pair.B))
	}
	for _, p := range r.Measures {
		change := "same"
		if !p.A.same(p.B) {
			change = string(how(p.A, p.B))
		}
		t.Add(string(MeasureChange), change, "", p.Name, p.Name, string(p.Unit), exact(p.A), exact(p.B))
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Kind == MeasureChange {
			continue
		}
		for _, p := range c.Facts {
			t.Add(string(c.Kind), string(c.How), c.Layer, c.Name, p.Name, string(p.Unit), exact(p.A), exact(p.B))
		}
	}
	return t
}
