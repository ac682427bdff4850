package parallel

import (
	"fmt"
	"strings"

	"memopt/view/report"
)

// Line is one term of a device's memory, with the arithmetic behind it.
type Line struct {
	What  string
	Sum   string // with the numbers put in
	Bytes int64
}

// Arithmetic shows how a stage's bytes come about. The bytes of all lines but the total's add up to
// the total.
func (r *Result) Arithmetic(st *Stage) []Line {
	l, p := r.Layout, &st.Parts
	run := &st.Chunks[st.load.chunk]
	lines := []Line{
		r.shared("weights", st.States.Weight, 3),
		r.shared("gradients", st.States.Gradient, 2),
		r.shared("optimizer state", st.States.Master+st.States.Moments, 1),
		{"inputs", "data, and the values that the stage receives, of one micro-batch", run.Inputs},
	}
	if st.Constants > 0 {
		lines = append(lines, Line{"constants", "as in the graph", st.Constants})
	}
	lines = append(lines, r.waiting(st)...)
	lines = append(lines, Line{"peak of one", fmt.Sprintf("the arena of a micro-batch of %s", run.Name), run.Peak})
	if st.Gathered > 0 {
		lines = append(lines, Line{"gathered weights", fmt.Sprintf("ZeRO 3: the largest layer, %s bytes, twice",
			report.Thousands(st.Gathered/2)), st.Gathered})
	}
	if st.Gather > 0 {
		lines = append(lines, Line{"gathered operands", fmt.Sprintf(
			"sequence parallel: operands that one node reads whole on all %d", l.TP), st.Gather})
	}
	if p.Reserve > 0 {
		lines = append(lines, Line{"reserve", "driver, context and libraries", p.Reserve})
	}
	return append(lines, Line{"total", "", p.Total()})
}

// shared is a line for memory that ZeRO divides from a stage on.
func (r *Result) shared(what string, bytes int64, stage int) Line {
	if r.Layout.Zero < stage || r.Layout.DP == 1 {
		return Line{what, fmt.Sprintf("%s bytes on each device", report.Thousands(bytes)), bytes}
	}
	dp := int64(r.Layout.DP)
	return Line{what, fmt.Sprintf("ZeRO %d: %s bytes / %d replicas", r.Layout.Zero, report.Thousands(bytes), dp),
		(bytes + dp - 1) / dp}
}

// waiting are the lines of the micro-batches that wait for their backward half.
func (r *Result) waiting(st *Stage) (lines []Line) {
	l := r.Layout
	if l.PP == 1 {
		return nil
	}
	flight := fmt.Sprintf("in flight min(m, p - i) = min(%d, %d - %d) = %d", l.Microbatches, l.PP, st.Stage,
		st.InFlight)
	if l.Interleave > 1 {
		flight = fmt.Sprintf("in flight min(m*v, (v - 1)*p + 2*(p - i - 1) + 1) / v = min(%d, %d) / %d",
			l.Microbatches*l.Interleave, (l.Interleave-1)*l.PP+2*(l.PP-st.Stage-1)+1, l.Interleave)
		if l.Microbatches == l.PP {
			flight = fmt.Sprintf("in flight m*v / v = %d / %d, since m = p", l.Microbatches*l.Interleave, l.Interleave)
		}
	}
	for c, n := range st.load.waiting {
		stash := st.Chunks[c].Stash
		text := fmt.Sprintf("%d waiting * %s bytes of stash", n, report.Thousands(stash))
		if l.Interleave > 1 {
			text += " of " + st.Chunks[c].Name
		}
		if c == 0 {
			text = flight + "; " + text
		}
		lines = append(lines, Line{"stashes", text, int64(n) * stash})
	}
	return lines
}

// budgetSum is the arithmetic of the bytes left for the arena of one micro-batch.
func (r *Result) budgetSum(st *Stage) string {
	run := st.Chunks[st.load.chunk].Peak
	return fmt.Sprintf("budget of one micro-batch: %s of memory - %s of all but its arena = %s",
		report.Bytes(r.Options.Memory), report.Bytes(st.Parts.Total()-run), signed(st.Budget))
}

// signed is Bytes of a number that may be negative.
func signed(n int64) string {
	if n < 0 {
		return "-" + report.Bytes(-n)
	}
	return report.Bytes(n)
}

// layers names the layers of a stage.
func (st *Stage) layers() string {
	var names []string
	for _, c := range st.Chunks {
		names = append(names, c.Name)
	}
	return strings.Join(names, "; ")
}
