package autograd

import (
	"slices"

	"memopt/graph"
)

// Sequences have no gradients of their own. The sequences that exporters make do not need any: a
// tensor that is taken out of a sequence made of tensors, or of the parts of one, is that tensor or
// a slice, and joining such a sequence is a concatenation. To join the tensors that the iterations
// of a Loop have appended to a sequence one by one is to join their rows (sequence_loop.go).

// sequence is an operator's role in that.
type sequence struct {
	// made says that it only makes sequences from its inputs: it is dropped if they are not read.
	made bool
	// empty says that it makes an empty sequence, and inserts that it puts a tensor into one.
	empty, inserts bool
	// joined returns the tensors of the sequence that node p makes as c's node joins them, and part
	// tensor i of it; nil where that is not known.
	joined func(c *Ctx, p *graph.Node) []Value
	part   func(c *Ctx, p *graph.Node, i int64) []Value
	// tidy removes from a node its outputs for sequences that are not read.
	tidy func(j *joint, n *graph.Node, read []bool)
}

// noSequences is the rule of the remaining cases.
func noSequences(c *Ctx) { c.Unsupported("gradients do not flow through this sequence") }

// producer returns the node that makes input i.
func (c *Ctx) producer(i int) *graph.Node {
	if v := c.In(i); v != None && c.j.g.Values[v].Def != graph.NoNode {
		return c.j.g.Nodes[c.j.g.Values[v].Def]
	}
	return &graph.Node{}
}

// concatFromSequenceExpand: the sequence's tensors, joined.
func concatFromSequenceExpand(c *Ctx) []Value {
	p := c.producer(0)
	if joined := table[p.Kind].Sequence.joined; joined != nil {
		return joined(c, p)
	}
	return nil
}

// joinedTensors joins the inputs of a SequenceConstruct.
func (c *Ctx) joinedTensors(p *graph.Node) []Value {
	axis, parts := c.Node.Int("axis", 0), slices.Clone(p.Inputs)
	if c.Node.Int("new_axis", 0) != 0 {
		for i, v := range parts {
			parts[i] = c.Unsqueeze(v, axis)
		}
	}
	return []Value{c.Concat(axis, parts...)}
}

// sequenceAtExpand: the tensor at a place that is known.
func sequenceAtExpand(c *Ctx) []Value {
	p := c.producer(0)
	at, ok := c.Ints(c.In(1))
	if !ok || len(at) != 1 {
		return nil
	}
	if part := table[p.Kind].Sequence.part; part != nil {
		return part(c, p, at[0])
	}
	return nil
}

// listedTensor is tensor i of a SequenceConstruct.
func (c *Ctx) listedTensor(p *graph.Node, i int64) []Value {
	at := i
	if at < 0 {
		at += int64(len(p.Inputs))
	}
	if at < 0 || at >= int64(len(p.Inputs)) {
		c.Errorf("place %d; the sequence has %d tensors", i, len(p.Inputs))
	}
	return []Value{p.Inputs[at]}
}

// splitPart returns part i of a SplitToSequence node, or nil if its place is not known.
func (c *Ctx) splitPart(p *graph.Node, i int64) []Value {
	x, axis := p.Input(0), p.Int("axis", 0)
	dims, ok := c.Dims(x)
	if !ok {
		return nil
	}
	axis = c.Axis(axis, len(dims))
	length, known := dims[axis].Const()
	if p.Input(1) == None {
		part := c.Op("Gather", Attrs{A("axis", axis)}, x, c.Int(i))
		if p.Int("keepdims", 1) != 0 {
			part = c.Unsqueeze(part, axis)
		}
		return []Value{part}
	}
	split, ok := c.Ints(p.Input(1))
	if !ok {
		return nil
	}
	if c.Type(p.Input(1)).Shape.Rank() == 0 {
		size := split[0]
		switch {
		case size <= 0 || i < 0 && !known:
			return nil
		case i < 0:
			i += (length + size - 1) / size
		}
		return c.partOf(x, axis, i*size, (i+1)*size)
	}
	if i < 0 {
		i += int64(len(split))
	}
	if i < 0 || i >= int64(len(split)) {
		return nil
	}
	start := int64(0)
	for _, n := range split[:i] {
		start += n
	}
	return c.partOf(x, axis, start, start+split[i])
}

func (c *Ctx) partOf(x Value, axis, start, end int64) []Value {
	return []Value{c.Slice(x, c.Vector(start), c.Vector(end), c.Vector(axis))}
}

// dropSequences removes from the order nodes that make sequences which are no longer read.
func (j *joint) dropSequences(order graph.Order) graph.Order {
	read := make([]bool, len(j.g.Values))
	for _, d := range j.g.Outputs {
		read[d.Value] = true
	}
	var kept graph.Order
	for _, id := range slices.Backward(order) {
		n := j.g.Nodes[id]
		unread := !slices.ContainsFunc(n.Outputs, func(v Value) bool { return v != None && read[v] })
		part := &table[n.Kind].Sequence
		if unread && part.made {
			continue
		}
		if part.tidy != nil {
			part.tidy(j, n, read)
		}
		for _, v := range append(slices.Clone(n.Inputs), n.Captures()...) {
			if v != None {
				read[v] = true
			}
		}
		kept = append(kept, id)
	}
	slices.Reverse(kept)
	return kept
}
