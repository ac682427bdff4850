package chunk

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// mean is an operator that divides by the number of labels that take part. In parts, a loss gives each
// label's loss, and the mean is taken over all of them, in the order of the whole; a gradient is that of
// a sum, with its incoming gradient divided before. Slots of inputs are those of the operator; ignore is
// -1 if the ignored label is an attribute.
type mean struct {
	gradient                bool
	labels, weights, ignore int
}

// meanOf returns the mean that a node takes, or nil.
func meanOf(n *graph.Node) *mean {
	m := rows[n.Kind].mean
	if m == nil || n.Str("reduction", "mean") != "mean" {
		return nil
	}
	return m
}

// inParts returns the node in whose form a node's factors are: the gradient of a mean has those of a
// sum's.
func inParts(n *graph.Node) *graph.Node {
	m := meanOf(n)
	if m == nil || !m.gradient {
		return n
	}
	return withReduction(n, "sum")
}

func withReduction(n *graph.Node, how string) *graph.Node {
	c := *n
	c.Attrs = slices.Clone(n.Attrs)
	c.SetAttr("reduction", how)
	return &c
}

// joined reports whether a node is a loss reduced from the losses of all labels at the end: their mean,
// or their sum, which so has the bits of the whole.
func (f *finder) joined(n *graph.Node, a *along) bool {
	m := rows[n.Kind].mean
	if m == nil || m.gradient {
		return false
	}
	return a.reduce == op.MeanOf || a.reduce == op.SumOf && f.joins(n)
}

// joins reports whether losses of labels can be put together without being rounded before.
func (f *finder) joins(n *graph.Node) bool {
	d := f.g.Values[n.Input(0)].Type.DType
	return graph.OpsetVersion(f.opsets, "") >= lossOpset && (d == graph.Float32 || d == graph.Float64)
}

// lossOpset is the first operator set with NegativeLogLikelihoodLoss.
const lossOpset = 12

// rejectMean returns why a node that takes a mean cannot do so in parts, or "".
func (f *finder) rejectMean(n *graph.Node) string {
	m := meanOf(n)
	if m == nil {
		return ""
	}
	if graph.OpsetVersion(f.opsets, "") < lossOpset {
		return "takes a mean, but the operator set lacks NegativeLogLikelihoodLoss for it"
	}
	if n.Input(m.weights) != graph.NoValue {
		return "weighs classes: its mean does not divide by a number of labels"
	}
	if d := f.g.Values[n.Input(0)].Type.DType; d != graph.Float32 && d != graph.Float64 {
		return "takes a mean in " + d.String() + ", which a quotient in parts would round"
	}
	if _, _, known := f.ignored(n, m); !known {
		return "ignores a label that is not known before the run"
	}
	return ""
}

// ignored returns the label that a node ignores, if any.
func (f *finder) ignored(n *graph.Node, m *mean) (label int64, any, known bool) {
	if m.ignore < 0 {
		return n.Int("ignore_index", 0), n.Attr("ignore_index") != nil, true
	}
	v := n.Input(m.ignore)
	if v == graph.NoValue {
		return 0, false, true
	}
	data := op.Contents(f.g, v)
	if data == nil {
		return 0, false, false
	}
	list, err := data.Int64s()
	if err != nil || len(list) != 1 {
		return 0, false, false
	}
	return list[0], true, true
}
