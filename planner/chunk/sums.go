package chunk

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// continued is an operator that adds its result to a sum so far, and so goes on where the part before
// ended, with the bits of the whole and without memory for a result of its own.
type continued struct {
	// stacks is the operator that does so for stacks of matrices, and attrs are its attributes, all
	// required by its definition, with the values that the product has without them. Gemm is for two
	// matrices.
	stacks graph.Kind
	attrs  []graph.Attr
}

// intoGemm makes a product of two matrices a Gemm whose C is the sum so far.
func intoGemm(n *graph.Node, sum graph.ValueID) {
	attrs := []graph.Attr{}
	for _, name := range []string{"alpha", "transA", "transB"} {
		if a := n.Attr(name); a != nil {
			attrs = append(attrs, *a)
		}
	}
	adding(n, op.Gemm, attrs, sum)
}

// adding makes a product an operator of a kind that adds it to a sum.
func adding(n *graph.Node, k graph.Kind, attrs []graph.Attr, sum graph.ValueID) {
	info := op.Of(k)
	n.Op, n.Domain, n.Kind, n.Version, n.Attrs = info.Name, info.Domain, k, 0, attrs
	n.Inputs = []graph.ValueID{n.Input(0), n.Input(1), sum}
}

// goOn rewrites a part of a node so that it adds to the sum so far.
func (f *finder) goOn(n, part *graph.Node, sum graph.ValueID) {
	if f.isProduct(n) {
		intoGemm(part, sum)
		return
	}
	c := rows[n.Kind].continued
	attrs := slices.Clone(c.attrs)
	for i := range attrs {
		if a := n.Attr(attrs[i].Name); a != nil {
			attrs[i] = *a
		}
	}
	adding(part, c.stacks, attrs, sum)
}

// isProduct reports whether a node multiplies two matrices.
func (f *finder) isProduct(n *graph.Node) bool {
	return len(f.dimsOf(n.Input(0))) == 2 && len(f.dimsOf(n.Input(1))) == 2
}

// goesOn reports whether parts of a node can add to a sum.
func (f *finder) goesOn(n *graph.Node) bool {
	c := rows[n.Kind].continued
	if c == nil {
		return false
	}
	return f.isProduct(n) || c.stacks != op.Unknown && f.defines && f.g.Values[n.Output(0)].Type.DType.IsFloat()
}

// narrow reports whether a node rounds its outputs to fewer bits than it computes with: parts are
// rounded before their reduction, the whole afterwards.
func (f *finder) narrow(n *graph.Node) bool {
	return slices.ContainsFunc(n.Outputs, func(v graph.ValueID) bool {
		if v == graph.NoValue {
			return false
		}
		t := f.g.Values[v].Type.DType
		return t.IsFloat() && t.Bits() < 32
	})
}

// rejectSum returns why a whole output cannot be reduced from parts, or "".
func (f *finder) rejectSum(n *graph.Node, a *along, slot int) string {
	switch {
	case a.reduce == op.MeanOf && (meanOf(n) == nil || slot != 0):
		return "takes a mean over the parts"
	case a.reduce != op.MeanOf && a.reduce != op.SumOf:
		return "has an output that is not made of the parts' outputs"
	case len(a.once) > 0 && (!f.goesOn(n) || !slices.Equal(a.once, []int{2})):
		return "has an input that one part alone may have"
	}
	return ""
}
