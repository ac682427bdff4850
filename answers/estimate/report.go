package estimate

import (
	"fmt"
	"io"
	"slices"

	"memopt/answers/estimate/parts"
	"memopt/autograd"
	"memopt/hint"
	"memopt/view/report"
)

// Schema is the schema of the JSON that `memopt estimate -O json` prints.
const Schema = "memopt.estimate/v1"

// Answer says in a sentence or two whether the step fits.
func (r *Result) Answer() string {
	total := report.Bytes(r.Plain.Total())
	fits, known := r.Fits()
	where := "the memory of " + report.Bytes(r.Memory)
	if r.Device != "" {
		where = fmt.Sprintf("the %s of %s", report.Bytes(r.Memory), r.Device)
	}
	switch h := r.Home; {
	case h.Over():
		return fmt.Sprintf("No: the home of the states takes %s of the host, twice their size, and may take %s: "+
			"raise %v.", report.Bytes(h.Bytes()), report.Bytes(h.Budget), hint.HostBudget)
	case !known:
		return fmt.Sprintf("The step takes %s. Whether that fits, %v or %v would tell.", total,
			hint.Memory.With("SIZE"), hint.Device.With("NAME"))
	case fits:
		return fmt.Sprintf("Yes: the step takes %s of %s; %s stay free.", total, where,
			report.Bytes(r.Memory-r.Plain.Total()))
	}
	if r.Plain.Total() <= r.Memory {
		return fmt.Sprintf("No: the step takes %s of %s, and the allocator may not take so much. %s", total, where,
			r.planAnswer())
	}
	no := fmt.Sprintf("No: the step takes %s, %s more than %s.", total,
		report.Bytes(r.Plain.Total()-r.Memory), where)
	return no + " " + r.planAnswer()
}

// answers is Answer, and the text of an error where the allocator has no memory.
func (r *Result) answers() []string {
	if s := r.Plain.Served; s != nil && s.Error != "" {
		return []string{r.Answer(), "An error would read: " + s.Error}
	}
	return []string{r.Answer()}
}

// planAnswer reports whether a plan makes the step fit.
func (r *Result) planAnswer() string {
	switch {
	case r.Planned != nil:
		host := ""
		if c := r.Planned.Copies; c != nil {
			host = fmt.Sprintf(" and %s of the host", report.Bytes(c.Arena))
		}
		return fmt.Sprintf("With a plan it fits: %s, for an estimated %s more time%s.",
			report.Bytes(r.Planned.Total()), report.Percent(r.Planned.Overhead), host)
	case r.Lowest > 0 && r.Stopped:
		return fmt.Sprintf("No plan that fits was found in the time; the least was %s.", report.Bytes(r.Lowest))
	case r.Lowest > 0:
		return fmt.Sprintf("No plan that was found fits, either; the least was %s.", report.Bytes(r.Lowest))
	case r.Least > 0:
		return fmt.Sprintf("No plan fits, either: every plan in this order takes %s or more.", report.Bytes(r.Least))
	}
	return "No plan fits, either: the values that stay throughout a step take more than that."
}

// resultJSON is the form of a result.
type resultJSON struct {
	parts.Head
	Ranks    []RankJSON         `json:"ranks"`
	Copies   *report.CopiesJSON `json:"copies,omitempty"`
	Home     *report.HomeJSON   `json:"home,omitempty"`
	WithPlan *parts.PlannedJSON `json:"with_plan"`
	// Allocator says how the allocator serves the step without a plan.
	Allocator *parts.AllocatorJSON `json:"allocator,omitempty"`
	Lowest    *int64               `json:"lowest_bytes"`
	Advice    []adviceJSON         `json:"advice"`
	Sources   []string             `json:"sources"`
	Notes     []string             `json:"notes"`
	Check     *checkJSON           `json:"check,omitempty"`
}

// checkJSON is a ledger.
type checkJSON struct {
	Exact bool       `json:"exact"`
	Lines []lineJSON `json:"lines"`
}

