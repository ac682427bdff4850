package recompute

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// AnchorSuffix ends the names of values that are read through an anchor.
const AnchorSuffix = "_anchor"

// MinAnchorOpset is the oldest operator set that anchors can be written in: that in which Mul
// broadcasts as NumPy does.
const MinAnchorOpset = 7

// Anchor is a place in the order that a runtime may not move nodes across: from there on, all nodes
// read Values through views that wait until all Sinks are made. Forward nodes are among them where
// parts of both halves take turns; of a value that has run again they read what they read before.
//
// An anchor is written in the graph's own operators. Size of every sink, which reads none of its
// data, gives numbers whose minimum times zeros are zeros; Reshape of a value by zeros keeps every
// dim and copies nothing. A runtime cannot fold that without knowing the sinks' sizes, and cannot
// take a clone that reads the view for a repetition of the original.
//
//	m = Min(Size(sink), …, m of the anchor before)
//	value_anchor = Reshape(value, Mul(m, zeros))
type Anchor struct {
	Before graph.NodeID    // the anchor stands before it and before the clones that are made for it
	Sinks  []graph.ValueID // made before that place
	Values []graph.ValueID // made before that place, tensors of known rank, no scalars
	// Late values are made behind that place and before the next anchor. They are outputs of views
	// that take no part in the anchor themselves: ONNX Runtime merges two views in a row, and what
	// the first waited for would be lost.
	Late []graph.ValueID
}

// Anchorable returns why a value cannot be read through an anchor, or "".
func Anchorable(v *graph.Value) string {
	t := &v.Type
	switch {
	case t.Form != graph.FormTensor:
		return "it is not a tensor"
	case t.Shape.Rank() < 0:
		return "its rank is unknown"
	case t.Shape.Rank() == 0:
		return "it is a scalar"
	}
	return ""
}

// anchorWriter is the sink of anchors that makes nodes of the graph that is written. It makes the
// nodes of guards, too.
type anchorWriter struct {
	*rewriter
	emitter *AnchorEmitter
	opset   int64
	name    string          // of the anchor that is being written
	zeros   []graph.ValueID // constants by rank
	nodes   []*graph.Node   // of the anchor that is being written
}

func newAnchorWriter(r *rewriter, opset int64) *anchorWriter {
	w := &anchorWriter{rewriter: r, opset: opset}
	w.emitter = NewAnchorEmitter(r.old, opset, w)
	return w
}

// write returns the nodes of an anchor and lets the rewriter's later nodes read through it.
func (w *anchorWriter) write(a *Anchor) ([]*graph.Node, error) {
	if w.opset < MinAnchorOpset {
		return nil, fmt.Errorf("anchors need operator set %d or later, the model imports %d: rewrite without anchors",
			MinAnchorOpset, w.opset)
	}
	w.nodes = nil
	w.name = w.old.ValueName(firstOutput(w.old.Nodes[a.Before])) + AnchorSuffix
	err := w.emitter.Emit(a.Sinks, a.Values, a.Late)
	return w.nodes, err
}

// follow returns the nodes to put right behind a node for the late values among its outputs.
func (w *anchorWriter) follow(id graph.NodeID) []*graph.Node {
	w.nodes = nil
	for _, v := range w.old.Nodes[id].Outputs {
		w.emitter.Follow(v)
	}
	return w.nodes
}

// Origin returns the value itself: the rewriter knows its clones and views.
func (w *anchorWriter) Origin(v graph.ValueID) graph.ValueID { return v }

// Newest returns the newest clone or view of a value.
func (w *anchorWriter) Newest(v graph.ValueID) graph.ValueID { return w.newest.Of(v) }

// SetNewest lets the rewriter's later nodes read a view, forward nodes among them unless it shows a
// clone.
func (w *anchorWriter) SetNewest(v, view graph.ValueID) {
	if w.newest.Of(v) == w.views.Of(v) {
		w.views.Set(v, view)
	}
	w.newest.Set(v, view)
}

// Itself reports whether a value has no clone and no view.
func (w *anchorWriter) Itself(v graph.ValueID) bool { return w.newest.Of(v) == v }

// Zeros returns a constant of as many zeros.
func (w *anchorWriter) Zeros(n int) (graph.ValueID, error) { return w.zerosOf(n) }

// Add appends a node of an anchor.
func (w *anchorWriter) Add(n AnchorNode) graph.ValueID {
	name := w.name
	if n.Of != graph.NoValue {
		name = w.old.Values[n.Of].Name + AnchorSuffix
	}
	name += n.Part
	if n.Number >= 0 {
		name = fmt.Sprintf("%s_%d", name, n.Number)
	}
	shape := graph.Ints()
	switch {
	case n.View:
		shape = graph.Shape{}
	case n.Rank == 1:
		shape = graph.Ints(n.Dim)
	}
	out := w.add(n.Kind, name, shape, n.Inputs...)
	if n.View {
		w.declareView(out, n.Of)
	}
	return out
}

