package recompute

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// GuardSuffix is what the names of values end in that guards make.
const GuardSuffix = "_guard"

// A guard keeps what stock ONNX Runtime does to a rewritten graph from changing its numbers. Three
// things would, all of them because a rewrite changes who reads what:
//
//   - A Dropout whose mask nobody reads is taken out, whatever its training_mode says (its dropout_elimination.cc). In a rewritten graph
//     the masks of originals, and of clones that were made for their data, have lost their readers. It is taken out only while no more than
//     one of its inputs is made by a node: its ratio and its training_mode are read through views.
//   - The half of x in x/2 * (1 + tanh(...)) vanishes in a FastGelu even where other nodes read it, and the file is refused (fast_gelu_fusion.cc).
//     In a graph as it is the backward half reads other values of the pattern, too, which prevents that. The factor is read through a view.
//   - A BatchNormalization in training mode writes the running statistics into the memory of those it is given, weights of the file
//     included, so that a clone would update them again. A clone is given others, which do not count for what it normalizes, and nothing
//     reads the statistics that it makes.
//
// The view that a constant v is read through is a Reshape that no runtime can fold, as those of
// anchors are:
//
//	v_guard = Reshape(v, Mul(Size(input), zeros))
type guardWriter struct {
	*anchorWriter
	uses   uses
	input  graph.ValueID   // a tensor that the graph is given; NoValue where there is none
	size   graph.ValueID   // of the input
	dims   []graph.ValueID // by rank: the zeros by which a view keeps its dims
	opaque map[graph.ValueID]graph.ValueID
	apart  map[graph.ValueID]graph.ValueID // running statistics and those that clones are given in their place
	offset graph.ValueID
	half   []bool // by value: half of the operand of a FastGelu that others read, too
	fails  error
}

// guarded inserts the guards that the nodes of a rewritten graph need, in their order.
func (r *rewriter) guarded(nodes []*graph.Node) ([]*graph.Node, error) {
	found := findUses(r.g, nodes)
	w := &guardWriter{anchorWriter: newAnchorWriter(r, r.out.Model.OpsetVersion("")), uses: found, input: givenTensor(r.g), size: graph.NoValue, offset: graph.NoValue,
		opaque: map[graph.ValueID]graph.ValueID{}, apart: map[graph.ValueID]graph.ValueID{}, half: found.halves(r.g, nodes)}
	before := findUses(r.old, r.old.Nodes)
	out, origin := make([]*graph.Node, 0, len(nodes)), make([]graph.NodeID, 0, len(nodes))
	seen := make([]bool, len(r.old.Nodes))
	for i, n := range nodes {
		w.nodes = nil
		if from := r.out.Origin[i]; from != graph.NoNode {
			if seen[from] {
				w.giveState(n)
			}
			seen[from] = true
			if w.uses.removes(r.g, n) && !before.removes(r.old, r.old.Nodes[from]) {
				w.hideDropping(n)
			}
		}
		if h := n.Output(0); h != graph.NoValue && w.half[h] {
			w.hideConstants(n)
		}
		for _, added := range w.nodes {
			r.guards[added] = true
			out, origin = append(out, added), append(origin, graph.NoNode)
		}
		out, origin = append(out, n), append(origin, r.out.Origin[i])
	}
	r.out.Origin, r.out.GuardNodes = origin, len(r.guards)
	return out, w.fails
}

// hideDropping lets a Dropout read its ratio and its training mode through views. A ratio that is
// left out is stated: should the node that makes the data be taken out, a single one that makes an
// input would be put in its place.
func (w *guardWriter) hideDropping(n *graph.Node) {
	const ratio, mode = 1, 2
	n.Inputs = slices.Clone(n.Inputs)
	if n.Input(ratio) == graph.NoValue {
		n.Inputs[ratio] = w.constant(graph.Float32Tensor(w.freeName("memopt"+GuardSuffix+"_ratio"), nil, 0.5))
	}
	for _, slot := range []int{ratio, mode} {
		n.Inputs[slot] = w.viewOf(n.Inputs[slot], n.Inputs[0])
	}
}

// hideConstants lets a node read its constant operands through views.
func (w *guardWriter) hideConstants(n *graph.Node) {
	n.Inputs = slices.Clone(n.Inputs)
	for slot, v := range n.Inputs {
		if isConstant(w.g, v) {
			n.Inputs[slot] = w.viewOf(v, n.Inputs[1-slot])
		}
	}
}