type lineJSON struct {
	Step      string `json:"step"`
	What      string `json:"what"`
	Predicted int64  `json:"predicted_bytes"`
	Measured  int64  `json:"measured_bytes"`
	Info      bool   `json:"information"`
}

// RankJSON is the memory of one of several devices.
type RankJSON struct {
	Stage int   `json:"stage"`
	Total int64 `json:"total_bytes"`
	parts.Breakdown
}

type adviceJSON struct {
	What  string `json:"what"`
	Total int64  `json:"total_bytes"`
	Price string `json:"price"`
}

// JSON returns the form of a result in reports.
func (r *Result) json() *resultJSON {
	head := parts.Head{Schema: Schema, Model: parts.ModelJSON{Path: r.Path, StructureSHA256: r.StructureSHA256},
		Dims: r.Dims, Answer: r.Answer(), Runtime: string(r.Runtime), Total: r.Plain.Total(),
		Breakdown: r.Plain.Parts.JSON(), PeakNode: r.Plain.Node,
		Step:      parts.StepJSON{Text: r.Text, Made: r.Made, Micros: max(r.Micros, 1)},
		Precision: r.Types.JSON(r.Precision), Parameters: r.PerParameter.JSON(r.Parameters)}
	out := &resultJSON{Head: head, Advice: []adviceJSON{}, Sources: r.sources(), Notes: append([]string{}, r.Notes...)}
	if fits, known := r.Fits(); known {
		out.Fits, out.Memory = &fits, &r.Memory
	}
	if r.Device != "" {
		out.Device = &r.Device
	}
	if r.Made {
		out.Step.Optimizer = &r.Optimizer
	}
	out.Ranks, out.Copies = []RankJSON{{0, out.Total, out.Breakdown}}, r.copies(r.Plain)
	out.Home = r.Home.JSON()
	out.Allocator = r.Plain.Served.json()
	if p := r.Planned; p != nil {
		out.WithPlan = &parts.PlannedJSON{Total: p.Total(), Overhead: p.Overhead, Nodes: p.Nodes,
			Breakdown: p.Parts.JSON(), Copies: r.copies(p), Allocator: p.Served.json()}
	}
	if r.Lowest > 0 {
		out.Lowest = &r.Lowest
	}
	if l := r.Check; l != nil {
		out.Check = &checkJSON{l.Exact(), []lineJSON{}}
		for _, line := range l.Lines {
			out.Check.Lines = append(out.Check.Lines,
				lineJSON{line.Step, line.What, line.Predicted, line.Measured, line.Info})
		}
	}
	for _, a := range r.Advice {
		out.Advice = append(out.Advice, adviceJSON{a.What, a.Total, a.Price})
	}
	return out
}

// copies is the form of an outcome's copies; nil without such.
func (r *Result) copies(o *Outcome) *report.CopiesJSON { return report.NewCopiesJSON(o.Copies, r.Link) }

// copiesText describes an outcome's copies; "" without such.
func (r *Result) copiesText(o *Outcome, what string) string {
	if o.Copies == nil {
		return ""
	}
	return what + ": " + report.CopiesText(o.Copies, r.Link)
}

