package report

import (
	"fmt"
	"io"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner"
)

// part is a kind of memory: a row of the tables and a field of the JSON.
type part struct {
	name  string
	bytes func(*live.Parts) int64
}

var parts = [...]part{
	{"Weights and inputs", func(p *live.Parts) int64 { return p.Weights }},
	{"Optimizer state", func(p *live.Parts) int64 { return p.State }},
	{"Gradients", func(p *live.Parts) int64 { return p.Gradients }},
	{"Activations stashed", func(p *live.Parts) int64 { return p.Activations }},
	{"Temporaries", func(p *live.Parts) int64 { return p.Temporaries }},
	{"Workspaces", func(p *live.Parts) int64 { return p.Workspace }},
	{"Inside subgraphs", func(p *live.Parts) int64 { return p.Inner }},
}

var phaseNames = [live.NumPhases]string{"forward", "backward", "update"}

// compositionTables list the live bytes by kind at the peak and at the worst step of each phase,
// before and after, in one unit.
func compositionTables(w io.Writer, p *planner.Plan) error {
	at, gaps := p.AtPeak()
	if at == nil {
		return nil
	}
	total := p.Persistent + p.Arena.Bytes
	unit, size := SizeUnit(p.Baseline().Before.Peak.Parts.Sum(), p.After.Peak.Parts.Sum(), total)
	if len(p.Placements) > 0 || p.Whole != nil {
		t := compositionTable("Live at the worst steps, baseline", p.Baseline().Before, unit, size)
		if err := t.paragraph(w); err != nil {
			return err
		}
	}
	t := compositionTable("Live at the worst steps, plan", p.After, unit, size)
	t.Add("Gaps in the arena", size(gaps))
	t.Add("Total", size(total))
	return t.paragraph(w)
}

// compositionTable has a column for the peak and one for each phase. Rows of zeros are left out.
func compositionTable(title string, c *live.Composition, unit string, size func(int64) string) *Table {
	t := &Table{Title: title, Header: []string{unit, "Peak"}, Right: []bool{false, true, true, true, true},
		Fit: []Fit{Wrap}}
	moments := []*live.Moment{&c.Peak}
	for ph, name := range phaseNames {
		if c.Phases[ph].Step >= 0 {
			t.Header = append(t.Header, capital(name))
			moments = append(moments, &c.Phases[ph])
		}
	}
	for _, part := range parts {
		row, any := []string{part.name}, false
		for _, m := range moments {
			n := part.bytes(&m.Parts)
			row, any = append(row, size(n)), any || n != 0
		}
		if any {
			t.Add(row...)
		}
	}
	sums := []string{"Together"}
	for _, m := range moments {
		sums = append(sums, size(m.Parts.Sum()))
	}
	t.Add(sums...)
	return t
}

// capital makes the first letter of an English word a capital.
func capital(word string) string { return string(word[0]-'a'+'A') + word[1:] }

// compositionMarkdown writes the parts in bytes, by phase, before and after.
func compositionMarkdown(w io.Writer, p *planner.Plan) error {
	at, gaps := p.AtPeak()
	if at == nil {
		return nil
	}
	t := Table{Title: "Live at the worst steps", Header: []string{"part"}, Right: []bool{false}}
	var moments []*live.Moment
	for i, c := range []*live.Composition{p.Baseline().Before, p.After} {
		for ph, name := range phaseNames {
			t.Header = append(t.Header, [...]string{"baseline", "planned"}[i]+", "+name)
			t.Right = append(t.Right, true)
			moments = append(moments, &c.Phases[ph])
		}
	}
	for _, part := range parts {
		row := []string{part.name}
		for _, m := range moments {
			row = append(row, fmt.Sprint(part.bytes(&m.Parts)))
		}
		t.Add(row...)
	}
	if err := t.WriteMarkdown(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "Gaps in the arena at the peak: %d bytes.\n\n", gaps)
	return err
}

// atPeakJSON is total_bytes at the plan's peak by kind: their sum. Fields are null if symbols are
// unbound.
type atPeakJSON struct {
	Weights     *int64 `json:"weights_bytes"`
	State       *int64 `json:"state_bytes"`
	Gradients   *int64 `json:"gradients_bytes"`
	Activations *int64 `json:"activations_bytes"`
	Temporaries *int64 `json:"temporaries_bytes"` // and values inside subgraphs, and the gaps of the arena
	Workspace   *int64 `json:"workspace_bytes"`
}

func newAtPeakJSON(p *planner.Plan) atPeakJSON {
	at, gaps := p.AtPeak()
	if at == nil {
		return atPeakJSON{}
	}
	rest := at.Temporaries + at.Inner + gaps
	return atPeakJSON{&at.Weights, &at.State, &at.Gradients, &at.Activations, &rest, &at.Workspace}
}

// phasesJSON has the live bytes at the worst step of each phase by kind. It is null if symbols are
// unbound.
type phasesJSON struct {
	Baseline halvesJSON `json:"baseline"`
	Planned  halvesJSON `json:"planned"`
	Gaps     int64      `json:"gaps_bytes"`
}

type halvesJSON struct {
	Forward  *momentJSON `json:"forward"`
	Backward *momentJSON `json:"backward"`
	Update   *momentJSON `json:"update"`
}

type momentJSON struct {
	Node        string `json:"node"`
	Live        int64  `json:"live_bytes"` // all of the following
	Weights     int64  `json:"weights_bytes"`
	State       int64  `json:"state_bytes"`
	Gradients   int64  `json:"gradients_bytes"`
	Activations int64  `json:"activations_bytes"`
	Temporaries int64  `json:"temporaries_bytes"`
	Workspace   int64  `json:"workspace_bytes"`
	Inner       int64  `json:"subgraph_bytes"`
}

func newPhasesJSON(p *planner.Plan) *phasesJSON {
	at, gaps := p.AtPeak()
	if at == nil {
		return nil
	}
	whole := p.Baseline()
	return &phasesJSON{newHalvesJSON(whole.Analysis.Graph, whole.Before),
		newHalvesJSON(p.Analysis.Graph, p.After), gaps}
}

func newHalvesJSON(g *graph.Graph, c *live.Composition) halvesJSON {
	moment := func(ph live.Phase) *momentJSON {
		m := &c.Phases[ph]
		if m.Step < 0 {
			return nil
		}
		x := &m.Parts
		return &momentJSON{g.NodeLabel(m.Node), x.Sum(), x.Weights, x.State, x.Gradients, x.Activations,
			x.Temporaries, x.Workspace, x.Inner}
	}
	return halvesJSON{moment(live.ForwardPhase), moment(live.BackwardPhase), moment(live.UpdatePhase)}
}
