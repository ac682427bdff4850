package report

import (
	"cmp"
	"fmt"
	"io"

	"memopt/graph"
	"memopt/planner"
	"memopt/symbolic"
)

// InfeasibleBudgetSchema is the schema of the JSON that `memopt plan -O json` prints for an infeasible
// budget.
const InfeasibleBudgetSchema = "memopt.unfit/v1"

// InfeasibleBudget is a budget that no plan fits.
type InfeasibleBudget struct {
	Model *graph.Model
	SHA   string
	Dims  symbolic.Env
	Step  *Step // nil if unspecified
	Error *planner.InfeasibleError
	// Headroom is nil where no smaller batch exists, or a bound rules all of them out.
	Headroom *planner.Headroom
}

type infeasibleJSON struct {
	Schema      string       `json:"schema"`
	Model       modelJSON    `json:"model"`
	Dims        symbolic.Env `json:"dims"`
	Step        *Step        `json:"step"`
	Fits        bool         `json:"fits"`
	Limit       int64        `json:"limit_bytes"`
	LowestArena *int64       `json:"lowest_arena_bytes"`
	LowestLive  *int64       `json:"lowest_live_bytes"`
	LowerBound  *int64       `json:"lower_bound_bytes"`
	Whole       *lowestJSON  `json:"without_parts"`
	Persistent  *int64       `json:"persistent_bytes"`
	Stopped     bool         `json:"stopped"`
	Largest     *roomJSON    `json:"largest"`
}

// lowestJSON is how low plans come.
type lowestJSON struct {
	Arena      *int64 `json:"lowest_arena_bytes"`
	Live       *int64 `json:"lowest_live_bytes"`
	LowerBound *int64 `json:"lower_bound_bytes"`
}

// roomJSON is the largest size of a symbol that fits.
type roomJSON struct {
	Symbol   string   `json:"symbol"`
	Size     int64    `json:"size"`
	Arena    *int64   `json:"arena_bytes"`
	Total    *int64   `json:"total_bytes"`
	Overhead *float64 `json:"overhead"`
	Complete bool     `json:"complete"`
}

func newInfeasibleJSON(u *InfeasibleBudget) infeasibleJSON {
	e := u.Error
	j := infeasibleJSON{Schema: InfeasibleBudgetSchema, Model: modelJSON{u.Model.Path, u.SHA, len(u.Model.Graph.Nodes)},
		Dims: u.Dims, Step: u.Step, Limit: e.Budget, Stopped: e.Stopped, LowestArena: known(e.LowestArena),
		LowestLive: known(e.LowestLive), LowerBound: known(e.LowerBound), Persistent: known(e.Persistent)}
	if w := e.Whole; w != nil {
		j.Whole = &lowestJSON{known(w.Arena), known(w.Live), known(w.Bound)}
	}
	if r := u.Headroom; r != nil {
		j.Largest = &roomJSON{Symbol: r.Symbol, Size: r.Size, Complete: r.Complete}
		if r.Size > 0 {
			j.Largest.Arena, j.Largest.Total, j.Largest.Overhead = &r.Arena, &r.Total, &r.Overhead
		}
	}
	return j
}

