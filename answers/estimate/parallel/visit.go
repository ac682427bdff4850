package parallel

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// visit is a node whose outputs are being divided.
type visit struct {
	*divider
	n *graph.Node
}

// node divides the outputs of a node by its operator's rule. The error is a *blocked where a
// division that the forward half has begun cannot go on.
func (d *divider) node(n *graph.Node) error {
	v := &visit{d, n}
	if op.Of(n.Kind).Has(op.ShapeOf) || n.Output(0) == graph.NoValue && len(n.Outputs) < 2 {
		return nil
	}
	if !v.anyCut() && v.backward() {
		return nil
	}
	err := v.divideNode()
	for _, out := range n.Outputs {
		switch {
		case out == graph.NoValue:
		case d.next[out] != graph.NoValue:
			d.settleState(n, out)
		case d.fixed[out]:
			d.cuts[out] = d.fixes[out]
		}
	}
	return err
}

// divideNode begins a division where the node has a weight to begin at, and goes on with those that it
// reads.
func (v *visit) divideNode() error {
	if v.lookup() {
		v.beginTable()
		if c := v.in(0); c.kind == tensor && c.axis == 0 {
			v.gatherInput(1)
			v.summed()
			return nil
		}
	}
	factors := v.factors()
	v.beginLinear(factors)
	return v.along(factors)
}

// settleState divides the next value of a state as the state is.
func (d *divider) settleState(n *graph.Node, out graph.ValueID) {
	state := d.cuts[d.next[out]]
	if d.cuts[out].kind != whole && !d.cuts[out].same(state) {
		d.gather[n.ID] += d.bytes(out)
	}
	d.cuts[out] = state
}

func (v *visit) anyCut() bool {
	return slices.ContainsFunc(v.n.Inputs, func(in graph.ValueID) bool {
		return in != graph.NoValue && v.cuts[in].kind != whole
	})
}

func (v *visit) backward() bool { return v.back[v.n.ID] }

// in is the cut of an input.
func (v *visit) in(i int) cut {
	if id := v.n.Input(i); id != graph.NoValue {
		return v.cuts[id]
	}
	return cut{}
}

// shape is the dims of an input; nil for an absent input or unknown dims.
func (v *visit) shape(i int) []int64 {
	if id := v.n.Input(i); id != graph.NoValue {
		return v.dims[id]
	}
	return nil
}

// set divides an output, which comes from the given parameter.
func (v *visit) set(slot int, c cut, from graph.ValueID) {
	out := v.n.Output(slot)
	if out == graph.NoValue {
		return
	}
	v.cuts[out] = c
	if c.kind == tensor {
		v.origin[out] = from
	}
}

// from is a parameter that the cuts of the inputs come from; all that they come from are united.
func (v *visit) from() graph.ValueID {
	from := graph.NoValue
	for _, in := range v.n.Inputs {
		if in == graph.NoValue || v.cuts[in].kind != tensor {
			continue
		}
		o := v.origin[in]
		if v.param[in] {
			o = in
		}
		v.unite(from, o)
		if from == graph.NoValue {
			from = o
		}
	}
	return from
}

// block ends a division that the forward half has begun; in the backward half, along the sequence, and
// with the file's own annotations, the value is whole from here on.
func (v *visit) block(format string, args ...any) error {
	from := v.from()
	if v.backward() || from == graph.NoValue || v.annotated {
		v.gatherAll()
		return nil
	}
	return &blocked{from, fmt.Sprintf("node %q (%s): ", v.g.NodeLabel(v.n.ID), v.n.Op) + fmt.Sprintf(format, args...)}
}

// gatherAll notes that a node reads all of its divided inputs.
func (v *visit) gatherAll() {
	for i := range v.n.Inputs {
		v.gatherInput(i)
	}
}

// gatherInput notes that a node reads all of an input that is divided.
func (v *visit) gatherInput(i int) {
	if in := v.n.Input(i); in != graph.NoValue && v.cuts[in].kind != whole {
		v.gather[v.n.ID] += v.bytes(in)
	}
}

// bytes is the size of a whole value.
func (d *divider) bytes(v graph.ValueID) int64 {
	n := int64(d.g.Values[v].Type.DType.Bits())
	for _, dim := range d.dims[v] {
		n *= dim
	}
	return (n + 7) / 8
}

// want divides an input that is whole: a weight or a constant lies divided, of anything else each
// rank takes its part. It reports whether the input is, or can be, divided so.
func (v *visit) want(i int, c cut) bool {
	in := v.n.Input(i)
	switch have := v.cuts[in]; {
	case have.same(c):
		return true
	case have.kind == tensor || have.kind == c.kind:
		return false
	case have.kind == sequence:
		v.gatherInput(i)
		return true
	case v.fixed[in]:
		return false
	}
	if c.kind == tensor {
		if p, axis, ok := v.weight(in, c.axis); ok && !v.backward() {
			return v.divide(p, axis, alikeDivided, graph.NoValue)
		}
	}
	if v.g.Values[in].IsConstant() && !v.param[in] {
		v.cuts[in] = c
		return true
	}
	s := &v.sliced[in]
	s.mixed = s.mixed || s.readers > 0 && !s.cut.same(c)
	s.readers++
	s.cut = c
	return true
}

// weight follows a value to its parameter, through nodes that only move its elements, and returns the
// parameter's axis for an axis of the value.
func (d *divider) weight(v graph.ValueID, axis int) (p graph.ValueID, at int, ok bool) {
	for !d.param[v] {
		def := d.g.Values[v].Def
		if def == graph.NoNode {
			return v, axis, false
		}
		n := d.g.Nodes[def]
		switch info := op.Of(n.Kind); {
		case info.Has(op.TransposeRole):
			axis = permutation(n, len(d.dims[v]))[axis]
		case info.Has(op.CastRole), info.Has(op.IdentityRole):
		default:
			return v, axis, false
		}
		v = n.Input(0)
	}
	return v, axis, true
}

// permutation is the axes of the input of a Transpose, in the order of its output.
func permutation(n *graph.Node, rank int) []int {
	perm := make([]int, rank)
	list := n.IntList("perm", nil)
	for i := range perm {
		perm[i] = rank - 1 - i
		if len(list) == rank {
			perm[i] = int(list[i])
		}
	}
	return perm
}

// divide divides a parameter, and the values that are its elements moved. It reports false if the
// parameter is divided otherwise, or must stay whole.
func (d *divider) divide(p graph.ValueID, axis int, role string, with graph.ValueID) bool {
	c := cut{kind: tensor, axis: axis}
	switch {
	case d.role[p] != "":
		if !d.cuts[p].same(c) {
			return false
		}
	case d.ban[p] != "" || d.fixed[p]:
		return false
	default:
		d.role[p], d.cuts[p], d.origin[p] = role, c, p
	}
	d.unite(with, p)
	return true
}

// follow gives the values between a parameter and a reader the parameter's cut.
func (d *divider) follow(v graph.ValueID) {
	p, _, ok := d.weight(v, 0)
	if !ok || v == p {
		return
	}
	n := d.g.Nodes[d.g.Values[v].Def]
	d.follow(n.Input(0))
	in := d.cuts[n.Input(0)]
	if in.kind == whole {
		return
	}
	if op.Of(n.Kind).Has(op.TransposeRole) {
		in.axis = slices.Index(permutation(n, len(d.dims[v])), in.axis)
	}
	d.cuts[v], d.origin[v] = in, p
}
