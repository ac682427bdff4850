package autograd

import (
	"slices"

	"memopt/graph"
)

// nestedJoint is a copy of a subgraph inside which gradients are made, under names of its own. Its
// forward nodes run once more, those that the gradients need, except for those that draw random numbers:
// their outputs come from the forward half (record.go).
type nestedJoint struct {
	*joint
	from     *graph.Graph // the subgraph
	recorded []recorded
	order    graph.Order
	forward  int     // nodes from here on have been emitted
	outputs  []Value // results of the subgraph
}

// nested copies a subgraph of a node.
func (c *Ctx) nested(g *graph.Graph, name string) (*nestedJoint, error) {
	cp := g.Clone(c.j.g)
	cp.Name = c.j.prefix + name
	c.j.taken.Rename(cp, cp.Name+"/")
	r := &nestedJoint{from: g}
	for _, d := range cp.Outputs {
		r.outputs = append(r.outputs, d.Value)
		v := &cp.Values[d.Value]
		if v.Output = false; v.Def != graph.NoNode {
			cp.ValueInfo = append(cp.ValueInfo, d)
		}
	}
	cp.Outputs = nil
	var err error
	if r.joint, err = c.j.inside(cp, name); err != nil {
		return nil, err
	}
	order, err := graph.Topological(cp)
	c.must(err)
	r.order, err = r.expand(order)
	c.must(err)
	r.forward = len(cp.Nodes)
	return r, nil
}

// flow marks the values on the ways from some values to others.
func (r *nestedJoint) flow(from, to []Value) {
	losses := make([]lossValue, len(to))
	for i, v := range to {
		losses[i].value = v
	}
	r.markReaches(r.order, losses)
	r.markRequires(r.order, from)
}

// captured lists the captured values whose gradients the enclosing graph wants.
func (r *nestedJoint) captured(outer *joint) []Value {
	var out []Value
	for i := range r.g.Values {
		v := &r.g.Values[i]
		if v.Outer != None && carriesFloat(v.Type) && int(v.Outer) < len(outer.requires) && outer.requires[v.Outer] {
			out = append(out, Value(i))
		}
	}
	return out
}

// prune drops everything that the roots do not depend on, and puts the nodes in order. It returns
// which values are read.
func (r *nestedJoint) prune(c *Ctx, roots []Value) []bool {
	live := make([]bool, len(r.g.Values))
	for _, v := range roots {
		live[v] = true
	}
	var all, kept []*graph.Node
	for _, id := range r.order {
		all = append(all, r.g.Nodes[id])
	}
	for i, n := range slices.Backward(append(all, r.g.Nodes[r.forward:]...)) {
		if !slices.ContainsFunc(n.Outputs, func(v Value) bool { return v != None && live[v] }) {
			continue
		}
		if i < len(all) && r.draws(n, r.g) {
			r.record(c, n, live)
			continue
		}
		kept = append(kept, n)
		for _, v := range append(slices.Clone(n.Inputs), n.Captures()...) {
			if v != None {
				live[v] = true
			}
		}
	}
	slices.Reverse(kept)
	r.g.SetNodes(kept)
	for i := range r.g.Values {
		if v := &r.g.Values[i]; !live[i] {
			v.Outer, v.Data, v.SparseData = None, nil, nil
		}
	}
	dead := func(v Value) bool { return !live[v] }
	r.g.Initializers = slices.DeleteFunc(r.g.Initializers, dead)
	r.g.Sparse = slices.DeleteFunc(r.g.Sparse, dead)
	r.g.ValueInfo = slices.DeleteFunc(r.g.ValueInfo, func(d graph.Decl) bool {
		return r.g.Values[d.Value].Def == graph.NoNode
	})
	return live
}

// rests reports whether a random node draws no numbers: a Dropout without training mode.
func (r *nestedJoint) rests(n *graph.Node, in *graph.Graph) bool {
	training := opInfo(n).Training
	if training == 0 || r.opset() < int64(opInfo(n).TrainingSince) {
		return false
	}
	if n.Input(training) == None { // as always before operator set 12
		return true
	}
	if in != r.g {
		return false // the inside of a nested subgraph is not known here
	}
	mode, ok := (&emitter{r.joint}).Ints(n.Input(training))
	return ok && len(mode) == 1 && mode[0] == 0
}
