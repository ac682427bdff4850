package explain

import (
	"fmt"

	"memopt"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/hint"
	"memopt/recompute"
	"memopt/symbolic"
)

// rows are the memory live at the peak.
func (e *explainer) rows() []*Value {
	rows := make([]*Value, 0, len(e.tenants))
	for _, t := range e.tenants {
		rows = append(rows, e.row(t))
	}
	return rows
}

func (e *explainer) row(t live.Tenant) *Value {
	v := &Value{ID: graph.NoValue, Bytes: t.Bytes, Expr: symbolic.Unknown(), Kind: t.Kind, program: t.Value,
		root: t.Root, made: -1, next: -1, last: -1}
	node := e.program.Steps[e.peak].Node
	switch t.Kind {
	case live.Workspace:
		node = e.program.Steps[e.made[t.Value]].Node
		v.Why = fmt.Sprintf("the kernel of %q works in it while it runs", e.g.NodeLabel(node))
	case live.Inner:
		v.Why = fmt.Sprintf("it lives in the subgraphs of %q while that runs", e.g.NodeLabel(node))
	case live.Beside:
		v.Why = fmt.Sprintf("clones take it besides their values (%v)", hint.CloneBytes)
		v.Layer = graph.NoLayer
		return v
	default:
		e.fill(v, t.Value)
		return v
	}
	v.Producer, v.Op, v.Layer = e.g.NodeLabel(node), e.g.Nodes[node].Op, graph.LayerOf(e.g.NodeLabel(node))
	return v
}

// fill fills in the facts about a value of the program.
func (e *explainer) fill(v *Value, x graph.ValueID) {
	v.ID = e.origin[x]
	v.Name = recompute.CloneName(e.g.ValueName(v.ID), e.copies[x])
	if e.program.Bytes[x] == v.Bytes {
		v.Expr = e.g.Values[v.ID].Type.Bytes()
	}
	v.Layer = e.g.LayerOfValue(v.ID)
	v.made, v.next, v.last = int(e.made[x]), int(e.next[x]), int(e.last[x])
	if v.made >= 0 {
		v.Producer, v.Op = e.label(e.made[x]), e.g.Nodes[e.program.Steps[v.made].Node].Op
	}
	v.LastReader, v.HeldBy = e.label(e.last[x]), e.label(e.next[x])
	v.Placement = e.placementOf(v, x)
	v.Why, v.Again = e.whyLive(v, x), e.whyMade(v, x)
}

// whyLive is the reason why a value is live.
func (e *explainer) whyLive(v *Value, x graph.ValueID) string {
	copied, copies := e.whyCopied(v)
	switch {
	case v.Kind == live.Unfilled:
		return fmt.Sprintf("parts of it are made and lie in its buffer; %q makes the rest", v.Producer)
	case v.made == e.peak:
		return "the node at the peak makes it"
	case v.next == e.peak:
		return "the node at the peak reads it"
	case copies:
		return copied
	case v.next >= 0:
		return fmt.Sprintf("%q reads it later", v.HeldBy)
	case e.outputs[x]:
		return "it is an output of the graph"
	}
	return fmt.Sprintf("no later node reads it, but other values in its buffer are live up to %q",
		e.label(e.t.Ranges[v.root].End-1))
}

// whyMade returns why a value is or is not recomputed.
func (e *explainer) whyMade(v *Value, x graph.ValueID) string {
	a := e.p.Analysis
	if v.made < 0 || v.Kind == live.Unfilled {
		return ""
	}
	node := e.program.Steps[v.made].Node
	if e.moving != nil {
		if why, ok := e.whyMoved(v, node); ok {
			return why
		}
	}
	switch {
	case e.copies[x] > 0:
		return e.placed(e.p, node, e.copies[x])
	case a.Backward[node]:
		return "no: the backward half makes it"
	case e.stash[x] == 0:
		return "no: no backward node reads it"
	}
	st := e.p.Stashed[e.stash[x]-1]
	if cs := a.OfEntry(st.Node); len(cs) > 0 {
		v.Cluster = a.Clusters[a.Candidates[cs[0]].Cluster].Config()
	}
	if st.WhyKept != "" {
		return "no: " + st.WhyKept
	}
	return "yes: the plan makes it again later"
}

// placed returns the reason for a clone of a plan.
func (e *explainer) placed(p *memopt.Plan, node graph.NodeID, copy int) string {
	seen := 0
	for _, pl := range p.Placements {
		for i, id := range pl.Nodes {
			if id != node {
				continue
			}
			if seen++; seen < copy {
				continue
			}
			if i == len(pl.Nodes)-1 && pl.Reason != "" {
				return "yes, this is the clone: " + pl.Reason
			}
			return fmt.Sprintf("yes, this is a clone that %q is made again with", p.Analysis.Graph.ValueName(pl.Value))
		}
	}
	return "yes, this is a clone"
}

// elsewhere describes the requested values that are in no row of the peak, and not away on the host or back.
func (e *explainer) elsewhere(asked, present, away []bool) []*Absent {
	var out []*Absent
	seen := make([]bool, len(e.program.Bytes))
	for x, id := range e.origin {
		if id == graph.NoValue || asked == nil || !asked[id] || e.home[id] != id || away[id] {
			continue
		}
		if src := e.source[x]; !present[src] && !seen[src] {
			seen[src] = true
			out = append(out, e.absent(graph.ValueID(x), src))
		}
	}
	return out
}

// absent describes a value of the program, and the value that it shows, if that is another one.
func (e *explainer) absent(x, src graph.ValueID) *Absent {
	id := e.origin[x]
	a := &Absent{Name: recompute.CloneName(e.g.ValueName(id), e.copies[x]), Layer: e.g.LayerOfValue(id),
		Bytes: max(e.program.Bytes[x], 0), Expr: e.g.Values[id].Type.Bytes(), First: -1, Until: -1,
		Producer: e.label(e.made[x]), LastReader: e.label(e.last[src])}
	root := e.t.Root[src]
	switch {
	case e.program.Bytes[x] < 0:
		a.Why = "its size depends on data or is unknown: it counts as 0 bytes"
	case root == graph.NoValue && x != src:
		a.Why = fmt.Sprintf("it shows %q, which is live throughout, beside the peak", e.g.ValueName(e.origin[src]))
	case root == graph.NoValue && e.t.State != nil && e.t.State[src] != graph.NoValue && e.made[src] >= 0:
		a.Why = fmt.Sprintf("it lies in the memory of the state %q, which is live throughout, beside the peak",
			e.g.ValueName(e.t.State[src]))
	case root == graph.NoValue:
		a.Why = "it is an input, a weight or a constant, live throughout, beside the peak"
	default:
		e.lifetime(a, src)
	}
	return a
}

// lifetime says when a value is live that is not live at the peak.
func (e *explainer) lifetime(a *Absent, src graph.ValueID) {
	a.First, a.Until = int(e.made[src]), int(max(e.last[src], e.made[src]))
	if e.outputs[src] {
		a.Until = len(e.program.Steps) - 1
	}
	switch {
	case a.First > e.peak:
		a.Why = fmt.Sprintf("it is made after the peak, by %q", a.Producer)
	case a.Until < e.peak && a.LastReader == "":
		a.Why = "no node reads it: it dies where it is made, before the peak"
	case a.Until < e.peak:
		a.Why = fmt.Sprintf("it is dead before the peak: %q is the last to read it", a.LastReader)
	case e.program.Bytes[src] == 0:
		a.Why = "it takes no bytes"
	default:
		a.Why = "its bytes hold a value that was written over it in place"
	}
}
