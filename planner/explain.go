package planner

import (
	"fmt"
	"time"

	"memopt/graph"
)

// NextStep is the cheapest plan that was found below the peak of a plan.
type NextStep struct {
	Live, Arena int64   // its peak and its arena, in bytes
	Overhead    float64 // as a share of a step
}

// next returns the cheapest plan below one among those that were found, or nil.
func (b *budgeter) next(best *point) *NextStep {
	below := b.cheapest(best.arena - 1)
	if below == nil {
		return nil
	}
	n := &NextStep{Live: below.live, Arena: below.arena}
	if step := b.stepCost(); step > 0 {
		n.Overhead = float64(below.cost) / step
	}
	return n
}

// whyHeld words why a plan to a budget does not recompute a stashed value.
func (b *budgeter) whyHeld(v graph.ValueID, entry graph.NodeID) string {
	p, g := b.p, b.p.Analysis.Graph
	if why := b.tasks.whyNot[entry]; why != "" {
		return why
	}
	root := b.tasks.root[v]
	switch {
	case root == graph.NoValue:
		return "it shows an input or a weight, which are there throughout"
	case p.Sizes.Bytes[root] <= 0:
		return "it takes no bytes"
	case b.tasks.graph.Values[b.tasks.value[root]].Keep:
		return "it is an output of the graph, or shows one"
	}
	peak := p.Planned.Peak
	if r := p.Planned.Ranges[p.Planned.Root[v]]; peak.Step < int(r.Start) || int(r.End) <= peak.Step {
		return fmt.Sprintf("it is not live at the peak, at node %q", g.NodeLabel(peak.Node))
	}
	if g.Values[root].Def == peak.Node {
		return fmt.Sprintf("the node at the peak, %q, makes it", g.NodeLabel(peak.Node))
	}
	if b.readAtPeak()[root] {
		return fmt.Sprintf("the node at the peak, %q, reads it", g.NodeLabel(peak.Node))
	}
	seconds := p.NodeSeconds()[entry]
	return fmt.Sprintf("the plan fits with it, and another run of its node alone takes %v", time.Duration(seconds*1e9).Round(time.Nanosecond))
}

// readAtPeak has the roots of what the node at the plan's peak reads.
func (b *budgeter) readAtPeak() map[graph.ValueID]bool {
	if b.atPeak == nil {
		b.atPeak = map[graph.ValueID]bool{}
		for _, u := range b.p.Analysis.Graph.Nodes[b.p.Planned.Peak.Node].Inputs {
			if u != graph.NoValue {
				b.atPeak[b.tasks.root[u]] = true
			}
		}
	}
	return b.atPeak
}

// maker is the node whose output a value of a node shows: the node itself where no other makes it.
func (b *budgeter) maker(v graph.ValueID, node graph.NodeID) graph.NodeID {
	if root := b.tasks.root[v]; root != graph.NoValue {
		if def := b.p.Analysis.Graph.Values[root].Def; def != graph.NoNode {
			return def
		}
	}
	return node
}
