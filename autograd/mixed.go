package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
	"memopt/graph/precision"
	"memopt/graph/roles"
)

// mix has the forward half compute in 16 bits where the precision says so.
func (j *joint) mix(opts Options) error {
	half := opts.Precision.Half()
	if half == graph.Undefined {
		return nil
	}
	if _, err := op.InferAsIs(j.m); err != nil {
		return err
	}
	if needed := precision.Needs(j.m, opts.Precision); needed > j.opset() {
		return &raised{needed}
	}
	weight := func(v Value) bool {
		return j.roles.Of(v).Kind == roles.Parameter || slices.Contains(opts.Wrt, j.g.ValueName(v))
	}
	var err error
	j.out.Mixed, err = precision.Rewrite(j.m, opts.Precision, weight, j.groups())
	return err
}

// groups are the nodes that differentiation takes as one operator: they have one width, so that no cast parts them.
func (j *joint) groups() (list []precision.Group) {
	uses := graph.NewUses(j.g)
	readers := func(v Value) int32 { return int32(len(uses.Of(v))) }
	number := func(v Value) (float64, bool) { return pattern.Number(j.g, v) }
	output := func(Value) bool { return false }
	for _, n := range slices.Backward(j.g.Nodes) {
		if m := cleaning.Find(j.g, n, number); m != nil {
			list = append(list, precision.Group{Nodes: m.Nodes, Widths: op.Either})
		}
		if j.unfused {
			continue
		}
		for _, row := range rowsByKind[n.Kind] {
			if m := row.pattern.Find(j.g, n, number); m != nil && m.Closed(readers, output) {
				list = append(list, precision.Group{Nodes: m.Nodes, Widths: row.widths})
				break
			}
		}
	}
	return list
}

// restash has the backward half read casts of its own in place of those of the forward half, where their input takes
// fewer bytes or is there anyway: one that is a weight, an input, or another value that the backward half reads. A
// float32 value with a copy in 16 bits lives on as that copy. It returns the nodes of the backward half.
func (j *joint) restash(forward, backward []*graph.Node) []*graph.Node {
	if j.out.Mixed == nil {
		return backward
	}
	r := &restash{joint: j, def: map[Value]*graph.Node{}, low: map[Value]Value{}, again: map[Value]Value{},
		names: graph.NewNames(j.m)}
	for _, n := range forward {
		for _, v := range n.Outputs {
			if v != None {
				r.def[v] = n
			}
		}
		if from := r.castOf(n); from != None && j.g.Values[n.Outputs[0]].Type.DType == j.out.Mixed.Half &&
			j.g.Values[from].Type.DType == graph.Float32 {
			r.low[from] = n.Outputs[0]
		}
	}
	for _, n := range backward {
		for i, v := range n.Inputs {
			if v != None {
				n.Inputs[i] = r.read(v)
			}
		}
		r.nodes = append(r.nodes, n)
	}
	return r.nodes
}

// restash is the backward half in the making.
type restash struct {
	*joint
	def   map[Value]*graph.Node // by forward value
	low   map[Value]Value       // by float32 value: its copy in 16 bits
	again map[Value]Value       // by forward value: the value in its place in the backward half
	names *graph.Names
	nodes []*graph.Node
}

// castOf is the input of a cast between floats; None for other nodes.
func (j *joint) castOf(n *graph.Node) Value {
	if !op.Of(n.Kind).Has(op.CastRole) || !j.g.Values[n.Outputs[0]].Type.DType.IsFloat() ||
		!j.g.Values[n.Input(0)].Type.DType.IsFloat() {
		return None
	}
	return n.Input(0)
}

// read is the value that the backward half reads in place of a forward value.
func (r *restash) read(v Value) Value {
	n := r.def[v]
	if n == nil {
		return v
	}
	if again, ok := r.again[v]; ok {
		return again
	}
	from, again := r.castOf(n), v
	if from != None && r.def[from] == nil { // of a weight or an input
		again = r.cast(from, v)
	} else if from != None && r.bits(from) < r.bits(v) {
		again = r.cast(r.read(from), v)
	} else if low, ok := r.low[v]; ok {
		again = r.cast(low, v)
	}
	r.again[v] = again
	return again
}

func (r *restash) bits(v Value) int { return r.g.Values[v].Type.DType.Bits() }

// cast converts a value to the type and the shape of a forward value.
func (r *restash) cast(from, like Value) Value {
	t := r.g.Values[like].Type
	v := r.g.Value(r.names.Value(r.g.ValueName(like) + "_again"))
	r.g.Values[v].Type = t
	n := &graph.Node{Name: r.names.Node(r.g.ValueName(v) + "/Cast"), Op: "Cast", Kind: op.Lookup("", "Cast"),
		Inputs: []Value{from}, Outputs: []Value{v}, Attrs: Attrs{A("to", int64(t.DType))}}
	if def := r.def[like]; def != nil {
		n.InheritStages(def)
	}
	if err := r.g.AddNode(n); err != nil {
		panic(failure{err})
	}
	r.nodes = append(r.nodes, n)
	return v
}

// late is a gradient for an update that waits for all gradients. In mixed precision one that is a cast of 16 bits is
// made again, so that it waits in 16 bits.
func (u *updater) late(i int) Value {
	grad := u.grads[i]
	if u.multiplied != nil {
		grad = u.multiplied[i]
	}
	if u.j.out.Mixed == nil || u.j.g.Values[grad].Def == graph.NoNode {
		return u.grads[i]
	}
	from := u.j.castOf(u.j.g.Nodes[u.j.g.Values[grad].Def])
	if from == None || u.DType(from).Bits() >= u.DType(grad).Bits() {
		return u.grads[i]
	}
	grad = u.Cast(from, u.DType(grad))
	if u.multiplied != nil {
		grad = u.Mul(grad, u.Cast(u.perScale, u.DType(grad)))
	}
	return grad
}
