package main

import (
	"bytes"
	"time"

	"memopt/configs"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
	"memopt/report"
)

// observer collects what --phases and --profile report. It tells steps apart by the place in the
// order, which starts anew with every step.
type observer struct {
	g        *graph.Graph
	origins  []string // by node: of a clone, the node that it is a clone of; nil where nothing was rewritten
	backward []bool   // by node
	events   []report.TraceEvent
	first    time.Time
	step     int
	last     int
	peaks    [2]int64 // of the two halves, over all steps
	ends     [2]int64 // live bytes at the end of each
}

// newObserver returns an observer of what run executes.
func newObserver(x *execution) *observer {
	side := x.side()
	return &observer{g: side.Model.Graph, last: -1, origins: x.origins, backward: backward(side)}
}

// backward returns, by node, whether it is of the backward half; nil for a graph that has none.
func backward(side verify.Side) []bool {
	b, err := live.FindBoundary(side.Model)
	if err != nil {
		return nil
	}
	order := side.Order
	if order == nil {
		order, _ = graph.Topological(side.Model.Graph)
	}
	return live.Split(side.Model.Graph, b, order)
}

// Node notes one execution.
func (o *observer) Node(i int, id graph.NodeID, start time.Time, took time.Duration, bytes int64) {
	if o.first.IsZero() {
		o.first = start
	}
	if i <= o.last {
		o.step++
	}
	o.last = i
	half := 0
	if o.backward != nil && o.backward[id] {
		half = 1
	}
	o.peaks[half] = max(o.peaks[half], bytes)
	o.ends[half] = bytes
	n := o.g.Nodes[id]
	o.events = append(o.events, report.TraceEvent{Name: o.g.NodeLabel(id), Op: n.Op, Phase: phaseNames[half], Start: start.Sub(o.first), Took: took, Live: bytes, Step: o.step, Origin: o.origin(id)})
}

// backwardNodes counts the nodes of the backward half.
func backwardNodes(side verify.Side) int {
	n := 0
	for _, is := range backward(side) {
		if is {
			n++
		}
	}
	return n
}

var phaseNames = [2]string{"forward", "backward"}

// phases returns the halves that the graph has.
func (o *observer) phases() []report.Phase {
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

// cloneOrigins returns, by node of a rewritten graph, the label of the old node whose times it counts for where its
// own label is another one.
func cloneOrigins(g *graph.Graph, r *recompute.Rewritten) []string {
	origins := make([]string, len(r.Origin))
	for i, old := range r.Origin {
		if old == graph.NoNode {
			continue
		}
		if label := g.NodeLabel(old); label != r.Model.Graph.NodeLabel(graph.NodeID(i)) {
			origins[i] = label
		}
	}
	return origins
}

// origin returns what a node is a clone of, or "".
func (o *observer) origin(id graph.NodeID) string {
	if o.origins == nil {
		return ""
	}
	return o.origins[id]
}

// trace returns the events as a Chrome trace.
func (o *observer) trace(x *execution, backend string, threads int) ([]byte, error) {
	h := report.TraceHeader{Schema: configs.TraceSchema, StructureSHA256: x.l.sha, Dims: x.l.dims, Backend: backend, Threads: threads, Rewritten: x.changed}
	if h.Dims == nil {
		h.Dims = map[string]int64{}
	}
	var b bytes.Buffer
	err := report.ChromeTrace(&b, h, o.events)
	return b.Bytes(), err
}
