package budget

import (
	"fmt"
	"time"

	"memopt/graph"
	"memopt/graph/live"
)

// Lower is the cheapest plan that was found with a smaller arena than a plan.
type Lower struct {
	Live, Arena int64   // its peak and its arena, in bytes
	Overhead    float64 // as a share of a step
}

// lower returns the cheapest plan below one among those that were found, or nil.
func (b *budgeter) lower(best *point) *Lower {
	below := b.cheapest(best.arena - 1)
	if below == nil {
		return nil
	}
	n := &Lower{Live: below.live, Arena: below.arena}
	if step := b.tasks.stepCost(); step > 0 {
		n.Overhead = float64(below.cost) / step
	}
	return n
}

// Explainer says why a plan for a budget keeps a value.
type Explainer struct {
	a       *Answer
	planned *live.Timeline
	atPeak  []bool // by value: it is the root of an operand of the node at the plan's peak
}

// Explainer returns an explainer of an answer, whose timeline is planned.
func (a *Answer) Explainer(planned *live.Timeline) *Explainer {
	g := a.tasks.a.Graph
	e := &Explainer{a: a, planned: planned, atPeak: make([]bool, len(g.Values))}
	if planned.Peak.Node == graph.NoNode {
		return e
	}
	for _, v := range g.Nodes[planned.Peak.Node].Inputs {
		if v == graph.NoValue {
			continue
		}
		if root := a.tasks.root[v]; root != graph.NoValue {
			e.atPeak[root] = true
		}
	}
	return e
}

// WhyKept returns why a stashed value, made by an entry, is not recomputed.
func (e *Explainer) WhyKept(v graph.ValueID, entry graph.NodeID) string {
	t, g := e.a.tasks, e.a.tasks.a.Graph
	if why := t.whyNot[entry]; why != "" {
		return why
	}
	root := t.root[v]
	switch {
	case root == graph.NoValue:
		return "it is a view of an input or a weight, which is live throughout"
	case t.sizes.Bytes[root] <= 0:
		return "it takes no bytes"
	case t.graph.Values[t.value[root]].Keep:
		return "it is an output of the graph, or a view of one"
	}
	if e.planned.Root[v] == graph.NoValue {
		return "it lies in the memory of an input"
	}
	peak := e.planned.Peak
	r := e.planned.Ranges[e.planned.Root[v]]
	switch {
	case peak.Step < int(r.Start) || int(r.End) <= peak.Step:
		return fmt.Sprintf("it is not live at the peak, at node %q", g.NodeLabel(peak.Node))
	case g.Values[root].Def == peak.Node:
		return fmt.Sprintf("the node at the peak, %q, makes it", g.NodeLabel(peak.Node))
	case e.atPeak[root]:
		return fmt.Sprintf("the node at the peak, %q, reads it", g.NodeLabel(peak.Node))
	}
	took := time.Duration(e.a.seconds[entry] * 1e9).Round(time.Nanosecond)
	return fmt.Sprintf("the plan fits with it, and running its node again alone takes %v", took)
}

// Maker is the node that makes the bytes of a value: the value's own node, or, for a view, the node
// whose output it shows.
func (e *Explainer) Maker(v graph.ValueID, node graph.NodeID) graph.NodeID {
	if root := e.a.tasks.root[v]; root != graph.NoValue {
		if def := e.a.tasks.a.Graph.Values[root].Def; def != graph.NoNode {
			return def
		}
	}
	return node
}
