package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"memopt"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/device"
	"memopt/planner/offload"
)

// Placement says where a value is from its making to its last reader.
type Placement string

// The placements of values. Others, for example gradients that never leave the device, have none.
const (
	Kept       Placement = "kept"       // it stays on the device for the backward half
	Recomputed Placement = "recomputed" // it is freed and made again
	Moved      Placement = "moved"      // it goes to the host and comes back
)

// Count is a number of values, and their bytes.
type Count struct {
	Values int   `json:"values"`
	Bytes  int64 `json:"bytes"`
}

// Hosted is a value that is on the host at the peak.
type Hosted struct {
	Name, Layer  string
	Bytes        int64
	Producer     string
	Back         string // the node that begins to copy it back behind the peak; "" if none does
	HeldBy       string // the first node that reads it then; ""
	First, Until int    // the steps between which its copy is on the host, both included

	home graph.ValueID
}

// OfMoving is Explain of a plan whose values may move to the host. Changes of one value alone are
// tried for those that it does not move.
func OfMoving(ctx context.Context, m *memopt.Moving, o Options) (*Result, error) {
	p := m.Plan
	if len(m.Moves) > 0 {
		p = m.Whole()
	}
	return explain(ctx, p, m, o)
}

// trackCopies finds out which values copies and clones of the graph show.
func (e *explainer) trackCopies() {
	g := e.g
	e.home, e.base = make([]graph.ValueID, len(g.Values)), make([]graph.ValueID, len(g.Values))
	e.moves = make([]bool, len(g.Values))
	for v := range e.home {
		e.home[v], e.base[v] = graph.ValueID(v), graph.ValueID(v)
	}
	e.again, e.repeated = make([]int, len(g.Nodes)), make([]bool, len(g.Nodes))
	first, origin := map[graph.NodeID]graph.NodeID{}, e.p.Options.Origin
	for id, n := range g.Nodes {
		if t := op.Of(n.Kind).Transfer; t != op.NoTransfer {
			in, out := n.Inputs[0], n.Output(0)
			e.home[out], e.base[out] = e.home[in], e.base[in]
			e.moves[e.home[in]] = e.moves[e.home[in]] || t == op.ToHost
			continue
		}
		if origin == nil || origin[id] == graph.NoNode {
			continue
		}
		was, ok := first[origin[id]]
		if !ok {
			first[origin[id]] = graph.NodeID(id)
			continue
		}
		e.repeated[was] = true
		e.again[id] = e.again[was] + 1
		e.again[was]++ // counts the clones until all are seen
		for slot, v := range n.Outputs {
			if v != graph.NoValue && slot < len(g.Nodes[was].Outputs) {
				e.base[v] = e.base[g.Nodes[was].Outputs[slot]]
			}
		}
	}
	for _, id := range first {
		e.again[id] = 0
	}
}

// transfer says which copy a step makes or waits for; -1 stands for no step.
func (e *explainer) transfer(step int) op.Transfer {
	if step < 0 {
		return op.NoTransfer
	}
	return op.Of(e.program.Steps[step].Kind).Transfer
}

// clone is the number of the clone that makes a value of the program, as the plan or as its graph has it; 0 for an
// original.
func (e *explainer) clone(x graph.ValueID) int {
	if e.copies[x] > 0 || e.made[x] < 0 {
		return e.copies[x]
	}
	return e.again[e.program.Steps[e.made[x]].Node]
}

// placementOf is the placement of a value of the program.
func (e *explainer) placementOf(v *Value, x graph.ValueID) Placement {
	switch {
	case v.made < 0 || v.Kind == live.Unfilled:
		return ""
	case e.moves[e.home[v.ID]]:
		return Moved
	case e.clone(x) > 0 || e.repeated[e.program.Steps[v.made].Node],
		e.stash[x] > 0 && e.p.Stashed[e.stash[x]-1].WhyKept == "":
		return Recomputed
	case v.Kind == live.Activation:
		return Kept
	}
	return ""
}

