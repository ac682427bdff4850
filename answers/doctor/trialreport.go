package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"

	"memopt/view/report"
)

// TrialSchema is the schema of the JSON that `memopt doctor --try -O json` prints.
const TrialSchema = "memopt.trial/v1"

type runJSON struct {
	Peak  int64   `json:"peak_bytes"`
	Small bool    `json:"peak_is_bound"`
	Tree  int64   `json:"tree_peak_bytes"`
	Wall  float64 `json:"wall_ms"`
	CPU   float64 `json:"cpu_ms"`
}

type rowJSON struct {
	Setting string `json:"setting"`
	runJSON
	Memory int       `json:"memory"`
	Speed  int       `json:"time"`
	Code   int       `json:"exit_code"`
	Cause  *string   `json:"ended_by"`
	Runs   []runJSON `json:"runs"`
}

type trialJSON struct {
	Schema   string    `json:"schema"`
	Answer   string    `json:"answer"`
	Command  []string  `json:"command"`
	Asked    int       `json:"runs_each"`
	Finished bool      `json:"finished"`
	Settings []rowJSON `json:"settings"`
}

// Report writes the result of a trial.
func (t *Trial) Report(w io.Writer, format report.Format, o *Outcome) error {
	if format == report.JSONFormat {
		return report.WriteJSON(w, t.json(o))
	}
	table := t.table(o, format)
	if format == report.TableFormat {
		var b strings.Builder
		wrap(&b, "", "", o.Answer())
		b.WriteByte('\n')
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	if format == report.MarkdownFormat {
		table.Title = o.Answer()
	}
	return table.WriteAs(w, format)
}

// asItIs names the command without a setting in reports.
const asItIs = "as it is"

func (r *Row) name() string {
	if r.Setting == "" {
		return asItIs
	}
	return r.Setting
}

// Columns of a trial's table that may be left out.
const (
	treeColumn = 2
	runsColumn = 6
	exitColumn = 7
)

// table has a row per setting.
func (t *Trial) table(o *Outcome, format report.Format) *report.Table {
	table := &report.Table{
		Header: []string{"Setting", "Peak", "All processes", "Change", "Time", "Change", "Runs",
			"Exit"},
		Right: []bool{false, true, true, true, true, true, true},
		Fit:   []report.Fit{report.Wrap},
	}
	for i := range o.Rows {
		table.Add(t.cells(&o.Rows[i], &o.Rows[0], format)...)
	}
	switch format {
	case report.CSVFormat:
		table.Header = []string{"Setting", "Peak bytes", "All processes' bytes", "Change of memory",
			"Time ms",
			"Change of time", "Runs", "Exit"}
	case report.TableFormat:
		dropColumns(table, t.needless(o))
	}
	return table
}

// cells are a setting's row.
func (t *Trial) cells(r, base *Row, format report.Format) []string {
	exit := "0"
	if !r.OK() {
		exit = r.Ending.String()
	}
	if len(r.Runs) == 0 {
		return []string{r.name(), "", "", "", "", "", "0", exit}
	}
	memory, speed := "", ""
	if r != base && len(r.Runs) > 1 {
		memory = change(r.Memory, float64(r.memory()), float64(base.memory()))
		if r.Memory != 0 && (r.small() || base.small()) {
			memory = map[int]string{-1: "less", 1: "more"}[r.Memory]
		}
		speed = change(r.Speed, float64(r.Wall), float64(base.Wall))
	}
	peak, tree := size(format, r.Peak), size(format, r.Tree)
	if r.small() && format != report.CSVFormat {
		peak, tree = "< "+peak, "< "+tree
	}
	return []string{r.name(), peak, tree, memory, duration(format, r.Wall), speed,
		fmt.Sprint(len(r.Runs)), exit}
}

// needless marks the columns without information: those of a single process, of all runs, of no
// failure.
func (t *Trial) needless(o *Outcome) []bool {
	drop := make([]bool, exitColumn+1)
	drop[treeColumn], drop[runsColumn], drop[exitColumn] = true, true, true
	for i := range o.Rows {
		r := &o.Rows[i]
		if r.Tree-r.Peak > r.Peak/least {
			drop[treeColumn] = false
		}
		if len(r.Runs) != t.Runs {
			drop[runsColumn] = false
		}
		if !r.OK() {
			drop[exitColumn] = false
		}
	}
	return drop
}

// dropColumns leaves columns out.
func dropColumns(t *report.Table, drop []bool) {
	var right []bool
	for i, d := range drop {
		if !d {
			right = append(right, i < len(t.Right) && t.Right[i])
		}
	}
	keep := func(cells []string) (kept []string) {
		for i, c := range cells {
			if !drop[i] {
				kept = append(kept, c)
			}
		}
		return kept
	}
	t.Header, t.Right = keep(t.Header), right
	for i, row := range t.Rows {
		t.Rows[i] = keep(row)
	}
}

// memory is the figure that rows are compared by.
func (r *Row) memory() int64 { return max(r.Peak, r.Tree) }

// change prints a difference that is beyond the differences between runs; "same" if it is not.
func change(judged int, value, base float64) string {
	if judged == 0 || base == 0 {
		return "same"
	}
	return fmt.Sprintf("%+.1f %%", 100*(value/base-1))
}

func size(format report.Format, n int64) string {
	if format == report.CSVFormat {
		return fmt.Sprint(n)
	}
	return report.Bytes(n)
}

func duration(format report.Format, d time.Duration) string {
	if format == report.CSVFormat {
		return fmt.Sprintf("%.3f", milliseconds(d))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Answer says in a sentence or two which settings take the least memory and the least time.
func (o *Outcome) Answer() string {
	small, quick, failed := o.best()
	base := &o.Rows[0]
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if small != nil {
		add("%s takes the least memory: %s instead of %s%s.", small.name(), report.Bytes(small.memory()),
			report.Bytes(base.memory()), priced(small, base))
	}
	if quick != nil {
		add("%s is the fastest: %.2f s instead of %.2f s.", quick.name(), quick.Wall.Seconds(),
			base.Wall.Seconds())
	}
	if len(base.Runs) < 2 {
		add("Single runs are not compared: -r 5 makes more.")
	} else if small == nil && quick == nil {
		add("No setting saves memory or time beyond the difference between runs.")
	} else if n := len(base.Runs); n < fewRuns {
		add("With %d runs each that can be chance: -r 5 makes more.", n)
	}
	if failed > 0 {
		add("The command fails with %d of the settings.", failed)
	}
	if !o.Finished {
		add("The trial was interrupted: these are the runs until then.")
	}
	return strings.Join(parts, " ")
}

// best returns the settings with the least memory and the least time, nil if no setting saves any,
// and how many fail.
func (o *Outcome) best() (small, quick *Row, failed int) {
	for i := range o.Rows {
		r := &o.Rows[i]
		if r.Memory < 0 && (small == nil || r.memory() < small.memory()) {
			small = r
		}
		if r.Speed < 0 && (quick == nil || r.Wall < quick.Wall) {
			quick = r
		}
		if !r.OK() {
			failed++
		}
	}
	return small, quick, failed
}

// Below fewRuns runs, two sets of equal runs are often apart: with three, one is wholly below the
// other in 1 of 20 cases, with five in 1 of 252.
const fewRuns = 4

// priced describes the effect on the time of a setting that saves memory.
func priced(r, base *Row) string {
	if r.Speed == 0 || base.Wall == 0 {
		return ", in the same time"
	}
	return fmt.Sprintf(", in %.2f times the time", r.Wall.Seconds()/base.Wall.Seconds())
}

func (t *Trial) json(o *Outcome) *trialJSON {
	j := &trialJSON{Schema: TrialSchema, Answer: o.Answer(), Command: t.Command, Asked: t.Runs,
		Finished: o.Finished, Settings: []rowJSON{}}
	for i := range o.Rows {
		r := &o.Rows[i]
		row := rowJSON{Setting: r.Setting, Memory: r.Memory, Speed: r.Speed, Code: r.Code,
			Runs:    []runJSON{},
			runJSON: runJSON{r.Peak, r.small(), r.Tree, milliseconds(r.Wall), milliseconds(r.CPU)}}
		if r.Cause != "" {
			row.Cause = &r.Cause
		}
		for k := range r.Runs {
			one := &r.Runs[k]
			row.Runs = append(row.Runs, runJSON{one.Peak, one.Small, one.Tree,
				milliseconds(one.Wall),
				milliseconds(one.CPU)})
		}
		j.Settings = append(j.Settings, row)
	}
	return j
}
