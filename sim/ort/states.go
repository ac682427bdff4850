package ort

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// StateBuffer says where the next value of a state goes when a caller gives stock ONNX Runtime
// memory for the output. The runtime does not know that this memory may be the input's: whoever
// reads the old value must have run before the node that makes the next one, in every order that
// the runtime may choose.
type StateBuffer struct {
	live.State
	// InPlace says that the output may be bound to the input's own buffer. Otherwise it needs a
	// second one, and the two change places after every step.
	InPlace bool
	Why     string // why not in place; "": it is
	// Writer makes the next value. It runs after all readers of the old value if its operand Held
	// waits until all Sinks are made. Without Sinks it does so in any case.
	Writer graph.NodeID
	Held   graph.ValueID
	Sinks  []graph.ValueID
}

// StateBuffers plans the memory of states. bytes has the sizes of the graph's values
// (live.Sizes.Bytes). Its plan does not rely on a simulated order: an order between two nodes
// follows from operands alone, those of the graph and those that Sinks stand for.
func StateBuffers(g *graph.Graph, states []live.State, bytes []int64) []StateBuffer {
	out := make([]StateBuffer, len(states))
	order, err := graph.Topological(g)
	if err != nil { // the runtime will say so
		return nil
	}
	n := len(g.Nodes)
	p := &statePlanner{g: g, bytes: bytes, uses: graph.NewUses(g), order: order, pos: order.Positions(),
		behind: make([]bool, n), before: make([]bool, n), inner: make([]inner, n), from: make([]bool, n),
		waiters: make([][]graph.NodeID, n), waitsFor: make([][]graph.NodeID, n)}
	for i, s := range states {
		out[i] = StateBuffer{State: s, Held: graph.NoValue}
		out[i].Writer, out[i].Why = p.writer(s)
	}
	for i := range out {
		b := &out[i]
		if b.Why != "" {
			continue
		}
		if b.Why = p.place(b); b.Why != "" {
			b.Sinks = nil
			continue
		}
		b.InPlace = true
		for _, v := range b.Sinks {
			def := g.Values[v].Def
			p.waiters[def] = append(p.waiters[def], b.Writer)
			p.waitsFor[b.Writer] = append(p.waitsFor[b.Writer], def)
		}
	}
	return out
}

// statePlanner knows the graph whose states are planned.
type statePlanner struct {
	g     *graph.Graph
	bytes []int64
	uses  *graph.Uses
	order graph.Order
	pos   []int32
	// By node: the writers that wait for it, and, for a writer, the nodes that it waits for. Both
	// count as operands below.
	waiters, waitsFor [][]graph.NodeID

	behind []bool  // by node: it depends on the writer in question
	before []bool  // by node: the writer in question depends on it
	inner  []inner // by node: its relation to the writer in question
	from   []bool  // by node: it depends on the reader in question
	stack  []graph.NodeID
}

// writer returns the node that makes the next value of a state. Nodes that the runtime may take out
// lead to the producers of their inputs.
func (p *statePlanner) writer(s live.State) (graph.NodeID, string) {
	if p.g.Values[s.In].Output {
		return graph.NoNode, "the old value is an output of the graph as well"
	}
	for v := s.Out; ; {
		def := p.g.Values[v].Def
		if def == graph.NoNode {
			return graph.NoNode, "no node makes the next value"
		}
		n := p.g.Nodes[def]
		src := p.vanishes(n)
		if src == graph.NoValue {
			return def, ""
		}
		v = src
	}
}

// vanishes returns the input that output 0 of a node equals, if the runtime may take the node out.
func (p *statePlanner) vanishes(n *graph.Node) graph.ValueID {
	in, out := n.Input(0), n.Output(0)
	switch row := &table[n.Kind]; {
	case in == graph.NoValue || out == graph.NoValue:
		return graph.NoValue
	case op.Of(n.Kind).View, row.copies, n.Kind == op.Dropout, row.resizes && p.bytes[in] == p.bytes[out]:
		return in
	case row.neutral == nil || len(n.Inputs) != 2:
		return graph.NoValue
	}
	for slot, v := range n.Inputs {
		if v != graph.NoValue && table[n.Kind].neutral(p.g, v) {
			return n.Inputs[1-slot]
		}
	}
	return graph.NoValue
}

