package chunk

import (
	"encoding/binary"
	"math"

	"memopt/graph"
)

// skippedClass stands for ignored labels where a mean is taken.
const skippedClass = -1

// joinLosses makes the loss of the losses of all labels, by the operator that takes means and sums of
// labels' losses: in the order of the whole, and with the same labels left out.
func (e *emitter) joinLosses(n *graph.Node, a *along, v graph.ValueID) {
	m := rows[n.Kind].mean
	name := e.g.Values[v].Name
	e.part = len(e.starts) - 2
	labels := n.Input(m.labels)
	count := product(e.dims[labels])
	at, dims := a.in[m.labels], e.dims[labels] // parts lie as those of the labels do
	if at.merge {
		dims = e.mergedDims(dims, at)
	}
	rows := e.flat(e.node(name+"_rows", "Concat", []graph.Attr{{Name: "axis", Value: int64(at.dim)}}, dims,
		e.parted[v]...))
	neg := e.node(name+"_scores", "Neg", nil, []int64{count}, rows)
	scores := e.node(name+"_matrix", "Reshape", nil, []int64{count, 1}, neg, e.vector([]int64{-1, 1}))
	flat := e.flat(labels)
	attrs := []graph.Attr{{Name: "reduction", Value: n.Str("reduction", "mean")}}
	zero := e.number64(0, labels)
	classes := graph.NoValue
	if label, any, _ := e.ignored(n, m); any {
		// Not the ignored label itself, which may be 0, the class of all others here.
		attrs = append(attrs, graph.Attr{Name: "ignore_index", Value: int64(skippedClass)})
		skipped := e.node(name+"_skipped", "Equal", nil, []int64{count}, flat, e.number64(label, labels))
		classes = e.node(name+"_classes", "Where", nil, []int64{count}, skipped, e.number64(skippedClass, labels), zero)
	} else {
		classes = e.node(name+"_classes", "Mul", nil, []int64{count}, flat, zero)
	}
	e.nodeInto(v, "NegativeLogLikelihoodLoss", attrs, scores, classes)
}

// flat gives a value one dim.
func (e *emitter) flat(v graph.ValueID) graph.ValueID {
	if len(e.dims[v]) == 1 {
		return v
	}
	return e.node(e.g.Values[v].Name+"_flat", "Reshape", nil, nil, v, e.vector([]int64{-1}))
}

// number64 is a constant scalar of the type of a value of integers.
func (w *writer) number64(n int64, like graph.ValueID) graph.ValueID {
	if w.g.Values[like].Type.DType == graph.Int32 {
		raw := binary.LittleEndian.AppendUint32(nil, uint32(int32(n)))
		return w.constant(&graph.TensorData{DType: graph.Int32, Dims: []int64{}, Source: graph.Raw(raw)}, []int64{})
	}
	return w.constant(graph.Int64Tensor("", []int64{}, n), []int64{})
}

// dividedGradient is the gradient of a mean divided by the number of labels that take part, computed
// as the operator computes it for each label: in float64, then rounded.
func (e *emitter) dividedGradient(n *graph.Node, m *mean) graph.ValueID {
	if v, ok := e.divided[n.Output(0)]; ok {
		return v
	}
	dy, labels := n.Input(0), n.Input(m.labels)
	name := e.g.Values[n.Output(0)].Name
	count := graph.NoValue
	if label, any, _ := e.ignored(n, m); any {
		d := e.dims[labels]
		skipped := e.node(name+"_skipped", "Equal", nil, d, labels, e.number64(label, labels))
		kept := e.node(name+"_kept", "Not", nil, d, skipped)
		numbers := e.node(name+"_numbers", "Cast", to(graph.Float64), d, kept)
		count = e.node(name+"_labels", "ReduceSum", []graph.Attr{{Name: "keepdims", Value: int64(0)}},
			[]int64{}, numbers)
	} else {
		raw := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(product(e.dims[labels]))))
		count = e.constant(&graph.TensorData{DType: graph.Float64, Dims: []int64{}, Source: graph.Raw(raw)}, []int64{})
	}
	wide := e.node(name+"_wide", "Cast", to(graph.Float64), e.dims[dy], dy)
	quotient := e.node(name+"_quotient", "Div", nil, e.dims[dy], wide, count)
	v := e.node(name+"_scaled", "Cast", to(e.g.Values[dy].Type.DType), e.dims[dy], quotient)
	e.divided[n.Output(0)] = v
	return v
}

func to(d graph.DType) []graph.Attr { return []graph.Attr{{Name: "to", Value: int64(d)}} }
