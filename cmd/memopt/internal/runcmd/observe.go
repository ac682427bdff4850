package runcmd

import (
	"io"
	"os"
	"time"

	"memopt/cmd/memopt/internal/cli"
	"memopt/configs"
	"memopt/graph"
	"memopt/internal/cleanup"
	"memopt/internal/fileio"
	"memopt/view/report"
	"memopt/view/timeline"
)

// observer collects the phases of --phases, and writes the trace of --profile as it happens. It tells
// steps apart by the place in the order, which starts anew with every step. Its memory does not
// grow with the number of steps.
type observer struct {
	g        *graph.Graph
	origins  []string            // by node: of a clone, the node that it is a clone of; nil without a rewrite
	backward []bool              // by node
	Trace    *report.TraceWriter // nil without a trace
	nodes    []*report.TraceNode // by node, of those that have run; nil without a trace
	// repeats is by node the first one that runs the same, of those that run again; else NoNode. Nil
	// where no plan rewrote the graph.
	repeats []graph.NodeID
	planned *timeline.Timeline // of the step that runs; nil without a plan
	threads []threadSpan       // the work of other threads for the next node; for a trace
	first   time.Time
	Step    int
	last    int
	half    int      // of the last node
	peaks   [2]int64 // of the two halves, over all steps
	ends    [2]int64 // live bytes at the end of each
}

// threadSpan is when a thread worked.
type threadSpan struct {
	thread int
	start  time.Time
	took   time.Duration
}

// Thread notes a thread's work for the next node.
func (o *observer) Thread(thread int, start time.Time, took time.Duration) {
	if o.Trace != nil {
		o.threads = append(o.threads, threadSpan{thread, start, took})
	}
}

// NewObserver returns an observer of run's steps.
func NewObserver(x *Execution) *observer {
	o := &observer{g: x.Planned.Model.Graph, last: -1, backward: x.Planned.Backward()}
	if x.Rewritten != nil {
		o.origins = x.Rewritten.Labels()
	}
	return o
}

// Node notes one execution.
func (o *observer) Node(i int, id graph.NodeID, start time.Time, took time.Duration, bytes int64) {
	if o.first.IsZero() {
		o.first = start
	}
	if i <= o.last {
		o.Step++
	}
	half := 0
	if o.backward != nil && o.backward[id] {
		half = 1
	}
	turns := o.last < 0 || i <= o.last || half != o.half // a phase begins
	o.last, o.half = i, half
	o.peaks[half] = max(o.peaks[half], bytes)
	o.ends[half] = bytes
	if o.Trace == nil {
		return
	}
	if o.nodes[id] == nil {
		o.nodes[id] = o.traceNode(id, half)
	}
	at := start.Sub(o.first)
	if turns {
		o.Trace.Phase(phaseNames[half], at)
	}
	o.Trace.Event(o.nodes[id], at, took, bytes, o.Step)
	for _, s := range o.threads {
		if !s.start.Before(start) { // without the preparation before the first node
			o.Trace.Thread(o.nodes[id], s.thread, s.start.Sub(o.first), s.took)
		}
	}
	o.threads = o.threads[:0]
	if o.planned != nil {
		o.Trace.Kinds(at, &o.planned.Persistent, &o.planned.Steps[i].Live)
	}
}

// traceNode is the common part of a node's events. A flow leads from a node to each of its clones.
func (o *observer) traceNode(id graph.NodeID, half int) *report.TraceNode {
	n := report.NewTraceNode(o.g.NodeLabel(id), o.g.Nodes[id].Op, phaseNames[half], o.origin(id))
	switch {
	case o.repeats == nil || o.repeats[id] == graph.NoNode:
	case o.repeats[id] == id:
		n.Begins(int(id))
	default:
		n.Ends(int(o.repeats[id]))
	}
	return n
}

var phaseNames = [2]string{"forward", "backward"}

// Phases returns the halves that the graph has.
func (o *observer) Phases() []report.Phase {
	halves := 1
	if o.backward != nil {
		halves = 2
	}
	var list []report.Phase
	for i := range halves {
		list = append(list, report.Phase{Name: phaseNames[i], Allocated: o.ends[i], Peak: o.peaks[i]})
	}
	return list
}