// known is a number of bytes for JSON; null for 0.
func known(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// InfeasibleBudgetReport reports an infeasible budget, the lowest arena found, and the largest batch that
// fits.
func InfeasibleBudgetReport(w io.Writer, format Format, u *InfeasibleBudget) error {
	j := newInfeasibleJSON(u)
	switch format {
	case JSONFormat:
		return WriteJSON(w, j)
	case CSVFormat:
		return j.table().WriteCSV(w)
	}
	for _, text := range u.sentences() {
		var err error
		if format == MarkdownFormat {
			_, err = fmt.Fprintf(w, "- %s\n", escapeMarkdown(text))
		} else {
			err = Paragraph(w, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// table has the figures for spreadsheets, in bytes.
func (j *infeasibleJSON) table() *Table {
	t := &Table{Header: []string{"item", "value"}}
	add := func(what string, n *int64) {
		if n != nil {
			t.Add(what, fmt.Sprint(*n))
		}
	}
	t.Add("fits", "false")
	add("limit_bytes", &j.Limit)
	add("lowest_arena_bytes", j.LowestArena)
	add("lowest_live_bytes", j.LowestLive)
	add("lower_bound_bytes", j.LowerBound)
	if w := j.Whole; w != nil {
		add("without_parts.lowest_arena_bytes", w.Arena)
		add("without_parts.lowest_live_bytes", w.Live)
		add("without_parts.lower_bound_bytes", w.LowerBound)
	}
	add("persistent_bytes", j.Persistent)
	if l := j.Largest; l != nil {
		add("largest "+l.Symbol, &l.Size)
		add("largest_arena_bytes", l.Arena)
		add("largest_total_bytes", l.Total)
		if l.Overhead != nil {
			t.Add("largest_overhead", share(*l.Overhead))
		}
	}
	return t
}

// inCuts says how many bytes a step takes with regions in parts, where those rule the budget out.
func inCuts(e *planner.InfeasibleError) string {
	if e.InCuts == 0 {
		return ""
	}
	return ", and with regions in the parts that were tried a step takes at least " + Bytes(e.InCuts)
}

// sentences are the answer for people: the budget is infeasible, the lowest arena, and the size that does
// fit.
func (u *InfeasibleBudget) sentences() []string {
	e := u.Error
	out := []string{"Does not fit: " + infeasibleLimit(e) + "."}
	if !e.Searched() {
		if e.LowerBound > 0 {
			out = append(out, fmt.Sprintf("No plan %s takes an arena of less than %s%s; the search did not start.",
				e.InOrders(), Bytes(e.LowerBound), inCuts(e)))
		}
		return out
	}
	low := fmt.Sprintf("Lowest: an arena of %s (%s live) was reached", Bytes(e.LowestArena), Bytes(e.LowestLive))
	if w := e.Whole; w != nil {
		low += fmt.Sprintf(" with regions in parts, and no parts come below %s", Bytes(e.LowerBound))
		if w.Arena > 0 {
			low += fmt.Sprintf("; without them %s (%s live)", Bytes(w.Arena), Bytes(w.Live))
		} else {
			low += "; no search without them"
		}
		if w.Bound > 0 {
			low += fmt.Sprintf("; no plan in this order is below %s", Bytes(w.Bound))
		}
	} else if e.LowerBound > 0 {
		low += fmt.Sprintf("; no plan %s is below %s", e.InOrders(), Bytes(e.LowerBound))
	}
	if e.Stopped {
		low += "; the time limit ended the search, and more time may find a plan"
	}
	out = append(out, low+".")
	if u.Headroom != nil {
		out = append(out, headroomText(u.Headroom))
	}
	return out
}

// InfeasibleBudgetText is the message of an InfeasibleError, with sizes for people.
func InfeasibleBudgetText(e *planner.InfeasibleError) string {
	text := infeasibleLimit(e)
	if !e.Searched() {
		if e.LowerBound > 0 {
			text += fmt.Sprintf(": no plan in this order has an arena of less than %s%s", Bytes(e.LowerBound),
				inCuts(e))
		}
		return text + "; allow more, or use smaller dims"
	}
	text += fmt.Sprintf(": the smallest arena that was reached is %s (%s live)", Bytes(e.LowestArena),
		Bytes(e.LowestLive))
	switch w := e.Whole; {
	case w != nil && w.Arena > 0:
		text += fmt.Sprintf(", with regions in parts; without them it is %s (%s live)", Bytes(w.Arena), Bytes(w.Live))
	case w != nil:
		text += fmt.Sprintf(", with regions in parts; without them it is at least %s", Bytes(w.Bound))
	case e.LowerBound > 0:
		text += fmt.Sprintf(", and no plan in this order has one of less than %s", Bytes(e.LowerBound))
	}
	if e.Stopped {
		return text + "; the time limit ended the search: allow more time or bytes, or use smaller dims"
	}
	return text + "; allow more, or use smaller dims"
}

// infeasibleLimit names the limit that every plan exceeds.
func infeasibleLimit(e *planner.InfeasibleError) string {
	object := cmp.Or(e.Object, "plan")
	if e.Stopped && e.Searched() {
		object += " that was found"
	}
	switch {
	case e.Persistent > 0 && e.Budget <= 0:
		return fmt.Sprintf("no %s fits the budget of %s: inputs and weights alone take %s", object,
			Bytes(e.Budget+e.Persistent), Bytes(e.Persistent))
	case e.Persistent > 0:
		return fmt.Sprintf("no %s fits the %s that inputs and weights (%s) leave of %s", object, Bytes(e.Budget),
			Bytes(e.Persistent), Bytes(e.Budget+e.Persistent))
	}
	return fmt.Sprintf("no %s fits an arena of %s", object, Bytes(e.Budget))
}

// headroomText names the largest batch that fits.
func headroomText(r *planner.Headroom) string {
	if r.Size == 0 {
		if !r.Complete {
			return fmt.Sprintf("Time ended before a smaller %s that fits was found.", r.Symbol)
		}
		return fmt.Sprintf("No %s fits: even %s=1 does not.", r.Symbol, r.Symbol)
	}
	most := "the largest found"
	if !r.Complete {
		most = "at least; time ended the search"
	}
	return fmt.Sprintf("Fits with %s=%d (%s): total %s, +%s time.", r.Symbol, r.Size, most, Bytes(r.Total),
		Percent(r.Overhead))
}
