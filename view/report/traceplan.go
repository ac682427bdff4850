package report

import (
	"fmt"
	"io"
	"math"
	"time"

	"memopt/graph/live"
	"memopt/graph/op"
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
	uses, c := tl.Uses(), newCopies(tl, &h)
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

// copies has the clocks of a step whose values move to the host: of nodes, and of copies each way.
type copies struct {
	tl           *timeline.Timeline
	link         *recompute.LinkRecord
	any          bool // the step has copies
	now, out, in float64
	newest       int             // the newest step on the track of nodes; -1
	begun        map[string]int  // by buffer: the step of the newest copy into it
	ends         map[int]float64 // by step: when a copy has ended
	after        int             // the step that the one at hand waits for; -1
}

func newCopies(tl *timeline.Timeline, h *TimelineHeader) *copies {
	c := &copies{tl: tl, link: h.Link, newest: -1, begun: map[string]int{}, ends: map[int]float64{}}
	for i := range tl.Steps {
		c.any = c.any || c.transfer(i) != op.NoTransfer
	}
	return c
}

func (c *copies) transfer(i int) op.Transfer {
	return op.Of(c.tl.Graph.Nodes[c.tl.Steps[i].Node].Kind).Transfer
}

// step finds the track and the time of a step.
func (c *copies) step(i int) (track int, start, end float64) {
	s := &c.tl.Steps[i]
	if !c.any {
		return nodesTrack, s.Start, s.Start + s.Seconds
	}
	seconds, t := s.Seconds, c.transfer(i)
	n := c.tl.Graph.Nodes[s.Node]
	c.after = -1
	if t == op.ToHost || t == op.FromHost {
		if c.link != nil && c.link.BytesPerSecond > 0 {
			seconds = c.link.LatencyMicros/1e6 + float64(c.tl.ValueBytes(n.Output(0)))/c.link.BytesPerSecond
		}
		c.after, c.begun[c.tl.Graph.ValueName(n.Output(0))] = c.newest, i
	}
	switch t {
	case op.ToHost:
		start = max(c.now, c.out)
		c.out = start + seconds
		c.ends[i] = c.out
		return outTrack, start, c.out
	case op.FromHost:
		start = max(c.now, c.in)
		c.in = start + seconds
		c.ends[i] = c.in
		return inTrack, start, c.in
	case op.NoTransfer:
	default:
		if copy, ok := c.begun[c.tl.Graph.ValueName(n.Input(0))]; ok {
			c.now, c.after, seconds = max(c.now, c.ends[copy]), copy, 0
		}
	}
	start, c.newest = c.now, i
	c.now += seconds
	return nodesTrack, start, c.now
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
	if !c.any {
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
