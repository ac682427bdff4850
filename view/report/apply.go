package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"memopt/planner"
	"memopt/planner/anchor"
	"memopt/recompute"
)

// ApplySchema is the schema of the JSON that `memopt apply -O json` prints.
const ApplySchema = "memopt.apply/v1"

type applyJSON struct {
	Schema     string      `json:"schema"`
	Out        string      `json:"out"`
	Nodes      int         `json:"nodes"`
	Clones     int         `json:"clones"`
	Placements int         `json:"placements"`
	Seeded     []string    `json:"seeded"`
	Peak       peakJSON    `json:"peak"`
	Anchors    *anchorJSON `json:"anchors"`
	Guards     int         `json:"guard_nodes"` // that keep stock ONNX Runtime from changing the numbers
	Budget     *budgetJSON `json:"budget"`
	Fission    []cutJSON   `json:"fission"`
	// Sizes are the only sizes that the file holds for; null means that it has the symbols of the
	// model.
	Sizes    map[string]int64 `json:"sizes"`
	Warnings []string         `json:"warnings"`
}

// anchorJSON describes the written anchors. It is null without anchors.
type anchorJSON struct {
	Anchors int             `json:"anchors"`
	Nodes   int             `json:"nodes"`
	Seconds float64         `json:"seconds"` // their estimated time in one step
	Peak    *anchorPeakJSON `json:"peak"`    // null if symbols are unbound
}

// budgetJSON reports whether the file is within the budget in stock ONNX Runtime. It is null without a
// budget that bounds an arena, and without anchors.
type budgetJSON struct {
	In    string `json:"in"`            // memopt or ort: whose memory the plan had to fit
	Arena int64  `json:"arena_bytes"`   // that the budget leaves the runtime's arena
	Taken int64  `json:"runtime_bytes"` // of that arena, predicted
	Fits  bool   `json:"runtime_fits"`
}

// anchorPeakJSON has the predicted peaks in the default order of stock ONNX Runtime: of the original
// graph, of the rewritten one without anchors, of the rewritten one.
type anchorPeakJSON struct {
	Baseline int64 `json:"baseline_bytes"`
	Bare     int64 `json:"bare_bytes"`
	Anchored int64 `json:"anchored_bytes"`
	// In use in its arena.
	BaselineArena int64 `json:"baseline_arena_bytes"`
	AnchoredArena int64 `json:"anchored_arena_bytes"`
}

// Apply reports on a rewrite. The CSV and Markdown forms have the fields of the table.
func Apply(
	w io.Writer, format Format, out string, p *planner.Plan, r *recompute.Rewritten, anchoring *anchor.Anchoring,
) error {
	j := applyJSON{
		Schema: ApplySchema, Out: out, Nodes: len(r.Model.Graph.Nodes), Clones: r.Clones, Placements: len(p.Placements),
		Guards: r.GuardNodes, Seeded: []string{}, Fission: newCutsJSON(p), Warnings: nonNil(p.Warnings),
	}
	if p.Whole != nil {
		j.Sizes = p.Whole.Options.Dims
	}
	for _, id := range r.Seeded {
		j.Seeded = append(j.Seeded, p.Analysis.Graph.NodeLabel(id))
	}
	if p.Base != nil {
		j.Peak = newPlanJSON(p, "").Peak
	}
	if anchoring != nil {
		j.Anchors = &anchorJSON{Anchors: len(anchoring.Anchors), Nodes: r.AnchorNodes, Seconds: anchoring.Seconds()}
		if anchoring.Simulated && p.Session == nil {
			j.Anchors.Peak = &anchorPeakJSON{anchoring.Base, anchoring.Bare, anchoring.Anchored, anchoring.BaseArena,
				anchoring.AnchoredArena}
		}
	}
	if limit, fits := p.RuntimeBudget(anchoring); limit != 0 {
		j.Budget = &budgetJSON{In: "memopt", Arena: limit, Taken: anchoring.AnchoredArena, Fits: fits}
		if s := p.Session; s != nil {
			j.Budget.Taken = s.Planned
		}
		if p.Options.Limit().ORTModule {
			j.Budget.In = "ortmodule"
		} else if p.Options.Limit().Runtime {
			j.Budget.In = "ort"
		}
	}
	if format == JSONFormat {
		return WriteJSON(w, j)
	}
	t := Table{Header: []string{"item", "value"}, Right: []bool{false, true}, Fit: []Fit{Wrap, Wrap}}
	t.Add("written to", out)
	t.Add("nodes", fmt.Sprint(j.Nodes))
	t.Add("recomputed nodes", fmt.Sprint(j.Clones))
	t.Add("recomputed values", fmt.Sprint(j.Placements))
	t.Add("random nodes given a seed", fmt.Sprint(len(j.Seeded)))
	if s := p.Session; s != nil {
		t.Add("peak before, in ORTModule", Bytes(s.Base))
		t.Add("peak after, in ORTModule", Bytes(s.Planned))
	} else if p.Base != nil {
		t.Add("peak before, live", Bytes(p.Baseline().Base.Peak.Bytes))
		t.Add("peak after, live", Bytes(p.Planned.Peak.Bytes))
	}
	if text := p.FissionText(); text != "" {
		t.Add("computed in parts", text)
	}
	if len(j.Sizes) > 0 {
		t.Add("holds for no sizes but", sizesText(j.Sizes))
	}
	j.Anchors.addTo(&t)
	if j.Guards > 0 {
		t.Add("nodes of guards", fmt.Sprint(j.Guards))
	}
	return t.WriteAs(w, format)
}

// sizesText lists the bindings of symbols.
func sizesText(dims map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		list = append(list, fmt.Sprintf("%s=%d", name, dims[name]))
	}
	return strings.Join(list, ", ")
}

// addTo adds the rows of a table.
func (j *anchorJSON) addTo(t *Table) {
	if j == nil {
		return
	}
	t.Add("anchors", fmt.Sprint(j.Anchors))
	t.Add("nodes of anchors", fmt.Sprint(j.Nodes))
	if j.Peak != nil {
		t.Add("peak before, in ONNX Runtime", Bytes(j.Peak.Baseline))
		t.Add("peak after, in ONNX Runtime", Bytes(j.Peak.Anchored))
		t.Add("arena after, in ONNX Runtime", Bytes(j.Peak.AnchoredArena))
	}
}

// WriteAs writes the table in a form other than JSON.
func (t *Table) WriteAs(w io.Writer, format Format) error {
	switch format {
	case CSVFormat:
		return t.WriteCSV(w)
	case MarkdownFormat:
		return t.WriteMarkdown(w)
	}
	return t.WriteText(w)
}