// place finds out whether and how a state's writer can write into the input's buffer; otherwise it
// returns why not.
func (p *statePlanner) place(b *StateBuffer) string {
	readers, aliases := p.readers(b.In)
	w := p.g.Nodes[b.Writer]
	if slices.Contains(readers, b.Writer) && !p.overwrites(w, b, aliases) {
		return fmt.Sprintf("node %q (%s) reads the old value, and is not known to write over it",
			p.g.NodeLabel(b.Writer), w.Op)
	}
	if n := p.fused(b.Writer, readers); n != graph.NoNode {
		return fmt.Sprintf("node %q (%s) reads the old value, and may become one with node %q (%s)",
			p.g.NodeLabel(n), p.g.Nodes[n].Op, p.g.NodeLabel(b.Writer), w.Op)
	}
	clear(p.before)
	p.markBefore(b.Writer)
	clear(p.behind)
	p.markBehind(b.Writer)
	slices.SortFunc(readers, func(x, y graph.NodeID) int { return int(p.pos[y]) - int(p.pos[x]) })
	for _, r := range readers {
		if p.before[r] {
			continue
		}
		sink := p.sink(r, p.bytes[b.In])
		if b.Held == graph.NoValue {
			b.Held = p.held(w)
		}
		if sink == graph.NoValue || b.Held == graph.NoValue {
			return fmt.Sprintf("node %q (%s) cannot be made to wait for node %q (%s), which reads the old value",
				p.g.NodeLabel(b.Writer), w.Op, p.g.NodeLabel(r), p.g.Nodes[r].Op)
		}
		b.Sinks = append(b.Sinks, sink)
		p.markBefore(p.g.Values[sink].Def)
	}
	return ""
}

// readers lists the nodes that may read a state's old value, and the values that may lie in its
// memory: those that the runtime may show as a view, or take out, or have a later node compute.
func (p *statePlanner) readers(in graph.ValueID) (readers []graph.NodeID, aliases []graph.ValueID) {
	aliases = []graph.ValueID{in}
	for i := 0; i < len(aliases); i++ {
		for _, u := range p.uses.Of(aliases[i]) {
			if slices.Contains(readers, u.Node) {
				continue
			}
			readers = append(readers, u.Node)
			n := p.g.Nodes[u.Node]
			if !p.passes(n) {
				continue
			}
			for _, v := range n.Outputs {
				if v != graph.NoValue && !slices.Contains(aliases, v) {
					aliases = append(aliases, v)
				}
			}
		}
	}
	return readers, aliases
}

// passes reports whether the readers of a node's output may read its input instead.
func (p *statePlanner) passes(n *graph.Node) bool {
	row := &table[n.Kind]
	return p.vanishes(n) != graph.NoValue || row.readThrough || n.HasSubgraphs() ||
		n.Kind == op.Mul && slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return constantScalar(p.g, v) })
}

// overwrites reports whether a state's writer, which reads the old value, may write over it.
func (p *statePlanner) overwrites(w *graph.Node, b *StateBuffer, aliases []graph.ValueID) bool {
	if len(w.Captures()) > 0 || p.bytes[b.In] < 0 {
		return false
	}
	out, may := w.Output(0), Overwrites(w.Kind)
	for slot, v := range w.Inputs {
		if v != graph.NoValue && slices.Contains(aliases, v) &&
			(!slices.Contains(may, slot) || p.bytes[v] != p.bytes[b.In] || p.bytes[out] != p.bytes[b.In]) {
			return false
		}
		if d := p.def(v); d != nil && MergesIntoGemm(d.Kind, w.Kind) {
			return false
		}
	}
	return true
}

func (p *statePlanner) def(v graph.ValueID) *graph.Node {
	if v == graph.NoValue || p.g.Values[v].Def == graph.NoNode {
		return nil
	}
	return p.g.Nodes[p.g.Values[v].Def]
}

// fused returns a reader of the old value that the runtime may fuse with the writer, by a kernel of
// unknown memory behaviour; NoNode if there is no such reader. Values inside a fusion have no other
// readers, and no fusion is one of arithmetic alone.
func (p *statePlanner) fused(writer graph.NodeID, readers []graph.NodeID) graph.NodeID {
	lowest := p.pos[writer]
	for _, r := range readers {
		lowest = min(lowest, p.pos[r])
	}
	clear(p.inner)
	p.inner[writer] = arithmetic
	for _, id := range slices.Backward(p.order[lowest:p.pos[writer]]) {
		p.inner[id] = p.between(p.g.Nodes[id])
		if p.inner[id] == other && slices.Contains(readers, id) {
			return id
		}
	}
	return graph.NoNode
}

// inner says whether a node makes values for the writer alone, and which nodes lie between the two.
type inner uint8

const (
	outer      inner = iota // its outputs have other readers
	arithmetic              // it and the nodes in between are arithmetic
	other                   // there is something else
)

