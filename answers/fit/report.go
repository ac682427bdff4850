package fit

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"memopt"
	"memopt/symbolic"
	"memopt/view/report"
)

// Schema is the schema of the JSON that `memopt fit -O json` prints.
const Schema = "memopt.fit/v1"

// Target is the composition of the limit.
type Target struct {
	Device  string // the name of a profile; "": a size was given
	Memory  int64
	Reserve int64
	Source  string // whose reserve it is
}

// name is the target in a sentence.
func (t *Target) name() string {
	if t.Device != "" {
		return fmt.Sprintf("the %s of %s", report.Bytes(t.Memory), t.Device)
	}
	return report.Bytes(t.Memory)
}

type resultJSON struct {
	Schema   string           `json:"schema"`
	Model    modelJSON        `json:"model"`
	Dims     map[string]int64 `json:"dims"`
	Step     *report.Step     `json:"step"`
	Answer   string           `json:"answer"`
	Fits     bool             `json:"fits"`
	Vary     string           `json:"vary"`
	Device   *string          `json:"device"`
	Memory   *int64           `json:"memory_bytes"`
	Reserve  *int64           `json:"reserve_bytes"`
	Limit    *int64           `json:"limit_bytes"`
	Overhead float64          `json:"max_overhead"`
	Link     *float64         `json:"link_bytes_per_second,omitempty"`
	Host     *int64           `json:"host_budget_bytes,omitempty"`
	Home     *report.HomeJSON `json:"home,omitempty"`
	Largest  *largestJSON     `json:"largest"`
	Details  []sizeJSON       `json:"details"`
	Frontier []pointJSON      `json:"frontier"`
	Smallest *smallestJSON    `json:"smallest"`
	Devices  []deviceJSON     `json:"devices"`
}

type modelJSON struct {
	Path            string `json:"path"`
	StructureSHA256 string `json:"structure_sha256"`
}

type largestJSON struct {
	Plain  *int64 `json:"plain"`
	Level1 *int64 `json:"level1"`
	Plan   *int64 `json:"plan"`
	Moves  *int64 `json:"moves,omitempty"`
}

type sizeJSON struct {
	Kind          string   `json:"kind"`
	Value         *int64   `json:"value"`
	Unlimited     bool     `json:"unlimited"`
	Proved        bool     `json:"proved"`
	Total         *int64   `json:"total_bytes"`
	Overhead      *float64 `json:"overhead"`
	Live          *string  `json:"live_expr"`
	Persistent    *string  `json:"persistent_expr"`
	Above         *int64   `json:"above_bytes"`
	AboveOverhead *float64 `json:"above_overhead"`
	Searches      int      `json:"searches"`
	Host          *int64   `json:"host_bytes,omitempty"`
	Moved         *int64   `json:"moved_bytes,omitempty"`
	Stopped       bool     `json:"stopped"`
}

type pointJSON struct {
	Dims    map[string]int64 `json:"dims"`
	Largest largestJSON      `json:"largest"`
	Details []sizeJSON       `json:"details"`
}

type smallestJSON struct {
	Plain  *string `json:"plain"`
	Level1 *string `json:"level1"`
	Plan   *string `json:"plan"`
}

type deviceJSON struct {
	Name    string        `json:"name"`
	Memory  int64         `json:"memory_bytes"`
	Reserve int64         `json:"reserve_bytes"`
	Limit   int64         `json:"limit_bytes"`
	Fits    []fittingJSON `json:"fits"`
}

type fittingJSON struct {
	Kind     string  `json:"kind"`
	Fits     bool    `json:"fits"`
	Total    *int64  `json:"total_bytes"`
	Overhead float64 `json:"overhead"`
}

func headOf(m *memopt.Model, o *Options, step *report.Step) resultJSON {
	head := resultJSON{Schema: Schema, Model: modelJSON{m.Path, m.StructureSHA256}, Dims: m.Dims, Step: step,
		Overhead: o.MaxOverhead}
	if step != nil {
		head.Home = step.Home.JSON()
	}
	if o.Moves.Asked() {
		head.Link, head.Host = &o.Moves.Link.BytesPerSecond, &o.Moves.HostBudget
	}
	return head
}

func known[T int64 | float64 | string](x T) *T {
	var zero T
	if x == zero {
		return nil
	}
	return &x
}

func (s *Sizes) largest() largestJSON {
	return largestJSON{known(s.By[Plain].Value), known(s.By[Level1].Value), known(s.By[Best].Value),
		known(s.By[Moves].Value)}
}

func exprText(e symbolic.Expr) *string {
	if e.IsConst(0) || !e.IsKnown() {
		return nil
	}
	return known(e.String())
}

