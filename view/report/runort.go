package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"memopt/executor/verify"
	"memopt/hint"
)

type runtimeJSON struct {
	Name          string   `json:"name"`
	Version       string   `json:"version"`
	Library       string   `json:"library"`
	Optimization  string   `json:"optimization"`
	MemPattern    bool     `json:"mem_pattern"`
	Arena         bool     `json:"arena"`
	Parallel      bool     `json:"parallel"`
	Exact         bool     `json:"arena_exact"`
	Config        []string `json:"config"`
	Created       int64    `json:"session_arena_bytes"`
	LaterArena    *int64   `json:"later_arena_bytes"` // null if there was only one step
	LaterResident *int64   `json:"later_rss_bytes"`
	// States is how steps hand on states; absent where every step starts from the given values.
	States     *runtimeStatesJSON `json:"states,omitempty"`
	UpperBound bool               `json:"measured_arena_is_upper_bound"`
	Facts      []string           `json:"facts"`
}

// runtimeStatesJSON counts the states whose next values go to buffers beside the runtime's arena.
type runtimeStatesJSON struct {
	InPlace      int   `json:"in_place"`
	InPlaceBytes int64 `json:"in_place_bytes"`
	// Second are those with a second buffer, which costs as many bytes more.
	Second      int    `json:"second_buffers"`
	SecondBytes int64  `json:"second_buffer_bytes"`
	Why         string `json:"why,omitempty"` // of the largest
	Waiting     int    `json:"waiting_nodes"`
}

// newRuntimeJSON returns nil for another backend's run.
func newRuntimeJSON(v *RunView) *runtimeJSON {
	r := v.Run.Runtime
	if r == nil {
		return nil
	}
	j := &runtimeJSON{Name: "ONNX Runtime", Version: r.Version, Library: r.Library, Optimization: r.Optimization,
		MemPattern: r.MemPattern, Arena: r.Arena,
		Parallel: r.Parallel, Exact: r.Exact, Config: append([]string{}, r.Config...), Created: r.Created,
		UpperBound: r.Bounded, Facts: append([]string{}, v.runtimeFacts()...)}
	if r.LaterArena > 0 {
		j.LaterArena = &r.LaterArena
	}
	if r.LaterResident > 0 {
		j.LaterResident = &r.LaterResident
	}
	if st := r.States; st != nil {
		j.States = &runtimeStatesJSON{InPlace: st.InPlace, InPlaceBytes: st.InPlaceBytes, Second: st.Second,
			SecondBytes: st.SecondBytes, Waiting: st.Waiting, Why: secondBuffer(st)}
	}
	return j
}

// patternShare is how much later steps must exceed the first to be worth a line: less than that is
// the arena's rounding.
const patternShare = 1.02

// runtimeFacts describes the costs of the runtime's settings in this run, with figures.
func (v *RunView) runtimeFacts() []string {
	r, first := v.Run.Runtime, v.Run.Measured.Arena
	var facts []string
	if r.MemPattern && float64(r.LaterArena) > patternShare*float64(first) && first > 0 {
		facts = append(facts,
			fmt.Sprintf("with the memory pattern on, later steps take %s of the arena, %.2f times "+
				"the first step's %s; set SessionOptions.enable_mem_pattern = False "+
				"(%v) to avoid that",
				Bytes(r.LaterArena), float64(r.LaterArena)/float64(first), Bytes(first), hint.MemPattern.With("off")))
	} else if r.MemPattern && float64(r.LaterResident) > patternShare*float64(v.Run.Resident) && !r.Arena &&
		v.Run.Resident > 0 {
		facts = append(facts,
			fmt.Sprintf("with the memory pattern on, later steps take %s of the process's memory, %.2f times the "+
				"first step's %s",
				Bytes(r.LaterResident), float64(r.LaterResident)/float64(v.Run.Resident), Bytes(v.Run.Resident)))
	}
	if r.Bounded {
		facts = append(facts,
			"creating the session took more of the arena than a step takes: the measured arena is "+
				"an upper bound")
	}
	if !r.Arena {
		facts = append(facts, "without its arena the runtime does not count: only the memory of the process is "+
			"measured")
	}
	return facts
}

// secondBuffer names the largest state with a second buffer, and the reason for that.
func secondBuffer(st *verify.RuntimeStates) string {
	if st.Second == 0 {
		return ""
	}
	return fmt.Sprintf("%q: %s", st.Input, st.Why)
}

// statesNote describes the place of the next values of states, and its cost.
func statesNote(st *verify.RuntimeStates) string {
	parts := []string{fmt.Sprintf("%d of %d written over the old values", st.InPlace, st.InPlace+st.Second)}
	if st.Waiting > 0 {
		parts = append(parts, fmt.Sprintf("%d nodes added so that these have been read by then", st.Waiting))
	}
	if st.Second > 0 {
		parts = append(parts, fmt.Sprintf("%s of second buffers for the others, such as %s",
			Bytes(st.SecondBytes), secondBuffer(st)))
	}
	return strings.Join(parts, "; ")
}

