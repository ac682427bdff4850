package pytorch

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/planner/moduleplan"
	"memopt/view/report"
)

// Schema is the schema of the JSON that `memopt plan --select modules -O json` prints.
const Schema = "memopt.modules/v1"

// usageJSON is the memory of a choice of modules.
type usageJSON struct {
	Peak      int64   `json:"peak_bytes"`
	Saved     int64   `json:"saved_bytes"`
	Blocks    int64   `json:"allocator_peak_bytes"`
	Recompute float64 `json:"recompute_seconds"`
	Share     float64 `json:"recompute_share"`
}

// choiceJSON is a choice of modules that a plan is compared with.
type choiceJSON struct {
	Name    string   `json:"name"`
	Modules []string `json:"modules"`
	usageJSON
}

type planJSON struct {
	Schema   string           `json:"schema"`
	Model    modelJSON        `json:"model"`
	Dims     map[string]int64 `json:"dims"`
	Fits     bool             `json:"fits"`
	Limit    *int64           `json:"limit_bytes"`
	Held     int64            `json:"held_bytes"`
	Step     float64          `json:"step_seconds"`
	Exact    bool             `json:"exact"`
	Modules  []string         `json:"modules"`
	Peak     peakJSON         `json:"peak"`
	Compared []choiceJSON     `json:"compared"`
	usageJSON
}

type modelJSON struct {
	Path            string `json:"path"`
	StructureSHA256 string `json:"structure_sha256"`
}

// peakJSON is where the peak is.
type peakJSON struct {
	Operator string `json:"operator"`
	Node     string `json:"node"`
	Module   string `json:"module"`
	Again    bool   `json:"again"`
}

func (p *Plan) usage(x *moduleplan.Plan) usageJSON {
	return usageJSON{x.Usage.Peak, x.Usage.Saved, x.Usage.Blocks, x.Usage.Seconds, p.Overhead(x)}
}

// choices are the plans to compare with, in the order of reports.
func (p *Plan) choices() []choiceJSON {
	var list []choiceJSON
	add := func(name string, x *moduleplan.Plan) {
		if x != nil {
			list = append(list, choiceJSON{name, p.Names(x), p.usage(x)})
		}
	}
	add("nothing", p.Baseline)
	add("every block", p.Every)
	add("every second", p.EverySecond)
	for _, r := range p.Ladder {
		add(fmt.Sprintf("budget %.0f%%", 100*r.Share), r.Plan)
	}
	return list
}

// at is the place of a plan's peak.
func (p *Plan) at(x *moduleplan.Plan) peakJSON {
	s := &p.Program.Steps[x.Usage.At]
	at := peakJSON{Operator: s.Op, Node: p.Source.Node(s), Again: x.Usage.Again}
	if s.Call >= 0 {
		at.Module = p.Tree.Modules[p.Tree.Calls[s.Call].Module].Name
	}
	return at
}

// Report prints the plan in one of the forms of -O.
func (p *Plan) Report(w io.Writer, format report.Format) error {
	switch format {
	case report.JSONFormat:
		j := &planJSON{Schema: Schema, Model: modelJSON{p.Source.Path, p.Source.StructureSHA256},
			Dims: p.Source.Dims, Fits: p.Fits,
			Held: p.Program.Held, Step: p.Step, Exact: p.Chosen.Exact, Modules: p.Names(p.Chosen), Peak: p.at(p.Chosen),
			Compared: p.choices(), usageJSON: p.usage(p.Chosen)}
		if p.Limit > 0 {
			j.Limit = &p.Limit
		}
		return report.WriteJSON(w, j)
	case report.CSVFormat:
		return p.table().WriteCSV(w)
	case report.MarkdownFormat:
		return p.table().WriteMarkdown(w)
	}
	for _, text := range p.sentences() {
		if err := report.Paragraph(w, text); err != nil {
			return err
		}
	}
	return p.table().WriteText(w)
}

