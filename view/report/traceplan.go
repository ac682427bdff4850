package report

import (
	"fmt"
	"io"
	"math"
	"time"

	"memopt/graph/live"
	"memopt/planner/offload"
	"memopt/recompute"
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
	// Link is that of copies to the host and back; nil: their times are those of other nodes.
	Link *recompute.LinkRecord `json:"link,omitempty"`
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
	if h.Link != nil {
		tl.Over(offload.Link{BytesPerSecond: h.Link.BytesPerSecond,
			Latency: time.Duration(math.Round(h.Link.LatencyMicros * 1e3))})
	} else {
		tl.Over(offload.Link{})
	}
	uses, c := tl.Uses(), &copies{tl: tl, newest: -1}
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
		track, from, until := c.step(i)
		start, end := nanoseconds(from), nanoseconds(until)
		c.args(n, i, &uses[i])
		if track != nodesTrack {
			t.Copy(n, track, start, end-start)
			continue
		}
		if name := phases[s.Phase]; i == 0 || name != t.phase {
			t.Phase(name, start)
		}
		t.Event(n, start, end-start, s.Live.Sum(), 0)
		t.Kinds(start, &tl.Persistent, &s.Live)
	}
	return t.Close()
}

// The tracks of a plan's trace beside that of phases, 2.
const (
	nodesTrack = 1
	outTrack   = 3 // copies to the host
	inTrack    = 4 // copies from it
)

// copies knows which steps of a timeline copy, and which steps come before others.
type copies struct {
	tl     *timeline.Timeline
	newest int // the newest step on the track of nodes; -1
	after  int // the step that the one at hand waits for; -1
}

// step finds the track and the time of a step.
func (c *copies) step(i int) (track int, start, end float64) {
	s := &c.tl.Steps[i]
	start, end = s.Start, s.Start+s.Seconds
	c.after = -1
	if at := c.tl.CopyOf(i); at >= 0 {
		copy := &c.tl.Copies[at]
		if !c.tl.Waits(i) {
			c.after = c.newest
			return map[bool]int{true: outTrack, false: inTrack}[copy.Out], copy.Start, copy.End
		}
		c.after, start = int(copy.Begun), end
	}
	c.newest = i
	return nodesTrack, start, end
}

// args adds the uses of buffers to a node's events, and in a step with copies its name and the one that it waits for.
func (c *copies) args(n *TraceNode, i int, u *timeline.Uses) {
	for k, list := range [][]string{u.Reads, u.Writes, u.Frees} {
		if len(list) == 0 {
			continue
		}
		n.args = append(append(n.args, `, "`...), []string{"reads", "writes", "frees"}[k]...)
		for j, name := range list {
			n.args = append(n.args, []string{`": [`, `, `}[min(j, 1)]...)
			n.args = append(n.args, quoteJSON(name)...)
		}
		n.args = append(n.args, ']')
	}
	if len(c.tl.Copies) == 0 {
		return
	}
	n.args = fmt.Appendf(n.args, `, "id": "%d"`, i)
	if c.after >= 0 {
		n.args = fmt.Appendf(n.args, `, "after": ["%d"]`, c.after)
	}
}

// nanoseconds rounds seconds, up to the largest duration.
func nanoseconds(seconds float64) time.Duration {
	if n := math.Round(seconds * 1e9); n < math.MaxInt64 {
		return time.Duration(n)
	}
	return math.MaxInt64
}
