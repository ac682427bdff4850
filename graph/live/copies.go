package live

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Copies between the memories of device and host (op.Transfer): a copy begins at one node and has ended when
// another has waited for it. Its source keeps its memory until then, whether or not the waiting node reads
// it. A value in the host's memory has no bytes on the device: it is in a timeline of its own
// (Timeline.Host).

// hosting is a simulation's data on values in the host's memory. IDs are stored plus 1.
type hosting struct {
	on     bool            // the program has copies
	root   []graph.ValueID // by value: its root in the host's memory; 0: it is not there
	ranges []Range         // by root
}

// keepSources lets the source of a copy live until the last node that waits for the copy.
func (s *simulation) keepSources() {
	h := &s.host
	if h.on = s.p.hasCopies(); !h.on {
		s.t.Host = nil
		return
	}
	h.root, h.ranges = zeroed(h.root, len(s.p.Bytes)), zeroed(h.ranges, len(s.p.Bytes))
	source := make([]graph.ValueID, len(s.p.Bytes))
	for i := range s.p.Steps {
		step := &s.p.Steps[i]
		in := step.Input(0)
		if in == graph.NoValue {
			continue
		}
		switch op.Of(step.Kind).Transfer {
		case op.ToHost, op.FromHost:
			if out := step.Output0(); out != graph.NoValue {
				source[out] = in + 1
			}
		case op.Awaits:
			if v := source[in]; v != 0 {
				s.lastUse[v-1] = max(s.lastUse[v-1], int32(i)+1)
			}
		}
	}
}

func (p *Program) hasCopies() bool {
	for i := range p.Steps {
		if op.Of(p.Steps[i].Kind).Transfer != op.NoTransfer {
			return true
		}
	}
	return false
}

// onHost gives the output of a copy to the host its bytes there.
func (s *simulation) onHost(at int32, step *Step, slot int, id graph.ValueID) bool {
	h := &s.host
	if !h.on || slot != 0 || op.Of(step.Kind).Transfer != op.ToHost {
		return false
	}
	h.root[id], h.ranges[id] = id+1, Range{at, max(s.keep[id], at+1)}
	return true
}

// view puts a view where its source lies.
func (h *hosting) view(v, src graph.ValueID) {
	if h.on {
		h.root[v] = h.root[src]
	}
}

// timeline is that of the host's memory.
func (h *hosting) timeline(p *Program) *Timeline {
	t := &Timeline{Live: make([]int64, len(p.Steps)), Root: make([]graph.ValueID, len(p.Bytes)),
		Ranges: make([]Range, len(p.Bytes))}
	delta := make([]int64, len(p.Steps)+1)
	copy(t.Ranges, h.ranges)
	for v, root := range h.root {
		if t.Root[v] = root - 1; root == 0 {
			t.Root[v] = graph.NoValue
		}
		if t.Root[v] != graph.ValueID(v) {
			continue
		}
		if p.Bytes[v] == Unsized {
			t.Unsized = append(t.Unsized, graph.ValueID(v))
		}
		delta[t.Ranges[v].Start] += max(p.Bytes[v], 0)
		delta[t.Ranges[v].End] -= max(p.Bytes[v], 0)
	}
	t.Peak.Node = graph.NoNode
	live := int64(0)
	for i := range p.Steps {
		live += delta[i]
		if t.Live[i] = live; i == 0 || live > t.Peak.Bytes {
			t.Peak = Peak{live, i, p.Steps[i].Node}
		}
	}
	return t
}

// CheckCopies makes sure that the copies of a graph between the memories of device and host can run in any
// of its orders: no node but a Wait reads a copy that may be under way, no node but Wait and Reload reads a
// value that lies in the host's memory, some node waits for each copy, and all are in the main graph.
func CheckCopies(g *graph.Graph) error {
	c := copyChecker{g: g, uses: graph.NewUses(g)}
	for _, n := range g.Nodes {
		if err := c.node(n); err != nil {
			return fmt.Errorf("node %q (%s): %w", g.NodeLabel(n.ID), n.Op, err)
		}
	}
	for i, d := range g.Outputs {
		if c.underWay(d.Value) || c.inHost(d.Value) {
			return fmt.Errorf("graph output %d (%q) is a copy: an output is on the device, behind a Wait", i,
				g.ValueName(d.Value))
		}
	}
	return nil
}

type copyChecker struct {
	g    *graph.Graph
	uses *graph.Uses
}

// transfer returns the part that a value's maker takes in copies.
func (c *copyChecker) transfer(v graph.ValueID) op.Transfer {
	if v == graph.NoValue || c.g.Values[v].Def == graph.NoNode {
		return op.NoTransfer
	}
	return op.Of(c.g.Nodes[c.g.Values[v].Def].Kind).Transfer
}

// underWay reports whether a copy into a value may be under way.
func (c *copyChecker) underWay(v graph.ValueID) bool {
	t := c.transfer(v)
	return t == op.ToHost || t == op.FromHost
}

// inHost reports whether a value lies in the host's memory.
func (c *copyChecker) inHost(v graph.ValueID) bool {
	for range c.g.Nodes {
		if c.transfer(v) != op.Awaits {
			break
		}
		v = c.g.Nodes[c.g.Values[v].Def].Input(0)
	}
	return c.transfer(v) == op.ToHost
}

func (c *copyChecker) node(n *graph.Node) error {
	own := op.Of(n.Kind).Transfer
	for i, v := range append(n.Inputs[:len(n.Inputs):len(n.Inputs)], n.Captures()...) {
		awaits := own == op.Awaits && i == 0
		switch {
		case v == graph.NoValue:
		case c.underWay(v) && !awaits:
			return fmt.Errorf("reads %q, a copy that may be under way: read the output of a Wait for it",
				c.g.ValueName(v))
		case awaits && !c.underWay(v):
			return fmt.Errorf("waits for %q, which no Offload or Reload makes", c.g.ValueName(v))
		case c.inHost(v) && own != op.Awaits && own != op.FromHost:
			return fmt.Errorf("reads %q, which lies in the host's memory: read the output of a Reload",
				c.g.ValueName(v))
		case own == op.FromHost && !c.inHost(v):
			return fmt.Errorf("reloads %q, which does not lie in the host's memory", c.g.ValueName(v))
		}
	}
	if own == op.ToHost || own == op.FromHost {
		if err := c.awaited(n); err != nil {
			return err
		}
	}
	return c.inside(n)
}

// awaited makes sure that a node waits for the copy that a node begins.
func (c *copyChecker) awaited(n *graph.Node) error {
	for _, u := range c.uses.Of(n.Output(0)) {
		if op.Of(c.g.Nodes[u.Node].Kind).Transfer == op.Awaits && u.Slot == 0 {
			return nil
		}
	}
	return fmt.Errorf("begins a copy that no Wait waits for")
}

// inside refuses copies in subgraphs.
func (c *copyChecker) inside(n *graph.Node) (err error) {
	n.Subgraphs(func(attr string, sub *graph.Graph) {
		for _, inner := range sub.Nodes {
			if e := c.inside(inner); err == nil {
				err = e
			}
			if op.Of(inner.Kind).Transfer != op.NoTransfer && err == nil {
				err = fmt.Errorf("%s has the node %q (%s): copies to the host are in the main graph only", attr,
					sub.NodeLabel(inner.ID), inner.Op)
			}
		}
	})
	return err
}
