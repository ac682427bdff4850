package recompute

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	ortsim "memopt/sim/ort"
)

// GuardSuffix ends the names of values that guards make.
const GuardSuffix = "_guard"

// A guard keeps stock ONNX Runtime from changing the numbers of a rewritten graph. Three things
// would change them, all because a rewrite changes which nodes read a value:
//
//   - A Dropout whose mask nobody reads is taken out, whatever its training_mode says (its
//     dropout_elimination.cc). In a rewritten graph the masks of originals, and of clones that were
//     made for their data, have lost their readers. It is taken out only while no more than one of
//     its inputs is made by a node: its ratio and its training_mode are read through views.
//   - The half of x in x/2 * (1 + tanh(...)) vanishes in a FastGelu even where other nodes read it,
//     and the file is refused (fast_gelu_fusion.cc). In a graph as it is the backward half reads
//     other values of the pattern, too, which prevents that. The factor is read through a view.
//   - A BatchNormalization in training mode writes the running statistics into the memory of those
//     it is given, weights of the file included, so that a clone would update them again. A clone
//     is given others, which do not count for what it normalizes, and nothing reads the statistics
//     that it makes.
//
// The view of a constant v for its readers is a Reshape that no runtime can fold, like those of
// anchors:
//
//	v_guard = Reshape(v, Mul(Size(input), zeros))
type guardWriter struct {
	*anchorWriter
	uses   *ortsim.Uses
	input  graph.ValueID   // an input tensor of the graph; NoValue if it has none
	size   graph.ValueID   // of the input
	dims   []graph.ValueID // by rank: the zeros that keep a view's dims
	opaque map[graph.ValueID]graph.ValueID
	apart  map[graph.ValueID]graph.ValueID // running statistics and those that clones are given in their place
	offset graph.ValueID
	half   []bool // by value: half of the operand of a FastGelu that others read, too
	fails  error
}

// guarded inserts the guards that the nodes of a rewritten graph need, in their order.
func (r *rewriter) guarded(nodes []*graph.Node) ([]*graph.Node, error) {
	found := ortsim.NewUses(r.g, nodes)
	w := &guardWriter{anchorWriter: newAnchorWriter(r, r.out.Model.OpsetVersion("")), uses: found,
		input: givenTensor(r.g), size: graph.NoValue, offset: graph.NoValue,
		opaque: map[graph.ValueID]graph.ValueID{}, apart: map[graph.ValueID]graph.ValueID{}, half: found.Halves(nodes)}
	before := ortsim.NewUses(r.old, r.old.Nodes)
	out, origin := make([]*graph.Node, 0, len(nodes)), make([]graph.NodeID, 0, len(nodes))
	seen := make([]bool, len(r.old.Nodes))
	for i, n := range nodes {
		w.nodes = nil
		if from := r.out.Origin[i]; from != graph.NoNode {
			if seen[from] {
				w.giveState(n)
			}
			seen[from] = true
			if w.uses.Loses(n) && !before.Loses(r.old.Nodes[from]) {
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
// left out is stated: otherwise, if the node that makes the data were removed, a single node that
// makes an input could take its place.
func (w *guardWriter) hideDropping(n *graph.Node) {
	const ratio, mode = 1, 2
	n.Inputs = slices.Clone(n.Inputs)
	if n.Input(ratio) == graph.NoValue {
		n.Inputs[ratio] = w.number("_ratio", 0.5)
	}
	for _, slot := range []int{ratio, mode} {
		n.Inputs[slot] = w.viewOf(n.Inputs[slot], n.Inputs[0])
	}
}

// hideConstants lets a node read its constant operands through views.
func (w *guardWriter) hideConstants(n *graph.Node) {
	n.Inputs = slices.Clone(n.Inputs)
	for slot, v := range n.Inputs {
		if w.uses.Constant(v) {
			n.Inputs[slot] = w.viewOf(v, n.Inputs[1-slot])
		}
	}
}

// viewOf returns a view of a value that no runtime can fold; for a value of unknown rank, which
// does not occur here, the value itself. If the graph has no input, the view waits for another
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
		number := graph.Tensor(graph.Int64, graph.Ints())
		size = w.add(op.Size, w.g.Values[of].Name+GuardSuffix+"_size", number, true, of)
	}
	name := w.g.Values[v].Name + GuardSuffix
	zeros, err := w.Constant(fmt.Sprintf("rank_%d", rank), make([]int64, rank)...)
	if err != nil {
		w.fails = err
		return v
	}
	for len(w.dims) <= rank {
		w.dims = append(w.dims, graph.NoValue)
	}
	dims := w.dims[rank]
	if dims == graph.NoValue {
		dims = w.add(op.Mul, name+"_zeros", graph.Tensor(graph.Int64, graph.Ints(int64(rank))), true, size, zeros)
	}
	out := w.add(op.Reshape, name, t, true, v, dims)
	if w.input != graph.NoValue { // the view is there wherever the value is
		w.size, w.dims[rank], w.opaque[v] = size, dims, out
	}
	return out
}

// number adds a scalar of float32 to the file.
func (w *guardWriter) number(part string, x float32) graph.ValueID {
	v, err := w.constant(graph.Float32Tensor("memopt"+GuardSuffix+part, nil, x))
	if err != nil {
		w.fails = err
	}
	return v
}

// stateOffset is added to the running statistics that clones are given: ONNX Runtime merges small
// constants that are equal, and no other constant is likely to exceed a norm's statistics by just
// this much.
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
		w.offset = w.number("_offset", stateOffset)
	}
	by := w.offset
	if t.DType != graph.Float32 {
		scalar := graph.Tensor(t.DType, graph.Ints())
		by = w.add(op.Cast, w.g.Values[v].Name+GuardSuffix+"_offset", scalar, true, w.offset)
		w.nodes[len(w.nodes)-1].SetAttr("to", int64(t.DType))
	}
	return w.add(op.Add, w.g.Values[v].Name+GuardSuffix, t, true, v, by)
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