// declareView says what type a view of an old value has.
func (w *anchorWriter) declareView(view, of graph.ValueID) {
	t := w.old.Values[of].Type
	w.g.Values[view].Type = t
	dim := Loose(&t)
	if def := w.old.Values[of].Def; def != graph.NoNode && op.Of(w.old.Nodes[def].Kind).View {
		dim = 0 // with a known shape ONNX Runtime would merge it with the view before, and wait for nothing
	}
	w.g.ValueInfo = append(w.g.ValueInfo, graph.Decl{Value: view, Type: loosened(t, dim)})
}

// firstOutput is the first output that a node makes.
func firstOutput(n *graph.Node) graph.ValueID {
	for _, v := range n.Outputs {
		if v != graph.NoValue {
			return v
		}
	}
	return graph.NoValue
}

// zerosOf returns a constant of as many zeros as a rank.
func (w *anchorWriter) zerosOf(rank int) (graph.ValueID, error) {
	for len(w.zeros) <= rank {
		w.zeros = append(w.zeros, graph.NoValue)
	}
	if w.zeros[rank] != graph.NoValue {
		return w.zeros[rank], nil
	}
	name := fmt.Sprintf("memopt%s_rank_%d", AnchorSuffix, rank)
	data := graph.Int64Tensor(name, []int64{int64(rank)}, make([]int64, rank)...)
	if w.out.Model.IRVersion < 4 { // there an initializer must be a graph input, too
		w.zeros[rank] = w.add(op.Constant, name, graph.Ints(int64(rank)))
		data.Name = w.g.ValueName(w.zeros[rank])
		w.nodes[len(w.nodes)-1].SetAttr("value", data)
		return w.zeros[rank], nil
	}
	data.Name = w.freeName(name)
	var err error
	w.zeros[rank], err = w.g.AddInitializer(data)
	return w.zeros[rank], err
}

// add appends a node with one output of int64 and the given shape, if that is ranked. It is named
// after its output.
func (w *anchorWriter) add(kind graph.Kind, name string, shape graph.Shape, inputs ...graph.ValueID) graph.ValueID {
	name = w.freeName(name)
	out := w.g.Value(name)
	if shape.Ranked {
		t := graph.Tensor(graph.Int64, shape)
		w.g.Values[out].Type = t
		w.g.ValueInfo = append(w.g.ValueInfo, graph.Decl{Value: out, Type: t})
	}
	n := &graph.Node{Name: name, Op: op.Of(kind).Name, Kind: kind, Inputs: inputs, Outputs: []graph.ValueID{out}}
	w.nodes = append(w.nodes, n)
	return out
}

// freeName takes a name that no node and no value has yet.
func (w *anchorWriter) freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if w.names.TakeBoth(free) {
			return free
		}
		free = fmt.Sprintf("%s_%d", name, i)
	}
}

// Loose returns the index of the dim of a type that anchored graphs leave open, the first that is
// not a number, or -1: in a graph of fixed sizes runtimes fuse nodes by what they know of shapes,
// and the numbers should not change.
func Loose(t *graph.Type) int {
	if t.Form != graph.FormTensor {
		return -1
	}
	return slices.IndexFunc(t.Shape.Dims, func(d symbolic.Expr) bool {
		_, number := d.Const()
		return !number
	})
}

// loosened returns a type with one dim unknown.
func loosened(t graph.Type, dim int) graph.Type {
	if dim < 0 {
		return t
	}
	t.Shape.Dims = slices.Clone(t.Shape.Dims)
	t.Shape.Dims[dim] = symbolic.Unknown()
	return t
}

// loosen leaves a dim that is not a number unknown in what the file says of the values that clones
// and backward nodes make. ONNX Runtime would otherwise put such a value into the buffer of a
// forward value of the same shape and keep that buffer allocated in between, which undoes what
// recomputing saves.
func (r *rewriter) loosen() {
	moved := make([]bool, len(r.g.Values))
	seen := make([]bool, len(r.old.Nodes))
	for i, origin := range r.out.Origin {
		if origin == graph.NoNode {
			continue
		}
		if seen[origin] || r.backward[origin] {
			for _, v := range r.g.Nodes[i].Outputs {
				if v != graph.NoValue {
					moved[v] = true
				}
			}
		}
		seen[origin] = true
	}
	for i := range r.g.ValueInfo {
		d := &r.g.ValueInfo[i]
		if moved[d.Value] && !r.g.Values[d.Value].Output && Loose(&d.Type) >= 0 {
			d.Type, d.Wire = loosened(d.Type, Loose(&d.Type)), nil
		}
	}
}