// origin returns the node that a clone repeats, or "".
func (o *observer) origin(id graph.NodeID) string {
	if o.origins == nil {
		return ""
	}
	return o.origins[id]
}

// TraceTo makes the observer write a Chrome trace.
func (o *observer) TraceTo(w io.Writer, x *Execution, backend string, threads int) {
	h := report.TraceHeader{Schema: configs.TraceSchema, StructureSHA256: x.Of.StructureSHA256, Dims: x.Of.Dims,
		Backend: backend, Threads: threads, Rewritten: x.Changed()}
	if h.Dims == nil {
		h.Dims = map[string]int64{}
	}
	o.nodes = make([]*report.TraceNode, len(o.g.Nodes))
	o.repeats, o.planned = repeatsOf(x), plannedOf(x)
	o.Trace = report.NewTraceWriter(w, h)
}

// repeatsOf finds the nodes that run again.
func repeatsOf(x *Execution) []graph.NodeID {
	if x.Rewritten == nil {
		return nil
	}
	first := make([]graph.NodeID, len(x.Rewritten.By.Model.Graph.Nodes))
	for i := range first {
		first[i] = graph.NoNode
	}
	out := make([]graph.NodeID, len(x.Rewritten.Origin))
	for i, old := range x.Rewritten.Origin {
		switch out[i] = graph.NoNode; {
		case old == graph.NoNode:
		case first[old] == graph.NoNode:
			first[old] = graph.NodeID(i)
		default:
			out[i], out[first[old]] = first[old], first[old]
		}
	}
	return out
}

// plannedOf is the plan's step, if the executed step is that step, node by node; else nil.
func plannedOf(x *Execution) *timeline.Timeline {
	if x.Plan == nil || x.Plan.Planned == nil {
		return nil
	}
	t, err := timeline.Of(x.Plan.Plan)
	if err != nil || len(t.Steps) != len(x.Planned.Model.Graph.Nodes) {
		return nil
	}
	return t
}

// profileFile is where a trace goes while the steps run.
type profileFile struct {
	path  string
	file  *fileio.File // nil where the trace goes to standard output
	spool *os.File     // has it meanwhile then, so that standard output gets a whole trace or none
	item  cleanup.Item // the spool's name
}

// startProfile begins the file of --profile.
func startProfile(a *cli.App, path string) (*profileFile, error) {
	p := &profileFile{path: path}
	var err error
	if path == cli.StreamName {
		p.spool, p.item, err = cleanup.File(func() (*os.File, error) { return os.CreateTemp("", "memopt-profile-*") })
	} else {
		if err := a.Writes("--profile", path); err != nil {
			return nil, err
		}
		p.file, err = fileio.Create(path)
	}
	if err != nil {
		return nil, cli.Usage("--profile: %w", err)
	}
	return p, nil
}

// Write writes to the file.
func (p *profileFile) Write(data []byte) (int, error) {
	if p.spool != nil {
		return p.spool.Write(data)
	}
	return p.file.Write(data)
}

// commitProfile ends the trace and renames the file to its final name.
func commitProfile(a *cli.App, p *profileFile, trace *report.TraceWriter) error {
	err := trace.Close()
	if p.spool != nil {
		if err == nil {
			_, err = p.spool.Seek(0, io.SeekStart)
		}
		if err == nil {
			_, err = io.Copy(a.Out, p.spool)
		}
		if err != nil {
			return cli.Usage("--profile: %w", err)
		}
		return nil
	}
	if err := p.file.Commit(); err != nil { // the error of Close, too, if there was one
		return cli.Usage("%w", err)
	}
	a.Files.Written("--profile", p.path)
	return nil
}

// discard removes an unfinished trace.
func (p *profileFile) discard() {
	if p == nil {
		return
	}
	p.file.Discard()
	if p.spool != nil {
		p.spool.Close()
		p.item.Undo()
	}
}
