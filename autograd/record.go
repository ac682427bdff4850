package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// A subgraph's nodes run once more where their gradients are made. Those that draw random numbers would
// draw others then, so the values that they have made are recorded: they become further outputs of the
// forward node, a row for each iteration of a Loop or Scan, and are read in place of the node. Example:
// the mask of a Dropout in a branch of an If.

// recorded is an output of a random node of a subgraph.
type recorded struct {
	node  graph.NodeID // in the subgraph, and in its copy
	slot  int
	value Value // in the copy
}

// draws reports whether a node, or one in its subgraphs, draws random numbers.
func (r *nestedJoint) draws(n *graph.Node, in *graph.Graph) bool {
	if op.Of(n.Kind).Random && !r.rests(n, in) {
		return true
	}
	found := false
	n.Subgraphs(func(_ string, g *graph.Graph) {
		found = found || slices.ContainsFunc(g.Nodes, func(inner *graph.Node) bool { return r.draws(inner, g) })
	})
	return found
}

// record notes the live outputs of a node that draws. They are made by no node of the copy from now on.
func (r *nestedJoint) record(c *Ctx, n *graph.Node, live []bool) {
	for slot, v := range n.Outputs {
		if v == None || !live[v] {
			continue
		}
		if int(n.ID) >= len(r.from.Nodes) || r.from.Nodes[n.ID].Op != n.Op {
			c.Unsupported("the random node %q (%s) in its subgraph stands for one that is defined by several",
				r.labelOf(n), n.Op)
		}
		if op.Of(n.Kind).Control != op.NoControl && slot >= len(r.from.Nodes[n.ID].Outputs) {
			c.Unsupported("a subgraph of node %q (%s) in its subgraph draws random numbers that its gradient needs: "+
				"they are recorded in a subgraph of the main graph, but not further inside", r.labelOf(n), n.Op)
		}
		r.recorded = append(r.recorded, recorded{n.ID, slot, v})
		r.g.Values[v].Def = graph.NoNode
	}
}

// source returns the value of the forward subgraph that was recorded. f works in the subgraph. A result
// that the node does not give yet, as the mask of a Dropout, is made.
func (r *nestedJoint) source(f *joint, rec recorded) Value {
	n := f.g.Nodes[rec.node]
	for len(n.Outputs) <= rec.slot {
		n.Outputs = append(n.Outputs, None)
	}
	if n.Outputs[rec.slot] == None {
		v := f.newValue(f.g.NodeLabel(n.ID) + "_output_" + itoa(rec.slot))
		n.Outputs[rec.slot] = v
		f.g.Values[v].Def, f.g.Values[v].DefSlot = n.ID, int32(rec.slot)
		(&emitter{f}).must(f.types.Node(n))
	}
	return n.Outputs[rec.slot]
}

// extend gives the forward node a further output, with the name that the copy of the subgraph reads
// it by, and returns it. attrs are its subgraphs, which have the result already.
func (c *Ctx) extend(name string, attrs Attrs) Value {
	n, j := c.Node, c.j
	for _, a := range attrs {
		n.SetAttr(a.Name, a.Value)
	}
	v := j.g.Value(name)
	j.g.Values[v].Def, j.g.Values[v].DefSlot = n.ID, int32(len(n.Outputs))
	n.Outputs = append(n.Outputs, v)
	c.must(sealNode(n))
	c.must(j.types.Node(n))
	return v
}

// replay makes the recorded values of a branch further outputs of the If, and captures them. The other
// branch gives zeros of the same shape.
func (b *branch) replay(c *Ctx) {
	other := map[string]string{"then_branch": "else_branch", "else_branch": "then_branch"}[b.name]
	for _, rec := range b.recorded {
		f, err := c.j.inside(b.from, "record")
		c.must(err)
		v := b.source(f, rec)
		(&emitter{f}).output(v)
		rest := c.Node.GraphAttr(other)
		g, err := c.j.inside(rest, "record")
		c.must(err)
		e := &emitter{g}
		e.output(c.zerosLike(e, v, f))
		b.g.Values[rec.value].Outer = c.extend(b.g.ValueName(rec.value),
			Attrs{A(b.name, b.from), A(other, rest)})
	}
}

// zerosLike is zeros of the type and shape of v, a value of another branch, which f works in. Dims that
// are no numbers are those of values that the If captures.
func (c *Ctx) zerosLike(e *emitter, v Value, f *joint) Value {
	t := f.g.Values[v].Type
	parts := make([]Value, len(t.Shape.Dims))
	for i, d := range t.Shape.Dims {
		if n, ok := d.Const(); ok {
			parts[i] = e.Vector(n)
			continue
		}
		from, axis := c.sameDim(d, int64(i), c.Node.Captures())
		if from == None {
			c.Unsupported("dim %d of %q, which is drawn in a branch, is not that of a value which the node captures",
				i, f.g.ValueName(v))
		}
		parts[i] = e.Dim(e.capture(from), axis)
	}
	if !t.Shape.Ranked {
		c.Unsupported("the rank of %q, which is drawn in a branch, is unknown", f.g.ValueName(v))
	}
	zero := &graph.TensorData{DType: t.DType, Dims: []int64{1}, Source: graph.Raw(make([]byte, t.DType.Bits()/8))}
	return e.Op("ConstantOfShape", Attrs{A("value", zero)}, e.joinInts(parts...))
}
