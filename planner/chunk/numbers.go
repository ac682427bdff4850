package chunk

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// numbers replaces nodes that read the shapes of a region's values by constants, so that these values
// need not exist as a whole.
func (w *writer) numbers(r *region) {
	for i := range w.items {
		n := w.items[i].node
		if !op.Of(n.Kind).Has(op.ShapeOf) || n.Input(0) == graph.NoValue {
			continue
		}
		if _, inside := r.place[n.Input(0)]; !inside {
			continue
		}
		if v, ok := w.shapeNumber(n); ok {
			w.replace(n.Output(0), v)
		}
	}
}

// shapeNumber returns a constant for a node that reads a shape.
func (w *writer) shapeNumber(n *graph.Node) (graph.ValueID, bool) {
	d := w.dims[n.Input(0)]
	out := w.dims[n.Output(0)]
	if d == nil || w.g.Values[n.Output(0)].Output {
		return graph.NoValue, false
	}
	if len(out) == 0 { // Size
		return w.constant(graph.Int64Tensor("", []int64{}, product(d)), []int64{}), true
	}
	first := n.Int("start", 0)
	if first < 0 {
		first += int64(len(d))
	}
	first = min(max(first, 0), int64(len(d)))
	if first+out[0] > int64(len(d)) {
		return graph.NoValue, false
	}
	return w.vector(d[first : first+out[0]]), true
}

// replace makes all nodes read another value.
func (w *writer) replace(old, v graph.ValueID) {
	for i := range w.items {
		n := w.items[i].node
		for slot, in := range n.Inputs {
			if in == old {
				n.Inputs = slices.Clone(n.Inputs)
				n.Inputs[slot] = v
			}
		}
	}
}