// between determines the relation of a node to the writer, once its readers' relations are known.
func (p *statePlanner) between(n *graph.Node) inner {
	is := outer
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if p.g.Values[v].Output {
			return outer
		}
		for _, u := range p.uses.Of(v) {
			if p.inner[u.Node] == outer {
				return outer
			}
			is = max(is, p.inner[u.Node])
		}
	}
	if is == arithmetic && table[n.Kind].overwrites == nil && p.vanishes(n) == graph.NoValue {
		return other
	}
	return is
}

// markBefore marks the nodes that a node depends on, and the node itself.
func (p *statePlanner) markBefore(id graph.NodeID) {
	p.mark(p.before, id, func(top graph.NodeID) {
		p.g.EachProducer(top, func(d graph.NodeID) { p.stack = append(p.stack, d) })
		p.stack = append(p.stack, p.waitsFor[top]...)
	})
}

// markBehind marks the nodes that depend on a node, and the node itself.
func (p *statePlanner) markBehind(id graph.NodeID) {
	p.mark(p.behind, id, func(top graph.NodeID) {
		p.stack = append(p.stack, p.waiters[top]...)
		for _, v := range p.g.Nodes[top].Outputs {
			if v == graph.NoValue {
				continue
			}
			for _, u := range p.uses.Of(v) {
				p.stack = append(p.stack, u.Node)
			}
		}
	})
}

// mark marks a node and all that push leads to from there: it puts a node's neighbours on the stack.
func (p *statePlanner) mark(marked []bool, id graph.NodeID, push func(top graph.NodeID)) {
	p.stack = append(p.stack[:0], id)
	for len(p.stack) > 0 {
		top := p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
		if !marked[top] {
			marked[top] = true
			push(top)
		}
	}
}

// sinkShare bounds a value that is kept for a state's writer to wait for: to the state's bytes
// divided by sinkShare. So the wait costs less than a hundredth of the savings of binding the
// state.
const sinkShare = 100

// sink returns a value that depends on a reader's outputs, and that the writer can wait for without
// waiting for itself: the first in the file that is small beside the state, else the smallest; a
// graph output only if there is no other. NoValue means that there is no such value.
func (p *statePlanner) sink(reader graph.NodeID, state int64) graph.ValueID {
	clear(p.from)
	p.from[reader] = true
	best, output := graph.NoValue, graph.NoValue
	for _, id := range p.order[p.pos[reader]:] {
		n := p.g.Nodes[id]
		p.g.EachProducer(id, func(d graph.NodeID) { p.from[id] = p.from[id] || p.from[d] })
		if !p.from[id] || p.behind[id] {
			continue
		}
		for _, v := range n.Outputs {
			if !p.waitable(n, v) {
				continue
			}
			least := &best
			if p.g.Values[v].Output {
				least = &output
			}
			if *least == graph.NoValue || p.bytes[v] < p.bytes[*least] {
				*least = v
			}
			if best != graph.NoValue && p.bytes[best] <= state/sinkShare {
				return best
			}
		}
	}
	if best == graph.NoValue {
		return output
	}
	return best
}

// waitable reports whether a node that asks for the size of a value, and so reads it, has no other
// effect: no copy that the runtime takes out, no fusion.
func (p *statePlanner) waitable(n *graph.Node, v graph.ValueID) bool {
	if v == graph.NoValue || p.bytes[v] < 0 ||
		p.g.Values[v].Type.Form != graph.FormTensor || p.vanishes(n) != graph.NoValue || table[n.Kind].readThrough {
		return false
	}
	return !slices.ContainsFunc(p.uses.Of(v), func(u graph.Use) bool {
		reader := p.g.Nodes[u.Node]
		return MergesIntoGemm(n.Kind, reader.Kind) ||
			table[reader.Kind].copies && reader.Output(0) != graph.NoValue && p.g.Values[reader.Output(0)].Output
	})
}

// held returns an operand of a node that can be read through a view that waits: a tensor with dims
// that is the output of a node, but not of a view, which the runtime would join with that view.
// NoValue means that the node has no such operand.
func (p *statePlanner) held(n *graph.Node) graph.ValueID {
	for _, v := range n.Inputs {
		d := p.def(v)
		if d == nil || p.vanishes(d) != graph.NoValue || MergesIntoGemm(d.Kind, n.Kind) ||
			p.g.Values[v].Type.Form != graph.FormTensor || p.g.Values[v].Type.Shape.Rank() < 1 {
			continue
		}
		return v
	}
	return graph.NoValue
}
