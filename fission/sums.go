package fission

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// continued is an operator that adds its result to a sum so far, and so goes on where the part before
// ended, with the bits of the whole and without memory for a result of its own.
type continued struct {
	// matrices says that this is so of products of two matrices alone, not of stacks.
	matrices bool
	// into rewrites a node so that it adds to the value.
	into func(n *graph.Node, sum graph.ValueID)
}

// intoGemm makes a product a Gemm whose C is the sum so far.
func intoGemm(n *graph.Node, sum graph.ValueID) {
	attrs := []graph.Attr{}
	for _, name := range []string{"alpha", "transA", "transB"} {
		if a := n.Attr(name); a != nil {
			attrs = append(attrs, *a)
		}
	}
	n.Op, n.Domain, n.Kind, n.Attrs = "Gemm", "", op.Gemm, attrs
	n.Inputs = []graph.ValueID{n.Input(0), n.Input(1), sum}
}

// continuedBy returns how a node of a graph continues a sum; nil where it does not.
func continuedBy(n *graph.Node, dims func(graph.ValueID) []int64) *continued {
	c := rows[n.Kind].continued
	if c == nil || c.matrices && (len(dims(n.Input(0))) != 2 || len(dims(n.Input(1))) != 2) {
		return nil
	}
	return c
}

// rejectSum says why an output that is whole cannot be made of what parts give; "" where it can.
func (f *finder) rejectSum(n *graph.Node, a *along, slot int) string {
	switch {
	case a.reduce == op.MeanOf && (meanOf(n) == nil || slot != 0):
		return "takes a mean over the parts"
	case a.reduce != op.MeanOf && a.reduce != op.SumOf:
		return "has an output that is none of the parts' together"
	case len(a.once) > 0 && (continuedBy(n, f.dimsOf) == nil || !slices.Equal(a.once, []int{2})):
		return "has an input that one part alone may have"
	}
	return ""
}
