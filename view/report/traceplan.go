package report

import (
	"io"
	"math"
	"time"

	"memopt/graph/live"
	"memopt/view/timeline"
)

// TimelineSchema is the schema of the trace of a step that has not run: its times are estimates, and no
// costs are read from it.
const TimelineSchema = "memopt.timeline/v1"

// TimelineHeader identifies the step of a plan's trace.
type TimelineHeader struct {
	Schema          string           `json:"schema"`           // TimelineSchema
	StructureSHA256 string           `json:"structure_sha256"` // of the model that was read
	Dims            map[string]int64 `json:"dims"`
	Costs           string           `json:"costs"`     // where the times come from: planner.Plan.ProfileName
	Rewritten       bool             `json:"rewritten"` // whether the plan changes the graph
	Persistent      int64            `json:"persistent_bytes"`
	Peak            int64            `json:"peak_bytes"`  // without values that live throughout
	Arena           int64            `json:"arena_bytes"` // after packing
}

// phases are the names of the phases of steps in traces.
var phases = [live.NumPhases]string{"forward", "backward", "update"}

// PlanTrace writes the step of a timeline, with its layout, as a trace in the form of those of runs: at
// estimated times, with the bytes that are planned by kind. The timeline's fields in the header are
// filled in.
func PlanTrace(w io.Writer, tl *timeline.Timeline, h TimelineHeader) error {
	h.Schema, h.Persistent, h.Peak = TimelineSchema, tl.Persistent.Sum(), tl.PeakBytes()
	if tl.Layout != nil {
		h.Arena = tl.Layout.Bytes
	}
	t := newTraceWriter(w, "memopt trace", h)
	repeated := make([]bool, len(tl.Steps))
	for i := range tl.Steps {
		if first := tl.Steps[i].Repeats; first >= 0 {
			repeated[first] = true
		}
	}
	for i := range tl.Steps {
		s := &tl.Steps[i]
		origin := ""
		if s.Clone() {
			origin = tl.Steps[s.Repeats].Name
		}
		n := NewTraceNode(s.Name, s.Op, phases[s.Phase], origin)
		switch {
		case s.Clone():
			n.Ends(int(s.Repeats))
		case repeated[i]:
			n.Begins(i)
		}
		start, end := nanoseconds(s.Start), nanoseconds(s.Start+s.Seconds)
		if name := phases[s.Phase]; i == 0 || name != t.phase {
			t.Phase(name, start)
		}
		t.Event(n, start, end-start, s.Live.Sum(), 0)
		t.Kinds(start, &tl.Persistent, &s.Live)
	}
	return t.Close()
}

// nanoseconds rounds seconds, up to the largest duration.
func nanoseconds(seconds float64) time.Duration {
	if n := math.Round(seconds * 1e9); n < math.MaxInt64 {
		return time.Duration(n)
	}
	return math.MaxInt64
}