// sentences describe the plan.
func (p *Plan) sentences() []string {
	x, base := p.Chosen, p.Baseline
	var out []string
	switch {
	case !p.Fits:
		out = append(out, fmt.Sprintf("Does not fit: with modules under checkpoints the peak in PyTorch is %s at the "+
			"lowest, the budget %s.", report.Bytes(x.Usage.Peak), report.Bytes(p.Limit)))
	case p.Limit > 0:
		out = append(out, fmt.Sprintf("Fits: %s in PyTorch, budget %s.", report.Bytes(x.Usage.Peak),
			report.Bytes(p.Limit)))
	}
	at := p.at(x)
	where := at.Operator
	switch {
	case at.Node != "":
		where += " at " + at.Node
	case at.Module != "":
		where += " of " + at.Module
	}
	if at.Again {
		where += ", where it runs again"
	}
	out = append(out, fmt.Sprintf("Peak in PyTorch: %s, with %s of parameters, buffers and inputs; in %s.",
		report.Bytes(x.Usage.Peak), report.Bytes(p.Program.Held), where))
	switch {
	case len(x.Calls) == 0 && !p.Fits:
		return append(out, "No recomputation: no checkpoint lowers this peak.", "")
	case len(x.Calls) == 0:
		return append(out, "No recomputation: no budget or level was given, or the step fits without.", "")
	}
	exact := ""
	if x.Exact && p.Limit > 0 {
		exact = ", the least of all choices of these modules"
	}
	return append(out, fmt.Sprintf("Under torch.utils.checkpoint: %s; %s less than the %s without, for %s of a "+
		"step more%s.",
		p.listed(x), report.Bytes(base.Usage.Peak-x.Usage.Peak), report.Bytes(base.Usage.Peak),
		report.Percent(p.Overhead(x)), exact), "")
}

// listed are the modules of a plan, runs of a list's items in one: h.0–h.3.
func (p *Plan) listed(x *moduleplan.Plan) string {
	names := p.Names(x)
	var out []string
	for i := 0; i < len(names); {
		j := i
		for j+1 < len(names) && follows(names[j], names[j+1]) {
			j++
		}
		if j > i+1 {
			out = append(out, names[i]+" to "+names[j])
		} else {
			out = append(out, names[i:j+1]...)
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}

// follows reports whether a name is another one with the one number in it raised by one.
func follows(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	if len(x) != len(y) {
		return false
	}
	differ := 0
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		var m, n int
		if _, err := fmt.Sscanf(x[i]+" "+y[i], "%d %d", &m, &n); err != nil || n != m+1 {
			return false
		}
		differ++
	}
	return differ == 1
}

// table compares the plan with others.
func (p *Plan) table() *report.Table {
	t := &report.Table{Title: "Memory in PyTorch", Header: []string{"Choice", "Peak", "Saved", "GPU blocks",
		"More time", "Under checkpoints"}, Right: []bool{false, true, true, true, true, false}}
	list := p.choices()
	if len(p.Chosen.Calls) > 0 && !slices.ContainsFunc(list, func(c choiceJSON) bool {
		return slices.Equal(c.Modules, p.Names(p.Chosen))
	}) {
		list = append([]choiceJSON{{"this plan", p.Names(p.Chosen), p.usage(p.Chosen)}}, list...)
	}
	for _, c := range list {
		x := &moduleplan.Plan{}
		for _, name := range c.Modules {
			x.Calls = append(x.Calls, p.callOf(name))
		}
		t.Add(c.Name, report.Bytes(c.Peak), report.Bytes(c.Saved), report.Bytes(c.Blocks), report.Percent(c.Share),
			p.listed(x))
	}
	return t
}

// callOf is the first call of a module.
func (p *Plan) callOf(name string) int32 {
	id := p.Tree.Lookup(name)
	for i, c := range p.Tree.Calls {
		if c.Module == id {
			return int32(i)
		}
	}
	return -1
}
