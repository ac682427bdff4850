package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/hint"
	"memopt/symbolic"
	"memopt/view/report"
)

// Schema is the schema of the JSON that `memopt explain -O json` prints.
const Schema = "memopt.explain/v1"

// ByValue is the grouping with a row for every value.
const ByValue = "value"

// Groupings are the possible groupings of tables.
var Groupings = []string{ByValue, "kind", "layer", "op"}

// View has the options of a report.
type View struct {
	By  string // one of Groupings; "": ByValue
	Top int    // rows of a table; 0 means all
	// Step is the explained training step; nil if unspecified.
	Step *report.Step
	// Reserved is the bytes of the device's memory that count beside the step.
	Reserved int64
}

// Answer describes the peak and its composition in a sentence or two.
func (r *Result) Answer() string {
	peak := r.Plan.Planned.Peak.Bytes
	text := fmt.Sprintf("The peak is %s, at node %q, run %d of %d.", report.Bytes(peak), r.PeakNode, r.Step+1, r.Steps)
	if r.Name == "" {
		text += fmt.Sprintf(" Beside it, %s of inputs and weights are live throughout.",
			report.Bytes(r.Plan.Persistent))
		return text + r.movesText()
	}
	switch sum := r.Sum(); {
	case len(r.Values) == 0 && len(r.Elsewhere) == 0 && len(r.OnHost) > 0:
		return text + fmt.Sprintf(" %s of %q are on the host then.", report.Bytes(r.hosted()), r.Name)
	case len(r.Values) == 0 && len(r.Elsewhere) == 1:
		return text + fmt.Sprintf(" %s is not in it: %s.", r.Elsewhere[0].Name, r.Elsewhere[0].Why)
	case len(r.Values) == 0:
		return text + fmt.Sprintf(" No value of %q is in it.", r.Name)
	case len(r.Values) == 1:
		v := r.Values[0]
		return text + fmt.Sprintf(" %s takes %s of it: %s.", v.title(), report.Bytes(v.Bytes), v.Why)
	default:
		return text + fmt.Sprintf(" %d values of %q take %s of it, %s.", len(r.Values), r.Name, report.Bytes(sum),
			report.Percent(share(sum, peak)))
	}
}

// movesText says where the values of a plan are that may move to the host; "" for another plan without copies.
func (r *Result) movesText() string {
	text := ""
	if c := r.Copies; c != nil {
		text = fmt.Sprintf(" %s of values are on the host then. To the host go %s", report.Bytes(r.HostBytes),
			report.CopiesText(c, r.Link.BytesPerSecond))
	} else if r.Moving != nil {
		text = " No value moves to the host."
	}
	if r.Moving == nil {
		return text
	}
	kept, again, moved := r.Counts[Kept], r.Counts[Recomputed], r.Counts[Moved]
	return text + fmt.Sprintf(" The plan keeps %d stashed activations (%s), recomputes %d (%s) and moves %d values "+
		"(%s).", kept.Values, report.Bytes(kept.Bytes), again.Values, report.Bytes(again.Bytes), moved.Values,
		report.Bytes(moved.Bytes))
}