// viewOf returns a view of a value that no runtime can fold; of a value of unknown rank, which no
// file has here, the value itself. Where the graph is given nothing, the view waits for another
// operand of its reader.
func (w *guardWriter) viewOf(v, other graph.ValueID) graph.ValueID {
	t := w.g.Values[v].Type
	rank := t.Shape.Rank()
	if out, ok := w.opaque[v]; ok || rank < 0 {
		if !ok {
			return v
		}
		return out
	}
	size := w.size
	if size == graph.NoValue {
		of := w.input
		if of == graph.NoValue {
			of = other
		}
		size = w.add(op.Size, w.g.Values[of].Name+GuardSuffix+"_size", graph.Ints(), of)
	}
	name := w.g.Values[v].Name + GuardSuffix
	zeros, err := w.zerosOf(rank)
	if err != nil {
		w.fails = err
		return v
	}
	for len(w.dims) <= rank {
		w.dims = append(w.dims, graph.NoValue)
	}
	dims := w.dims[rank]
	if dims == graph.NoValue {
		dims = w.add(op.Mul, name+"_zeros", graph.Ints(int64(rank)), size, zeros)
	}
	out := w.add(op.Reshape, name, t.Shape, v, dims)
	w.retype(out, t)
	if w.input != graph.NoValue { // the view is there wherever the value is
		w.size, w.dims[rank], w.opaque[v] = size, dims, out
	}
	return out
}

// retype states the type of a value that has been added as one of int64.
func (w *guardWriter) retype(v graph.ValueID, t graph.Type) {
	w.g.Values[v].Type = t
	if last := len(w.g.ValueInfo) - 1; last >= 0 && w.g.ValueInfo[last].Value == v {
		w.g.ValueInfo[last].Type = t
		return
	}
	w.g.ValueInfo = append(w.g.ValueInfo, graph.Decl{Value: v, Type: t})
}

// constant adds a tensor to the file: an initializer, or a node where an initializer would have to
// be a graph input.
func (w *guardWriter) constant(data *graph.TensorData) graph.ValueID {
	if w.out.Model.IRVersion < 4 {
		v := w.add(op.Constant, data.Name, graph.Ints(data.Dims...))
		w.nodes[len(w.nodes)-1].SetAttr("value", data)
		w.retype(v, data.Type())
		return v
	}
	v, err := w.g.AddInitializer(data)
	if err != nil {
		w.fails = err
	}
	return v
}

// stateOffset is added to the running statistics that clones are given: ONNX Runtime makes one of
// small constants that are equal, and no other constant is likely to be one more than this than a
// norm's statistics.
const stateOffset = 0.7853

// giveState gives a clone running statistics of its own.
func (w *guardWriter) giveState(n *graph.Node) {
	for _, pair := range op.Of(n.Kind).Updates {
		in := n.Input(pair.In)
		if n.Output(pair.Out) == graph.NoValue || in == graph.NoValue {
			continue
		}
		own, ok := w.apart[in]
		if !ok {
			own = w.shifted(in)
			w.apart[in] = own
		}
		n.Inputs[pair.In] = own
	}
}

// shifted adds a number to a value.
func (w *guardWriter) shifted(v graph.ValueID) graph.ValueID {
	t := w.g.Values[v].Type
	if w.offset == graph.NoValue {
		w.offset = w.constant(graph.Float32Tensor(w.freeName("memopt"+GuardSuffix+"_offset"), nil, stateOffset))
	}
	by := w.offset
	if t.DType != graph.Float32 {
		by = w.add(op.Cast, w.g.Values[v].Name+GuardSuffix+"_offset", graph.Ints(), w.offset)
		w.nodes[len(w.nodes)-1].SetAttr("to", int64(t.DType))
		w.retype(by, graph.Tensor(t.DType, graph.Ints()))
	}
	out := w.add(op.Add, w.g.Values[v].Name+GuardSuffix, t.Shape, v, by)
	w.retype(out, t)
	return out
}

// givenTensor returns the first tensor that a graph is given and that is no weight of the file, or
// NoValue.
func givenTensor(g *graph.Graph) graph.ValueID {
	for _, d := range g.Inputs {
		if v := &g.Values[d.Value]; !v.IsInitializer() && v.Type.Form == graph.FormTensor {
			return d.Value
		}
	}
	return graph.NoValue
}

// uses knows by value how often it is read, by nodes, by their subgraphs, as a graph output, and
// which node makes it.
type uses struct {
	count []int32
	def   []*graph.Node
}

func findUses(g *graph.Graph, nodes []*graph.Node) uses {
	u := uses{make([]int32, len(g.Values)), make([]*graph.Node, len(g.Values))}
	for _, n := range nodes {
		for _, list := range [][]graph.ValueID{n.Inputs, n.Captures} {
			for _, v := range list {
				if v != graph.NoValue {
					u.count[v]++
				}
			}
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				u.def[v] = n
			}
		}
	}
	for _, d := range g.Outputs {
		u.count[d.Value]++
	}
	return u
}

