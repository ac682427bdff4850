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

// MinAnchorOpset is the oldest operator set that can express anchors: its Mul broadcasts as NumPy
// does.
const MinAnchorOpset = 7

// Anchor is a place in the order that a runtime may not move nodes across: from there on, all nodes
// read Values through views that wait until all Sinks are made. This includes forward nodes where
// nodes of both halves take turns; they keep reading the originals of recomputed values.
//
// An anchor is written in the graph's own operators. Size of every sink, which reads none of its
// data, gives numbers; their minimum times zero is an axis. Unsqueeze gives a value a dim of 1 there
// and Squeeze takes it away, both without a copy. A runtime cannot fold that without knowing the
// sinks' sizes, and cannot take a clone that reads the view for a repetition of the original.
//
//	m = Min(Size(sink), …, m of the anchor before)
//	value_anchor = Squeeze(Unsqueeze(value, Mul(m, [0])), [0])
//
// The two views stand where one would do because ONNX Runtime joins a Reshape with the Reshape,
// Squeeze or Unsqueeze behind it wherever it knows that one's shape (FuseContiguousReshapes in
// reshape_fusion.cc): it would drop the dependence of an anchor, or refuse the file. Such a chain begins
// with a Reshape, and ends before an Unsqueeze whose axis a node makes: its shape is unknown. So no
// chain has the nodes of an anchor, whatever stands before or behind it, and the Squeeze can state
// its shape. Before operator set 13, where axes are attributes, a Reshape by zeros and a one is the
// first view, and the file leaves a dim of both unknown.
type Anchor struct {
	Before graph.NodeID    // the anchor stands before it and before the clones that are made for it
	Sinks  []graph.ValueID // made before that place
	Values []graph.ValueID // made before that place, tensors of known rank, no scalars
	// Late values are made behind that place and before the next anchor. They are outputs of views
	// that take no part in the anchor themselves: a view takes no memory, its reader does.
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
	name    string                   // of the anchor that is being written
	numbers map[string]graph.ValueID // constants by name
	nodes   []*graph.Node            // of the anchor that is being written
}

func newAnchorWriter(r *rewriter, opset int64) *anchorWriter {
	w := &anchorWriter{rewriter: r, opset: opset, numbers: map[string]graph.ValueID{}}
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

// SetNewest makes the rewriter's later nodes read a view; forward nodes do so, too, unless the view shows a clone.
func (w *anchorWriter) SetNewest(v, view graph.ValueID) {
	if w.newest.Of(v) == w.views.Of(v) {
		w.views.Set(v, view)
	}
	w.newest.Set(v, view)
}

// Itself reports whether a value has no clone and no view.
func (w *anchorWriter) Itself(v graph.ValueID) bool { return w.newest.Of(v) == v }

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
	var of graph.Type
	if n.View != NoView {
		of = w.old.Values[n.Of].Type
	}
	out := w.add(n.Kind, name, n.Type(of), n.View == NoView, n.Inputs...)
	if n.Axes != nil {
		w.nodes[len(w.nodes)-1].SetAttr("axes", n.Axes)
	}
	if n.View == Whole {
		w.declareView(out, of)
	}
	return out
}

// declareView notes the type of a value's view in the file.
func (w *anchorWriter) declareView(view graph.ValueID, t graph.Type) {
	dim := Loose(&t)
	if w.opset < axesAsOperand && dim < 0 {
		dim = 0 // the first view is a Reshape, which ONNX Runtime would join with this one
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

// Constant returns a constant of int64 numbers.
func (w *anchorWriter) Constant(name string, numbers ...int64) (graph.ValueID, error) {
	if v, ok := w.numbers[name]; ok {
		return v, nil
	}
	data := graph.Int64Tensor("memopt"+AnchorSuffix+"_"+name, []int64{int64(len(numbers))}, numbers...)
	v, err := w.constant(data)
	if err == nil {
		w.numbers[name] = v
	}
	return v, err
}

// constant adds a tensor to the file, named after the given name: an initializer, or a node where an
// initializer would have to be a graph input.
func (w *anchorWriter) constant(data *graph.TensorData) (graph.ValueID, error) {
	if w.out.Model.IRVersion < 4 {
		v := w.add(op.Constant, data.Name, data.Type(), true)
		data.Name = w.g.ValueName(v)
		w.nodes[len(w.nodes)-1].SetAttr("value", data)
		return v, nil
	}
	data.Name = w.freeName(data.Name)
	return w.g.AddInitializer(data)
}

// add appends a node with one output of a type, which the file states if declared says so. It is
// named after its output.
func (w *anchorWriter) add(
	kind graph.Kind, name string, t graph.Type, declared bool, inputs ...graph.ValueID,
) graph.ValueID {
	name = w.freeName(name)
	out := w.g.Value(name)
	w.g.Values[out].Type = t
	if declared {
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
// not a number, or -1 if all are numbers: in a graph of fixed sizes runtimes fuse nodes by their
// shapes, and the numbers should not change.
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

// loosen makes a dim that is not a number unknown in the file's types of the values that clones and
// backward nodes make. ONNX Runtime would otherwise put such a value into the buffer of a forward
// value of the same shape and keep that buffer allocated in between, which undoes the savings of
// recomputation.
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