func (s *Sizes) details(kinds Kind) []sizeJSON {
	var list []sizeJSON
	for k := range kinds {
		x := &s.By[k]
		j := sizeJSON{Kind: k.String(), Value: known(x.Value), Unlimited: x.Unlimited, Proved: x.Proved,
			Total: known(x.Total), Live: exprText(x.Peak), Persistent: exprText(x.Persistent), Above: known(x.Above),
			AboveOverhead: known(x.AbovePrice), Searches: x.Searches,
			Stopped: x.Stopped}
		if share, ok := x.overhead(); ok {
			j.Overhead = &share
		}
		if x.Moving != nil {
			j.Host, j.Moved = &x.Moving.HostArena, &x.Moving.Moved
		}
		list = append(list, j)
	}
	return list
}

// Answer names the largest sizes in a sentence.
func (r *Result) Answer(t *Target) string {
	if r.Sizes == nil {
		return r.frontierAnswer(t)
	}
	vary, by := r.Options.Vary[0], &r.Sizes.By
	if !r.Sizes.any() {
		text := fmt.Sprintf("No %s fits %s, not even %d", vary, t.name(), by[Plain].Least)
		if least := r.Sizes.Lowest(); least > 0 {
			text += fmt.Sprintf(": the least that was reached is %s with the reserve", report.Bytes(least+t.Reserve))
		}
		return text + "."
	}
	if by[Plain].Unlimited {
		return fmt.Sprintf("Every %s that was considered fits %s without a plan, up to %d.", vary, t.name(),
			by[Plain].Value)
	}
	what := "The largest %s that fits %s"
	if by[Plain].Stopped {
		what = "The largest %s found that fits %s"
	}
	text := fmt.Sprintf(what+" is %s without a plan", vary, t.name(), by[Plain].text())
	if best := &by[Best]; best.Value > by[Plain].Value {
		text += fmt.Sprintf(", and %s with a plan that takes an estimated %s more time", best.text(),
			report.Percent(best.Plan.Overhead))
	} else {
		text += "; no plan within the overhead reaches further"
	}
	if x := &by[Moves]; x.Moving != nil {
		text += fmt.Sprintf("; %s with a plan that moves values to the host, which take %s there, and %s more time",
			x.text(), report.Bytes(x.host()), report.Percent(x.Moving.Overhead))
	}
	return text + "."
}

// text is a size in words.
func (s *Size) text() string {
	switch {
	case s.Value == 0:
		return "none"
	case s.Unlimited:
		return fmt.Sprintf("%d, the largest that was considered", s.Value)
	}
	return strconv.FormatInt(s.Value, 10)
}

func (r *Result) frontierAnswer(t *Target) string {
	if r.Fits() != nil {
		text := fmt.Sprintf("No size fits %s, not even the smallest", t.name())
		if len(r.Frontier) > 0 && r.Frontier[0].Lowest() > 0 {
			text += fmt.Sprintf(": the least that was reached is %s with the reserve",
				report.Bytes(r.Frontier[0].Lowest()+t.Reserve))
		}
		return text + "."
	}
	return fmt.Sprintf("The largest %s that fits %s, by %s:", r.Options.Vary[1], t.name(), r.Options.Vary[0])
}

// Report writes a result. step is its training step; nil if unspecified.
func Report(w io.Writer, f report.Format, r *Result, t *Target, step *report.Step) error {
	if f == report.JSONFormat {
		j := headOf(r.Model, &r.Options, step)
		j.Answer, j.Fits, j.Vary = r.Answer(t), r.Fits() == nil, strings.Join(r.Options.Vary, ",")
		j.Device, j.Memory, j.Reserve, j.Limit = known(t.Device), &t.Memory, &t.Reserve, &r.Options.Limit
		if r.Sizes != nil {
			l := r.Sizes.largest()
			j.Largest, j.Details = &l, r.Sizes.details(r.Options.kinds())
		}
		for _, s := range r.Frontier {
			j.Frontier = append(j.Frontier, pointJSON{s.Fixed, s.largest(), s.details(r.Options.kinds())})
		}
		return report.WriteJSON(w, j)
	}
	var tables []*report.Table
	notes := []string{reserveNote(t)}
	switch {
	case f == report.CSVFormat:
		return r.csv().WriteCSV(w)
	case r.Sizes == nil:
		tables = append(tables, r.frontierTable())
		if r.Stopped() {
			notes = append([]string{stoppedNote}, notes...)
		}
	default:
		tables = append(tables, r.table())
		if t := r.formulas(); len(t.Rows) > 0 {
			tables = append(tables, t)
		}
		notes = append(r.doubts(), notes...)
	}
	if step != nil && step.Home != nil {
		tables = append(tables, step.Home.Table())
	}
	return write(w, f, step, r.Answer(t), tables, notes)
}