// whyMoved is whyMade for plans whose graph has the copies and the clones; ok is false where it has neither of the
// value.
func (e *explainer) whyMoved(v *Value, node graph.NodeID) (why string, ok bool) {
	switch {
	case e.transfer(v.made) != op.NoTransfer:
		return "no: it comes back from the host", true
	case e.again[node] > 0:
		return e.placed(e.moving.Plan, e.p.Options.Origin[node], e.again[node]), true
	case v.Placement == Moved:
		return "no: it moves to the host and back", true
	case e.repeated[node]:
		return "yes: the plan makes it again later", true
	case v.Placement == Kept && !e.moving.Plan.Options.Enabled():
		return "no: the plan recomputes no value", true
	}
	if id, known := e.moving.Plan.Analysis.Graph.Lookup(v.Name); known {
		for _, s := range e.moving.Plan.Stashed {
			if s.Value == id && s.WhyKept != "" {
				return "no: " + s.WhyKept, true
			}
		}
	}
	return "", false
}

// count counts the stashed activations of a plan by placement, and the other values that it moves. A value is counted
// once, however often it moves.
func (r *Result) count(m *memopt.Moving) {
	r.Counts = map[Placement]Count{}
	add := func(p Placement, bytes int64) {
		c := r.Counts[p]
		r.Counts[p] = Count{c.Values + 1, c.Bytes + max(bytes, 0)}
	}
	moved := map[string]bool{}
	g := r.Plan.Analysis.Graph
	for _, n := range g.Nodes {
		if op.Of(n.Kind).Transfer != op.ToHost || moved[g.ValueName(n.Inputs[0])] {
			continue
		}
		moved[g.ValueName(n.Inputs[0])] = true
		add(Moved, r.Plan.Sizes.Bytes[n.Inputs[0]])
	}
	for _, s := range m.Plan.Stashed {
		switch name := m.Plan.Analysis.Graph.ValueName(s.Value); {
		case moved[name]:
		case s.WhyKept == "":
			add(Recomputed, m.Plan.Sizes.Bytes[s.Value])
		default:
			add(Kept, m.Plan.Sizes.Bytes[s.Value])
		}
	}
}

// onHost lists the values that are on the host at the peak, the largest first.
func (e *explainer) onHost() (list []*Hosted) {
	host := e.t.Host
	if host == nil {
		return nil
	}
	at := int32(e.peak)
	for v, root := range host.Root {
		r := host.Ranges[v]
		if root != graph.ValueID(v) || r.Start > at || at >= r.End || e.program.Bytes[v] <= 0 {
			continue
		}
		home := e.home[e.origin[v]]
		h := &Hosted{home: home, Name: e.g.ValueName(home), Layer: e.g.LayerOfValue(home), Bytes: e.program.Bytes[v],
			Producer: e.label(e.made[home]), First: int(r.Start), Until: int(r.End) - 1}
		for i := e.peak; i < len(e.program.Steps) && h.Back == ""; i++ {
			s := &e.program.Steps[i]
			if e.transfer(i) == op.FromHost && host.Root[s.Input(0)] == root {
				h.Back, h.HeldBy = e.label(int32(i)), e.label(e.next[s.Output0()])
			}
		}
		list = append(list, h)
	}
	slices.SortStableFunc(list, func(x, y *Hosted) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return list
}

// link is that of the plan's copies.
func (e *explainer) link() offload.Link {
	if e.moving != nil {
		return e.moving.Options.Link
	}
	if p := e.p.Options.Profile; p != nil {
		return offload.Link{BytesPerSecond: p.Link}
	}
	return offload.Link{BytesPerSecond: device.Default.Link}
}

// whyCopied is whyLive of a value that a copy reads next; ok is false for others.
func (e *explainer) whyCopied(v *Value) (why string, ok bool) {
	switch e.transfer(v.next) {
	case op.ToHost:
		return fmt.Sprintf("it goes to the host later: %q begins to copy it", v.HeldBy), true
	case op.Awaits:
		return fmt.Sprintf("%q waits for its copy", v.HeldBy), true
	}
	return "", false
}