func (u *uses) of(v graph.ValueID) int32 {
	if v == graph.NoValue {
		return 0
	}
	return u.count[v]
}

// makes returns the node that makes a value if it has an operator, else nil.
func (u *uses) makes(v graph.ValueID, kind graph.Kind) *graph.Node {
	if v == graph.NoValue || u.def[v] == nil || u.def[v].Kind != kind {
		return nil
	}
	return u.def[v]
}

// made reports whether a node makes a value, once Constant nodes have become initializers and
// copies have been taken out.
func (u *uses) made(v graph.ValueID) bool {
	for n := u.makes(v, op.Identity); n != nil && n.Input(0) != graph.NoValue; n = u.makes(v, op.Identity) {
		v = n.Inputs[0]
	}
	return v != graph.NoValue && u.def[v] != nil && !op.Of(u.def[v].Kind).Has(op.ConstantRole)
}

// removes reports whether stock ONNX Runtime, from the basic level of optimization on, replaces a
// Dropout by its data although it may drop something.
func (u *uses) removes(g *graph.Graph, n *graph.Node) bool {
	return n.Kind == op.Dropout && u.eliminates(g, n) && !dropsNothing(g, n)
}

// eliminates reports whether it replaces a Dropout by its data at all: where nobody reads the mask,
// the result is no graph output, and one input is made by a node.
func (u *uses) eliminates(g *graph.Graph, n *graph.Node) bool {
	made := 0
	for _, v := range n.Inputs {
		if u.made(v) {
			made++
		}
	}
	return u.of(n.Output(1)) == 0 && n.Output(0) != graph.NoValue && !g.Values[n.Output(0)].Output && made == 1
}

// dropsNothing reports whether a Dropout is known to give its data: before operator set 12 it is
// defined for inference only.
func dropsNothing(g *graph.Graph, n *graph.Node) bool {
	return n.Input(2) == graph.NoValue || isZero(g, n.Input(2)) || n.Input(1) != graph.NoValue && isZero(g, n.Input(1))
}

// isZero reports whether the file says that all bytes of a value are zero.
func isZero(g *graph.Graph, v graph.ValueID) bool {
	t := Contents(g, v)
	if t == nil || t.Source == nil {
		return false
	}
	raw, err := t.Source.Bytes()
	return err == nil && !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 })
}

// Contents returns what the file says of a value that no input can change; nil for others.
func Contents(g *graph.Graph, v graph.ValueID) *graph.TensorData {
	value := &g.Values[v]
	switch {
	case value.IsConstant():
		return value.Data
	case value.Def != graph.NoNode && IsConstant(g, value.Def):
		return g.Nodes[value.Def].TensorAttr("value")
	}
	return nil
}

func isConstant(g *graph.Graph, v graph.ValueID) bool {
	value := &g.Values[v]
	return value.IsConstant() || value.Def != graph.NoNode && int(value.Def) < len(g.Nodes) && IsConstant(g, value.Def)
}

// Eliminated marks the Dropout nodes, by node, that stock ONNX Runtime replaces by their data from
// the basic level of optimization on.
func Eliminated(g *graph.Graph) []bool {
	out, found := make([]bool, len(g.Nodes)), findUses(g, g.Nodes)
	for i, n := range g.Nodes {
		out[i] = n.Kind == op.Dropout && found.eliminates(g, n)
	}
	return out
}

// LostDropouts lists those among them that may drop something: with them the runtime's numbers are
// those without dropout.
func LostDropouts(g *graph.Graph) []graph.NodeID {
	var out []graph.NodeID
	found := findUses(g, g.Nodes)
	for i, n := range g.Nodes {
		if found.removes(g, n) {
			out = append(out, graph.NodeID(i))
		}
	}
	return out
}

// halves marks the values h of patterns h * (1 + tanh(...)) that other nodes read, too, while h is
// a product with a constant and the rest of the pattern has one reader each.
func (u *uses) halves(g *graph.Graph, nodes []*graph.Node) []bool {
	out := make([]bool, len(g.Values))
	for _, n := range nodes {
		if n.Kind != op.Mul {
			continue
		}
		for slot, h := range n.Inputs {
			sum, half := u.makes(n.Inputs[1-slot], op.Add), u.makes(h, op.Mul)
			if sum == nil || half == nil || u.of(h) < 2 || u.of(n.Inputs[1-slot]) != 1 || !slices.ContainsFunc(half.Inputs, func(v graph.ValueID) bool { return isConstant(g, v) }) {
				continue
			}
			out[h] = slices.ContainsFunc(sum.Inputs, func(v graph.ValueID) bool { return u.makes(v, op.Tanh) != nil && u.of(v) == 1 })
		}
	}
	return out
}