// csv has a row for each kind, and for each value of the first of two symbols.
func (r *Result) csv() *report.Table {
	t := &report.Table{}
	list := r.Frontier
	if r.Sizes != nil {
		list = []*Sizes{r.Sizes}
	} else {
		t.Header = append(t.Header, r.Options.Vary[0])
	}
	last := r.Options.Vary[len(r.Options.Vary)-1]
	t.Header = append(t.Header, "kind", last, "total_bytes", "overhead", "above_bytes", "above_overhead")
	if r.Options.Moves.Asked() {
		t.Header = append(t.Header, "host_bytes")
	}
	for _, s := range list {
		for _, x := range s.details(r.Options.kinds()) {
			var cells []string
			if r.Sizes == nil {
				cells = append(cells, fmt.Sprint(s.Fixed[r.Options.Vary[0]]))
			}
			cells = append(cells, x.Kind, cell(x.Value), cell(x.Total), cell(x.Overhead), cell(x.Above),
				cell(x.AboveOverhead))
			if r.Options.Moves.Asked() {
				cells = append(cells, cell(x.Host))
			}
			t.Add(cells...)
		}
	}
	return t
}

// cell is a number, or "" for nil.
func cell[T int64 | float64](x *T) string {
	if x == nil {
		return ""
	}
	return fmt.Sprint(*x)
}

// write writes the step, an answer, tables and notes.
func write(w io.Writer, f report.Format, step *report.Step, answer string, tables []*report.Table,
	notes []string) error {
	if err := report.StepLine(w, f, step); err != nil {
		return err
	}
	if err := report.Sentences(w, f, answer); err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.WriteAs(w, f); err != nil {
			return err
		}
		if f == report.TableFormat {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return report.Sentences(w, f, notes...)
}

// table has the sizes by kind.
func (r *Result) table() *report.Table {
	t := &report.Table{Header: []string{"", r.Options.Vary[0], "total", "overhead", "one above"},
		Right: []bool{false, true, true, true, true, true}}
	moves := r.Options.Moves.Asked()
	if moves {
		t.Header = append(t.Header, "on the host")
	}
	for k := range r.Options.kinds() {
		x := &r.Sizes.By[k]
		value, overhead := "none", "-"
		if x.Value > 0 {
			value = strconv.FormatInt(x.Value, 10)
		}
		if share, ok := x.overhead(); ok {
			overhead = report.Percent(share)
		}
		cells := []string{titles[k], value, bytesOrDash(x.Total), overhead, x.above()}
		if moves {
			cells = append(cells, bytesOrDash(x.host()))
		}
		t.Add(cells...)
	}
	return t
}

// formulas has the bytes around the answers.
func (r *Result) formulas() *report.Table {
	t := &report.Table{Header: []string{"bytes", "formula"}, Fit: []report.Fit{report.Whole, report.Wrap}}
	persistent := symbolic.Expr{}
	for k := range r.Options.kinds() {
		x := &r.Sizes.By[k]
		if text := exprText(x.Peak); text != nil && x.Value > 0 {
			t.Add(fmt.Sprintf("live %s, at %s=%d", titles[k], r.Options.Vary[0], x.Value), *text)
			persistent = x.Persistent
		}
	}
	if text := exprText(persistent); text != nil {
		t.Add("inputs and weights", *text)
	}
	return t
}

// stoppedNote says that a longer search may find more.
const stoppedNote = "The time limit ended the search: a longer one may find more that fits."

// doubts are the open questions of the answers.
func (r *Result) doubts() []string {
	var list []string
	if r.Stopped() {
		list = append(list, stoppedNote)
	}
	for k := range r.Options.kinds() {
		if x := &r.Sizes.By[k]; x.Value > x.Least && !x.Proved {
			list = append(list, fmt.Sprintf("It is not proved that every smaller %s fits %s.", r.Options.Vary[0],
				titles[k]))
		}
	}
	return list
}

// above describes the memory of the next larger size.
func (s *Size) above() string {
	switch {
	case s.Value == 0 || s.Unlimited:
		return "-"
	case s.AbovePrice > 0:
		return report.Percent(s.AbovePrice) + " more time"
	}
	return bytesOrDash(s.Above)
}

func bytesOrDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return report.Bytes(n)
}

func reserveNote(t *Target) string {
	return fmt.Sprintf("Totals are inputs, weights and the packed arena. %s of %s stay for the driver, the context "+
		"and libraries%s.", report.Bytes(t.Reserve), report.Bytes(t.Memory), t.Source)
}