// hosted is the bytes of OnHost.
func (r *Result) hosted() (sum int64) {
	for _, h := range r.OnHost {
		sum += h.Bytes
	}
	return sum
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// title names a row.
func (v *Value) title() string {
	if v.Name != "" {
		return v.Name
	}
	return "(" + v.Kind.String() + ")"
}

func expression(e symbolic.Expr) string {
	if !e.IsKnown() {
		return ""
	}
	return e.FloatString(1, 1)
}

type resultJSON struct {
	Schema     string           `json:"schema"`
	Model      modelJSON        `json:"model"`
	Dims       map[string]int64 `json:"dims"`
	Step       *report.Step     `json:"step"`
	Name       *string          `json:"name"`
	PeakNode   string           `json:"peak_node"`
	PeakStep   int              `json:"peak_step"`
	Steps      int              `json:"steps"`
	Peak       int64            `json:"peak_bytes"`
	Total      int64            `json:"total_bytes"`
	Persistent int64            `json:"persistent_bytes"`
	Baseline   int64            `json:"baseline_bytes"`
	Host       int64            `json:"host_bytes,omitempty"`
	HostAtPeak int64            `json:"host_at_peak_bytes,omitempty"`
	// Copies are those between device and host, OnHost the values on the host at the peak.
	Copies     *report.CopiesJSON  `json:"copies,omitempty"`
	OnHost     []hostedJSON        `json:"on_host,omitempty"`
	Placements map[Placement]Count `json:"placements,omitempty"`
	AliveBytes int64               `json:"alive_bytes"`
	Alive      []valueJSON         `json:"alive"`
	Elsewhere  []absentJSON        `json:"elsewhere"`
	Profile    string              `json:"profile"`
}

type hostedJSON struct {
	Value    string  `json:"value"`
	Bytes    int64   `json:"bytes"`
	Layer    string  `json:"layer"`
	Producer *string `json:"producer"`
	Back     *string `json:"back"`
	HeldBy   *string `json:"held_by"`
	First    int     `json:"first_step"`
	Last     int     `json:"last_step"`
}

type modelJSON struct {
	Path            string `json:"path"`
	StructureSHA256 string `json:"structure_sha256"`
}

type valueJSON struct {
	Value      *string   `json:"value"`
	Bytes      int64     `json:"bytes"`
	Expr       *string   `json:"expr"`
	Kind       string    `json:"kind"`
	Placement  *string   `json:"placement"`
	Layer      string    `json:"layer"`
	Op         *string   `json:"op"`
	Producer   *string   `json:"producer"`
	LastReader *string   `json:"last_reader"`
	HeldBy     *string   `json:"held_by"`
	Cluster    *string   `json:"cluster"`
	Why        string    `json:"why"`
	Again      *string   `json:"recomputed"`
	Fixes      []fixJSON `json:"fixes"`
}

type fixJSON struct {
	What     string  `json:"what"`
	How      string  `json:"how"`
	Saves    int64   `json:"saves_bytes"`
	Millis   float64 `json:"costs_ms"`
	Peak     int64   `json:"peak_bytes"`
	PeakNode string  `json:"peak_node"`
	Hint     bool    `json:"hint"`
}

type absentJSON struct {
	Value      string  `json:"value"`
	Bytes      int64   `json:"bytes"`
	Expr       *string `json:"expr"`
	Layer      string  `json:"layer"`
	Producer   *string `json:"producer"`
	LastReader *string `json:"last_reader"`
	First      *int    `json:"first_step"`
	Last       *int    `json:"last_step"`
	Why        string  `json:"why"`
}

// optional is nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// json is the form of a result in JSON.
func (r *Result) json(view View) *resultJSON {
	p := r.Plan
	out := &resultJSON{Schema: Schema, Model: modelJSON{p.Of.Path, p.Of.StructureSHA256},
		Dims: map[string]int64{}, Step: view.Step, Name: optional(r.Name),
		PeakNode: r.PeakNode, PeakStep: r.Step, Steps: r.Steps,
		Peak: p.Planned.Peak.Bytes, Total: p.Persistent + p.Arena.Bytes + view.Reserved,
		Persistent: p.Persistent, Baseline: p.Baseline().Base.Peak.Bytes,
		AliveBytes: r.Sum(), Alive: []valueJSON{}, Elsewhere: []absentJSON{}, Profile: p.ProfileName()}
	if r.Moving != nil {
		out.Baseline = r.Moving.Plan.Baseline().Base.Peak.Bytes
	}
	if h := p.Planned.Host; h != nil {
		out.Host, out.HostAtPeak = h.Peak.Bytes, r.HostBytes
	}
	out.Copies, out.Placements = report.NewCopiesJSON(r.Copies, r.Link.BytesPerSecond), r.Counts
	for _, h := range r.OnHost {
		out.OnHost = append(out.OnHost, hostedJSON{h.Name, h.Bytes, h.Layer, optional(h.Producer), optional(h.Back),
			optional(h.HeldBy), h.First, h.Until})
	}
	for name, n := range p.Options.Dims {
		out.Dims[name] = n
	}
	for _, v := range r.Values {
		row := valueJSON{optional(v.Name), v.Bytes, optional(expression(v.Expr)), v.Kind.String(),
			optional(string(v.Placement)), v.Layer, optional(v.Op), optional(v.Producer), optional(v.LastReader),
			optional(v.HeldBy), optional(v.Cluster), v.Why, optional(v.Again), []fixJSON{}}
		for _, f := range v.Fixes {
			row.Fixes = append(row.Fixes, fixJSON(f))
		}
		out.Alive = append(out.Alive, row)
	}
	for _, a := range r.Elsewhere {
		row := absentJSON{a.Name, a.Bytes, optional(expression(a.Expr)), a.Layer, optional(a.Producer),
			optional(a.LastReader), nil, nil, a.Why}
		if a.First >= 0 {
			row.First, row.Last = &a.First, &a.Until
		}
		out.Elsewhere = append(out.Elsewhere, row)
	}
	return out
}

// Report writes a result.
func Report(w io.Writer, format report.Format, r *Result, view View) error {
	if format == report.JSONFormat {
		return report.WriteJSON(w, r.json(view))
	}
	if format != report.CSVFormat {
		if err := report.StepLine(w, format, view.Step); err != nil {
			return err
		}
		if err := report.Sentences(w, format, r.Answer()); err != nil {
			return err
		}
	}
	for i, t := range r.tables(format, view) {
		if i > 0 && format == report.TableFormat {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := t.WriteAs(w, format); err != nil {
			return err
		}
	}
	return nil
}

// tables are the tables of a result that have rows.
func (r *Result) tables(format report.Format, view View) []*report.Table {
	by := cmp.Or(view.By, ByValue)
	var out []*report.Table
	single := by == ByValue && r.Name != "" && len(r.Values) == 1
	switch {
	case format == report.CSVFormat && by == ByValue:
		return []*report.Table{r.csv()}
	case single:
		out = append(out, r.facts(r.Values[0]))
	case len(r.Values) > 0 && by == ByValue:
		out = append(out, r.values(view.Top))
	case len(r.Values) > 0:
		out = append(out, r.groups(by, view.Top))
	}
	if format == report.CSVFormat {
		return out
	}
	if t := r.fixes(view.Top, single); by == ByValue && len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := r.onHost(view.Top); by == ByValue && len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := r.absent(view.Top); len(t.Rows) > 0 {
		out = append(out, t)
	}
	return out
}

// values has a row for every value.
func (r *Result) values(top int) *report.Table {
	t := &report.Table{Title: "Live at the peak", Header: []string{"Size", "Kind", "Operator", "Value"},
		Right: []bool{true}, Fit: []report.Fit{report.Whole, report.Whole, report.Cut, report.Cut}}
	moves := r.Moving != nil || r.Copies != nil
	if moves {
		t.Header[2] = "Placement"
	}
	for i, v := range r.Values {
		if top > 0 && i >= top {
			rest := int64(0)
			for _, u := range r.Values[i:] {
				rest += u.Bytes
			}
			t.Add(report.Bytes(rest), "", "", more(len(r.Values)-i))
			break
		}
		third := v.Op
		if moves {
			third = string(v.Placement)
		}
		t.Add(report.Bytes(v.Bytes), v.Kind.String(), cmp.Or(third, "-"), v.title())
	}
	t.Add(report.Bytes(r.Sum()), "", "", "together")
	return t
}

// group is a row of a table that is not by value.
type group struct {
	name  string
	bytes int64
	count int
}

// groups sums values up.
func (r *Result) groups(by string, top int) *report.Table {
	var list []*group
	at := map[string]*group{}
	for _, v := range r.Values {
		name := v.key(by)
		g := at[name]
		if g == nil {
			g = &group{name: name}
			at[name] = g
			list = append(list, g)
		}
		g.bytes += v.Bytes
		g.count++
	}
	slices.SortStableFunc(list, func(x, y *group) int {
		return cmp.Or(cmp.Compare(y.bytes, x.bytes), strings.Compare(x.name, y.name))
	})
	t := &report.Table{Title: "Live at the peak by " + by, Header: []string{"Size", "Share", "Values", titles[by]},
		Right: []bool{true, true, true}, Fit: []report.Fit{report.Whole, report.Whole, report.Whole, report.Cut}}
	peak := r.Plan.Planned.Peak.Bytes
	for i, g := range list {
		if top > 0 && i >= top {
			rest, count := int64(0), 0
			for _, h := range list[i:] {
				rest, count = rest+h.bytes, count+h.count
			}
			t.Add(report.Bytes(rest), report.Percent(share(rest, peak)), fmt.Sprint(count),
				more(len(list)-i))
			break
		}
		t.Add(report.Bytes(g.bytes), report.Percent(share(g.bytes, peak)), fmt.Sprint(g.count), g.name)
	}
	t.Add(report.Bytes(r.Sum()), report.Percent(share(r.Sum(), peak)), fmt.Sprint(len(r.Values)), "together")
	return t
}

var titles = map[string]string{"kind": "Kind", "layer": "Layer", "op": "Operator"}

func (v *Value) key(by string) string {
	switch by {
	case "kind":
		return v.Kind.String()
	case "layer":
		return cmp.Or(v.Layer, graph.NoLayer)
	}
	return cmp.Or(v.Op, "(none)")
}

// facts has the facts about one value.
func (r *Result) facts(v *Value) *report.Table {
	t := &report.Table{Header: []string{"Fact", "Value"}, Fit: []report.Fit{report.Whole, report.Wrap}}
	size := fmt.Sprintf("%s, %s bytes", report.Bytes(v.Bytes), report.Thousands(v.Bytes))
	if e := expression(v.Expr); e != "" {
		size += " = " + e
	}
	t.Add("size", size)
	t.Add("kind", v.Kind.String())
	if v.Placement != "" {
		t.Add("placement", string(v.Placement))
	}
	t.Add("layer", v.Layer)
	t.Add("made by", cmp.Or(strings.TrimSpace(v.Producer+" "+parenthesis(v.Op)), "-"))
	t.Add("held by", cmp.Or(v.HeldBy, "-"))
	t.Add("read last by", cmp.Or(v.LastReader, "-"))
	if v.Cluster != "" {
		t.Add("cluster", v.Cluster)
	}
	t.Add("live because", v.Why)
	if v.Again != "" {
		t.Add("recomputed", v.Again)
	}
	return t
}

func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// fixes lists changes that would lower the peak: the fixes of one value, or the best of each.
func (r *Result) fixes(top int, single bool) *report.Table {
	t := &report.Table{Title: "Changes that would lower the peak, tried one at a time",
		Header: []string{"Saves", "Costs", "Peak then", "How"}, Right: []bool{true, true, true},
		Fit: []report.Fit{report.Whole, report.Whole, report.Whole, report.Wrap}}
	var list []Fix
	if r.Order != nil && !single {
		list = append(list, *r.Order)
	}
	if r.Parts != nil && !single {
		list = append(list, *r.Parts)
	}
	for i, v := range r.Values {
		if top > 0 && i >= top {
			break
		}
		for _, f := range v.Fixes {
			if single || f.What == Recompute && f.Saves > 0 {
				list = append(list, f)
			}
		}
	}
	slices.SortStableFunc(list, func(x, y Fix) int { return cmp.Compare(y.rate(), x.rate()) })
	for i := range list {
		addFix(t, &list[i])
	}
	return t
}

// addFix adds a row for a fix.
func addFix(t *report.Table, f *Fix) {
	how := f.How
	if f.What == Offload {
		how = "offload, " + how
	}
	if f.Saves <= 0 {
		how += fmt.Sprintf("; then node %q peaks as high", f.PeakNode)
	}
	t.Add(report.Bytes(f.Saves), fmt.Sprintf("%.3g ms", f.Millis), report.Bytes(f.Peak), how)
}

// more is the last cell of a table that leaves out n rows.
func more(n int) string { return fmt.Sprintf("%d more (%v: all)", n, hint.Top.With("0")) }

// onHost lists the values that are on the host at the peak.
func (r *Result) onHost(top int) *report.Table {
	t := &report.Table{Title: "On the host at the peak", Header: []string{"Size", "Runs", "Value", "Back before"},
		Right: []bool{true}, Fit: []report.Fit{report.Whole, report.Whole, report.Cut, report.Cut}}
	for i, h := range r.OnHost {
		if top > 0 && i >= top {
			rest := int64(0)
			for _, o := range r.OnHost[i:] {
				rest += o.Bytes
			}
			t.Add(report.Bytes(rest), "", more(len(r.OnHost)-i), "")
			break
		}
		t.Add(report.Bytes(h.Bytes), fmt.Sprintf("%d to %d", h.First+1, h.Until+1), h.Name, cmp.Or(h.HeldBy, "-"))
	}
	return t
}

// absent lists requested values that are not live at the peak.
func (r *Result) absent(top int) *report.Table {
	t := &report.Table{Title: "Not in the peak", Header: []string{"Size", "Steps", "Value", "Why"},
		Right: []bool{true}, Fit: []report.Fit{report.Whole, report.Whole, report.Cut, report.Wrap}}
	for i, a := range r.Elsewhere {
		if top > 0 && i >= top {
			t.Add("", "", more(len(r.Elsewhere)-i), "")
			break
		}
		steps := "-"
		if a.First >= 0 {
			steps = fmt.Sprintf("%d to %d", a.First+1, a.Until+1)
		}
		t.Add(report.Bytes(a.Bytes), steps, a.Name, a.Why)
	}
	return t
}

// csv has all that is known of every value, in one table.
func (r *Result) csv() *report.Table {
	t := &report.Table{Header: []string{"value", "bytes", "expr", "kind", "layer", "op", "producer", "last_reader",
		"held_by", "cluster", "why", "recomputed", "fix", "saves_bytes", "costs_ms", "peak_bytes",
		"placement"}}
	for _, v := range r.Values {
		fix := []string{"", "", "", ""}
		if len(v.Fixes) > 0 {
			f := &v.Fixes[0]
			fix = []string{f.What, fmt.Sprint(f.Saves), fmt.Sprint(f.Millis), fmt.Sprint(f.Peak)}
		}
		t.Add(append(append([]string{v.Name, fmt.Sprint(v.Bytes), expression(v.Expr), v.Kind.String(), v.Layer, v.Op,
			v.Producer, v.LastReader, v.HeldBy, v.Cluster, v.Why, v.Again}, fix...), string(v.Placement))...)
	}
	for _, h := range r.OnHost {
		t.Add(h.Name, fmt.Sprint(h.Bytes), "", "", h.Layer, "", h.Producer, "", h.HeldBy, "", "it is on the host", "",
			"", "", "", "", string(Moved))
	}
	for _, a := range r.Elsewhere {
		t.Add(a.Name, fmt.Sprint(a.Bytes), expression(a.Expr), "", a.Layer, "", a.Producer, a.LastReader, "", "",
			a.Why, "", "", "", "", "", "")
	}
	return t
}