// runtimeRows adds the measurements of an execution in ONNX Runtime.
func (t *Table) runtimeRows(v *RunView) {
	r := v.Run.Runtime
	t.Add("ONNX Runtime", r.Version, runtimeSettings(r))
	if st := r.States; st != nil {
		t.Add("states", Bytes(st.InPlaceBytes+st.SecondBytes), statesNote(st))
	}
	if r.Arena {
		t.Add("measured arena", Bytes(v.Run.Measured.Arena),
			fmt.Sprintf("of the first step, outputs included; the session holds another %s", Bytes(r.Created)))
	}
	if r.Arena && r.LaterArena > 0 {
		t.Add("later steps", Bytes(r.LaterArena), "the largest peak of a step after the first")
	}
	if !r.Arena {
		return
	}
	t.Add("arena reserved", Bytes(v.Run.Arena.Reserved), "taken from the system, with the bytes that the session holds")
}

// runtimeSettings lists the runtime's settings.
func runtimeSettings(r *verify.Runtime) string {
	parts := []string{"optimizations " + r.Optimization}
	for _, s := range []struct {
		set  bool
		text string
	}{{!r.MemPattern, "memory pattern off"}, {!r.Arena, "arena off"}, {r.Exact, "arena exact"},
		{r.Parallel, "parallel"}} {
		if s.set {
			parts = append(parts, s.text)
		}
	}
	return strings.Join(append(parts, r.Config...), ", ")
}

// writeFacts writes the remarks below a table.
func (v *RunView) writeFacts(w io.Writer, who string) error {
	if v.Run.Runtime == nil {
		return nil
	}
	for _, f := range v.runtimeFacts() {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := Paragraph(w, who+f+"."); err != nil {
			return err
		}
	}
	return nil
}

// runtimeVerify writes how two runs in ONNX Runtime compare.
func (v *VerifyView) runtimeVerify(w io.Writer, format Format) error {
	if format == TableFormat {
		if err := v.writeHeadline(w); err != nil {
			return err
		}
	}
	t := Table{Header: []string{"item", "baseline", "planned", ""}, Right: []bool{false, true, true, false},
		Fit: []Fit{Wrap, Whole, Whole, Wrap}}
	a, b, r, s := v.Verdict.Baseline, v.Verdict.Planned, v.Baseline.Run.Runtime, v.Planned.Run.Runtime
	t.Add("ONNX Runtime", r.Version, s.Version, runtimeSettings(r))
	if v.Parts != "" {
		t.Add("in parts", "", "", v.Parts)
	}
	if x, y := r.States, s.States; x != nil && y != nil {
		t.Add("states", Bytes(x.InPlaceBytes+x.SecondBytes), Bytes(y.InPlaceBytes+y.SecondBytes),
			"planned: "+statesNote(y))
	}
	t.Add("predicted live", Bytes(a.Predicted.Live), Bytes(b.Predicted.Live),
		"in ONNX Runtime's default order, simulated")
	if r.Arena && !r.Exact && b.Predicted.Arena > 0 {
		t.Add("predicted arena", Bytes(a.Predicted.Arena), Bytes(b.Predicted.Arena),
			"whose chunks are up to twice as large as requested")
	}
	if r.Arena {
		t.Add("measured arena", Bytes(a.Measured.Arena), Bytes(b.Measured.Arena),
			"of the first step, outputs included: "+v.saving(a.Measured.Arena, b.Measured.Arena))
	}
	if r.LaterArena > 0 && s.LaterArena > 0 {
		t.Add("later steps", Bytes(r.LaterArena), Bytes(s.LaterArena), v.saving(r.LaterArena, s.LaterArena))
	}
	if a.Resident > 0 {
		t.Add("process", Bytes(a.Resident), Bytes(b.Resident),
			"VmHWM - VmRSS before the first step: "+v.saving(a.Resident, b.Resident))
	}
	if r.Arena {
		t.Add("the session holds", Bytes(r.Created), Bytes(s.Created), "of the arena, before the first step")
	}
	t.Add("inputs and weights", Bytes(a.Predicted.Persistent), Bytes(b.Predicted.Persistent), "")
	t.timeRows(v.Verdict)
	if v.Predicted > 0 {
		t.Add("predicted time", "", fmt.Sprintf("%.3f times", v.Predicted), costNote(v.Profile))
	}
	if err := t.WriteAs(w, format); err != nil || format != TableFormat {
		return err
	}
	if err := v.Baseline.writeFacts(w, "Baseline: "); err != nil {
		return err
	}
	return v.Planned.writeFacts(w, "Planned: ")
}

// saving is the difference of the figures.
func (v *VerifyView) saving(before, after int64) string {
	return fmt.Sprintf("saved %s", Percent(float64(before-after)/math.Max(1, float64(before))))
}