// sources say where the figures of the device are from.
func (r *Result) sources() []string {
	list := []string{}
	for _, text := range []string{r.DeviceSource, r.ReserveSource} {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}

// Report writes a result: the answer first, then the memory by kind.
func Report(w io.Writer, format report.Format, r *Result, verbose bool) error {
	switch format {
	case report.JSONFormat:
		return report.WriteJSON(w, r.json())
	case report.CSVFormat:
		return r.csv().WriteCSV(w)
	}
	if r.Text != "" {
		if err := report.StepLine(w, format, &report.Step{Text: r.Text}); err != nil {
			return err
		}
	}
	if err := report.Sentences(w, format, r.answers()...); err != nil {
		return err
	}
	tables := []*report.Table{r.partsTable()}
	if r.Home != nil {
		tables = append(tables, r.Home.Table())
	}
	for _, t := range tables {
		if err := t.WriteAs(w, format); err != nil {
			return err
		}
		if format == report.MarkdownFormat { // whose tables end with an empty line
			continue
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	if err := report.Sentences(w, format, r.details(verbose)...); err != nil {
		return err
	}
	if r.Check != nil {
		if err := report.Sentences(w, format, r.Check.answer()); err != nil {
			return err
		}
		if err := r.Check.table().WriteAs(w, format); err != nil || len(r.Advice) == 0 {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	if len(r.Advice) == 0 {
		return nil
	}
	return r.adviceTable().WriteAs(w, format)
}

// answer sums up the measurements of a run.
func (l *Ledger) answer() string {
	text := "Run on this machine's CPU"
	for i := range l.Lines {
		if line := &l.Lines[i]; !line.Info && line.Off() > 0 {
			return fmt.Sprintf("%s: the %s of the %s was %s more than predicted.", text, line.What, line.Step,
				report.Bytes(line.Off()))
		}
	}
	if l.Exact() {
		return text + ": every figure is as predicted, to the byte."
	}
	return text + ": no figure was above its prediction."
}

// table is the ledger, in one unit.
func (l *Ledger) table() *report.Table {
	var sizes []int64
	for _, line := range l.Lines {
		sizes = append(sizes, line.Predicted, line.Measured)
	}
	unit, size := report.SizeUnit(sizes...)
	t := &report.Table{Header: []string{"run", "figure", "predicted, " + unit, "measured, " + unit, "off by"},
		Right: []bool{false, false, true, true, true}, Fit: []report.Fit{report.Wrap, report.Wrap}}
	for _, line := range l.Lines {
		off := "0 bytes"
		switch {
		case line.Info:
			off = "(information)"
		case line.Off() != 0:
			off = report.Thousands(line.Off()) + " bytes"
		}
		t.Add(line.Step, line.What, size(line.Predicted), size(line.Measured), off)
	}
	return t
}

// adviceTable lists further ways to make the step fit.
func (r *Result) adviceTable() *report.Table {
	var sizes []int64
	for _, a := range r.Advice {
		sizes = append(sizes, a.Total)
	}
	unit, size := report.SizeUnit(sizes...)
	t := &report.Table{Title: "Other changes that would make it fit, the cheapest first",
		Header: []string{"change", "takes, " + unit, "price"},
		Right:  []bool{false, true, false}, Fit: []report.Fit{report.Wrap, report.Whole, report.Wrap}}
	for _, a := range r.Advice {
		t.Add(a.What, size(a.Total), a.Price)
	}
	return t
}

// partsTable has the parts that are not empty, without and with a plan, in one unit.
func (r *Result) partsTable() *report.Table {
	plain, planned := r.Plain.Parts.Rows(), []parts.Row(nil)
	sizes := []int64{r.Plain.Total()}
	if r.Planned != nil && r.Planned != r.Plain {
		planned = r.Planned.Parts.Rows()
		sizes = append(sizes, r.Planned.Total())
	}
	unit, size := report.SizeUnit(sizes...)
	t := &report.Table{Header: []string{"at the worst moment", unit}, Right: []bool{false, true, true}}
	if planned != nil {
		t.Header = []string{"at the worst moment", "as it is, " + unit, "with the plan, " + unit}
	}
	add := func(name string, bytes ...int64) {
		cells := []string{name}
		for _, n := range bytes {
			cells = append(cells, size(n))
		}
		t.Add(cells...)
	}
	for i, row := range plain {
		name, bytes := row.Name, []int64{row.Bytes}
		if row.Share >= 0 {
			name = "  of these " + name
		}
		if planned != nil {
			bytes = append(bytes, planned[i].Bytes)
		}
		if slices.Max(bytes) > 0 {
			add(name, bytes...)
		}
	}
	add("total", sizes...)
	return t
}

// csv has all parts in bytes, or the ledger if there is one.
func (r *Result) csv() *report.Table {
	if r.Check == nil {
		return r.partsCSV()
	}
	t := &report.Table{Header: []string{"step", "what", "predicted_bytes", "measured_bytes", "information"}}
	for _, line := range r.Check.Lines {
		t.Add(line.Step, line.What, fmt.Sprint(line.Predicted), fmt.Sprint(line.Measured), fmt.Sprint(line.Info))
	}
	return t
}

// partsCSV has all parts in bytes.
func (r *Result) partsCSV() *report.Table {
	t := &report.Table{Header: []string{"part", "bytes", "with_plan_bytes"}, Right: []bool{false, true, true}}
	var planned []parts.Row
	if r.Planned != nil {
		planned = r.Planned.Parts.Rows()
	}
	add := func(name string, plain int64, with string) { t.Add(name, fmt.Sprint(plain), with) }
	for i, row := range r.Plain.Parts.Rows() {
		with := ""
		if planned != nil {
			with = fmt.Sprint(planned[i].Bytes)
		}
		add(row.Field, row.Bytes, with)
	}
	with := ""
	if planned != nil {
		with = fmt.Sprint(r.Planned.Total())
	}
	add("total_bytes", r.Plain.Total(), with)
	if r.Memory > 0 {
		add("memory_bytes", r.Memory, "")
	}
	if h := r.Home; h != nil {
		add("home_weights_bytes", h.Weights, "")
		add("home_gradients_bytes", h.Gradients, "")
		add("home_moments_bytes", h.Moments, "")
		add("home_bytes", h.Bytes(), "")
	}
	return t
}

// ownStep describes the updates of a step that memopt made, with the caller's hint at another runtime.
func (r *Result) ownStep() string {
	hint := ""
	if r.RuntimeHint != "" {
		hint = " (" + r.RuntimeHint + ")"
	}
	if r.Micros > 1 {
		return fmt.Sprintf("%s; gradients of %d steps are added up, and %s updates.", hint, r.Micros, r.Optimizer)
	}
	return fmt.Sprintf(" and updated by %s%s.", r.Optimizer, hint)
}

// details explains the figures.
func (r *Result) details(verbose bool) (list []string) {
	text := "The graph has a backward half and is taken as it is."
	switch {
	case r.Runtime == Torch:
		text = r.torchDetails()
	case r.Made:
		text = "The step is memopt's own, made of a forward model" + r.ownStep()
	}
	if r.Parameters > 0 {
		text += " Parameters: " + report.Thousands(r.Parameters)
		if r.PerParameter != nil {
			text += fmt.Sprintf(", each %s", r.PerParameter)
		}
		text += "."
	}
	list = append(list, text)
	if t := r.Types; t != nil {
		master := "no master weights"
		if t.Master.Valid() {
			master = fmt.Sprintf("master weights %v", t.Master)
		}
		moments := fmt.Sprint(t.Moments)
		if bits := (&autograd.Optimizer{Kind: r.Optimizer}).Bits(); bits > 0 {
			moments = fmt.Sprintf("of %d bits with a scale per block, %s where a tensor is small", bits, moments)
		}
		list = append(list, fmt.Sprintf("Counted as if in %s: weights %v, activations %v, gradients %v, %s, "+
			"moments %s.", r.Precision, t.Weights, t.Activations, t.Gradients, master, moments))
	}
	if text := r.copiesText(r.Plain, "The graph moves values to the host"); text != "" {
		list = append(list, text)
	} else if p := r.Planned; p != nil {
		if text = r.copiesText(p, "The plan moves values to the host"); text != "" {
			list = append(list, text)
		}
	}
	list = append(list, r.Plain.Served.words()...)
	if p := r.Planned; p != nil && p != r.Plain && p.Served != nil {
		list = append(list, "With the plan: "+p.Served.words()[0])
	}
	list = append(list, r.Notes...)
	if verbose {
		for _, s := range r.sources() {
			list = append(list, "Source: "+s+".")
		}
	}
	return list
}
