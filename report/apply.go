package report

import (
	"fmt"
	"io"

	"memopt/planner"
	"memopt/recompute"
)

// ApplySchema is the schema of the JSON that `memopt apply -O json` prints.
const ApplySchema = "memopt.apply/v1"

type applyJSON struct {
	Schema     string   `json:"schema"`
	Out        string   `json:"out"`
	Nodes      int      `json:"nodes"`
	Clones     int      `json:"clones"`
	Placements int      `json:"placements"`
	Seeded     []string `json:"seeded"`
	Peak       peakJSON `json:"peak"`
	Warnings   []string `json:"warnings"`
}

// Apply says what a rewrite did. The CSV and Markdown forms have the fields of the table.
func Apply(w io.Writer, format Format, out string, p *planner.Plan, r *recompute.Rewritten) error {
	j := applyJSON{Schema: ApplySchema, Out: out, Nodes: len(r.Model.Graph.Nodes), Clones: r.Clones, Placements: len(p.Placements), Seeded: []string{}, Warnings: nonNil(p.Warnings)}
	for _, id := range r.Seeded {
		j.Seeded = append(j.Seeded, p.Analysis.Graph.NodeLabel(id))
	}
	if p.Base != nil {
		j.Peak = newPlanJSON(p, "").Peak
	}
	if format == JSONFormat {
		return writeJSON(w, j)
	}
	t := Table{Header: []string{"what", "value"}, Right: []bool{false, true}}
	t.Add("written to", out)
	t.Add("nodes", fmt.Sprint(j.Nodes))
	t.Add("nodes that run again", fmt.Sprint(j.Clones))
	t.Add("values made again", fmt.Sprint(j.Placements))
	t.Add("random nodes given a seed", fmt.Sprint(len(j.Seeded)))
	if p.Base != nil {
		t.Add("peak before, live", Bytes(p.Base.Peak.Bytes))
		t.Add("peak after, live", Bytes(p.Planned.Peak.Bytes))
	}
	return t.writeAs(w, format)
}

// writeAs writes the table in a form other than JSON.
func (t *Table) writeAs(w io.Writer, format Format) error {
	switch format {
	case CSVFormat:
		return t.WriteCSV(w)
	case MarkdownFormat:
		return t.WriteMarkdown(w)
	}
	return t.WriteText(w)
}