func (r *Result) frontierTable() *report.Table {
	first := r.Options.Vary[0]
	t := &report.Table{Header: []string{first, titles[Plain], titles[Level1], titles[Best], "overhead"},
		Right: []bool{true, true, true, true, true, true, true, true}}
	moves := r.Options.Moves.Asked()
	if moves {
		t.Header = append(t.Header, titles[Moves], "overhead", "on the host")
	}
	for _, s := range r.Frontier {
		cells := []string{strconv.FormatInt(s.Fixed[first], 10)}
		for k := range Moves {
			value := "none"
			if n := s.By[k].Value; n > 0 {
				value = strconv.FormatInt(n, 10)
			}
			cells = append(cells, value)
		}
		overhead := "-"
		if best := &s.By[Best]; best.Value > 0 {
			overhead = report.Percent(best.Plan.Overhead)
		}
		if cells = append(cells, overhead); moves {
			x, value := &s.By[Moves], "none"
			if x.Value > 0 {
				value = strconv.FormatInt(x.Value, 10)
			}
			if overhead = "-"; x.Value > 0 {
				share, _ := x.overhead()
				overhead = report.Percent(share)
			}
			cells = append(cells, value, overhead, bytesOrDash(x.host()))
		}
		t.Add(cells...)
	}
	return t
}

// Answer names the devices that fit the step in a sentence.
func (d *Devices) Answer() string {
	name := func(k Kind) string {
		if s := d.Smallest(k); s != nil {
			return fmt.Sprintf("%s (%s)", s.Profile.Name, report.Bytes(s.Profile.Memory))
		}
		return "none"
	}
	if d.Smallest(Best) == nil && d.Smallest(Level1) == nil {
		return "The step fits no device."
	}
	return fmt.Sprintf("The smallest device that the step fits is %s without a plan, and %s with a plan that takes at "+
		"most an estimated %s more time.", name(Plain), name(Best), report.Percent(d.Options.MaxOverhead))
}

// Report lists the devices that fit a step.
func (d *Devices) Report(w io.Writer, f report.Format, step *report.Step) error {
	switch f {
	case report.JSONFormat:
		return report.WriteJSON(w, d.json(step))
	case report.CSVFormat:
		return d.csv().WriteCSV(w)
	}
	t := &report.Table{Header: []string{"device", "memory", "for the step", "plain", "level 1", "with a plan",
		"overhead"},
		Right: []bool{false, true, true, true, true, true, true}}
	for i := range d.List {
		on := &d.List[i]
		cells := []string{on.Profile.Name, report.Bytes(on.Profile.Memory), report.Bytes(on.Limit)}
		for k := range Moves {
			text := "no"
			if on.By[k].Fits {
				text = report.Bytes(on.By[k].Total)
			}
			cells = append(cells, text)
		}
		overhead := "-"
		if on.By[Best].Fits {
			overhead = report.Percent(on.By[Best].Overhead)
		}
		t.Add(append(cells, overhead)...)
	}
	var notes []string
	if d.Stopped {
		notes = []string{stoppedNote}
	}
	return write(w, f, step, d.Answer(), []*report.Table{t}, notes)
}

// csv has a row for each device and kind.
func (d *Devices) csv() *report.Table {
	t := &report.Table{Header: []string{"device", "memory_bytes", "limit_bytes", "kind", "fits",
		"total_bytes", "overhead"}}
	for _, on := range d.json(nil).Devices {
		for _, x := range on.Fits {
			t.Add(on.Name, fmt.Sprint(on.Memory), fmt.Sprint(on.Limit), x.Kind, fmt.Sprint(x.Fits), cell(x.Total),
				fmt.Sprint(x.Overhead))
		}
	}
	return t
}

func (d *Devices) json(step *report.Step) *resultJSON {
	j := headOf(d.Model, &d.Options, step)
	j.Answer, j.Vary, j.Smallest = d.Answer(), "device", &smallestJSON{}
	for k, to := range [...]**string{&j.Smallest.Plain, &j.Smallest.Level1, &j.Smallest.Plan} {
		if s := d.Smallest(Kind(k)); s != nil {
			*to, j.Fits = &s.Profile.Name, true
		}
	}
	for i := range d.List {
		on := &d.List[i]
		one := deviceJSON{on.Profile.Name, on.Profile.Memory, on.Profile.Reserve, on.Limit, nil}
		for k := range Moves {
			x := on.By[k]
			one.Fits = append(one.Fits, fittingJSON{k.String(), x.Fits, known(x.Total), x.Overhead})
		}
		j.Devices = append(j.Devices, one)
	}
	return &j
}
