package autograd

import (
	"fmt"
	"slices"

	"memopt/graph"
)

// sinkSlices lets products compute only the part that a Slice takes of them, if outputs were left
// out: for scores that are shifted by one, all of them and the slice would be two copies. Scores
// that are an output are needed as they are. It returns the new order.
func (j *joint) sinkSlices(order graph.Order) graph.Order {
	if !j.fewer || j.opset() < sliceInputs {
		return order
	}
	j.countReaders(order)
	replaced := map[graph.NodeID][]graph.NodeID{} // by the replaced node
	for _, id := range order {
		j.sinkSlice(j.g.Nodes[id], replaced)
	}
	if len(replaced) == 0 {
		return order
	}
	var out graph.Order
	for _, id := range order {
		if with, ok := replaced[id]; ok {
			out = append(out, with...)
		} else {
			out = append(out, id)
		}
	}
	return out
}

// link is a node on the way from a product to a Slice, and which of its inputs are cut where.
type link struct {
	node *graph.Node
	axes []int64
}

// sinkSlice puts a Slice before the product that it takes a part of.
func (j *joint) sinkSlice(n *graph.Node, replaced map[graph.NodeID][]graph.NodeID) {
	start, end, axis, ok := j.knownSlice(n)
	if !ok {
		return
	}
	chain := j.wayToProduct(n.Inputs[0], axis)
	if chain == nil {
		return
	}
	j.prefix = graph.Nested(j.base, j.labelOf(n)+"/")
	e := &emitter{j}
	product := chain[len(chain)-1].node
	j.out.Changes = append(j.out.Changes, fmt.Sprintf("node %q (%s) computes only the part that node %q (%s) takes",
		j.labelOf(product), product.Op, j.labelOf(n), n.Op))
	taken := None // the part of the output of the node before
	for k, l := range slices.Backward(chain) {
		first := len(j.g.Nodes)
		in := slices.Clone(l.node.Inputs)
		for i, a := range l.axes {
			switch {
			case a >= 0 && taken != None:
				in[i] = taken
			case a >= 0:
				in[i] = e.Slice(in[i], e.Vector(start), e.Vector(end), e.Vector(a))
			}
		}
		out := n.Outputs[0]
		if k > 0 {
			out = j.newValue(j.g.ValueName(l.node.Outputs[0]) + "_taken")
		} else {
			j.g.Values[out].Def = graph.NoNode
		}
		again := &graph.Node{Name: l.node.Name, Op: l.node.Op, Domain: l.node.Domain, Attrs: l.node.Attrs, Inputs: in,
			Outputs: []Value{out}}
		again.EditRare(func(r *graph.Rare) { r.Devices = l.node.Devices() })
		e.must(j.g.AddNode(again))
		e.must(j.types.Node(again))
		for id := first; id < len(j.g.Nodes); id++ {
			replaced[l.node.ID] = append(replaced[l.node.ID], graph.NodeID(id))
		}
		old := l.node.Outputs[0]
		j.g.Values[old].Def = graph.NoNode
		j.g.ValueInfo = slices.DeleteFunc(j.g.ValueInfo, func(d graph.Decl) bool { return d.Value == old })
		l.node.Outputs[0], taken = None, out
	}
	replaced[n.ID], n.Outputs[0] = nil, None
}

// knownSlice returns the bounds of a Slice that cuts one axis at numbers, without steps.
func (j *joint) knownSlice(n *graph.Node) (start, end, axis int64, ok bool) {
	if !Of(n.Kind).Sinks || len(n.Inputs) < 3 || n.Output(0) == None {
		return 0, 0, 0, false
	}
	c := &Ctx{Node: n, Version: sliceInputs, emitter: emitter{j}}
	_, ranked := c.Dims(n.Inputs[0])
	_, known := c.intsOf(n.Inputs[1])
	_, known2 := c.intsOf(n.Inputs[2])
	for _, v := range []Value{n.Input(3), n.Input(4)} {
		if _, ints := c.intsOf(v); v != None && !ints {
			return 0, 0, 0, false
		}
	}
	if !ranked || !known || !known2 {
		return 0, 0, 0, false
	}
	b, _ := c.bounds() // known, as the operands are
	i := b.onlyCut(c.extentsOf(n.Inputs[0], 0), c.extentsOf(n.Outputs[0], 0))
	if i < 0 || slices.ContainsFunc(b.steps, func(step int64) bool { return step != 1 }) {
		return 0, 0, 0, false
	}
	return b.starts[i], b.ends[i], b.axes[i], true
}

// wayToProduct lists the nodes that make v, the last first, back to one whose cut pays; nil if there
// is no such node, or a value in between has another reader.
func (j *joint) wayToProduct(v Value, axis int64) []link {
	var chain []link
	for {
		x := &j.g.Values[v]
		if x.Def == graph.NoNode || x.Output || int(v) >= len(j.readers) || j.readers[v] != 1 {
			return nil
		}
		n := j.g.Nodes[x.Def]
		row := Of(n.Kind)
		if row.Cut == nil || len(n.Outputs) != 1 {
			return nil
		}
		axes := row.Cut(&Ctx{Node: n, emitter: emitter{j}}, axis)
		if axes == nil {
			return nil
		}
		chain = append(chain, link{n, axes})
		if row.CutPays {
			return chain
		}
		at := -1
		for i, a := range axes {
			if a >= 0 && at >= 0 {
				return nil // two operands of the output's size
			} else if a >= 0 {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		v, axis = n.Inputs[at], axes[at]
	}
}
