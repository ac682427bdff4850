package optimize

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
	"memopt/symbolic"
)

// products has, by the last node, the rule that merges it into another operator, or another
// operator into it. A rule returns a description of its edit, or "".
var products = [op.NumKinds]func(s *site, n *graph.Node) (string, error){
	op.Add:  productOfSum,
	op.Gemm: transposedOperands,
	op.Conv: paddedConvolution,
}

// fuseProducts applies the table.
func fuseProducts(s *site) error {
	var err error
	s.Nodes(func(n *graph.Node) {
		if err != nil || products[n.Kind] == nil || !known(n) {
			return
		}
		var what string
		if what, err = products[n.Kind](s, n); what != "" {
			s.did(what)
		}
	})
	return err
}

// gemmSince is the first version of Gemm that broadcasts its bias as other operators do.
const gemmSince = 7

// matrixProducts has the operators that multiply matrices of rank 2 as Gemm does.
var matrixProducts = [op.NumKinds]bool{op.MatMul: true}

// productOfSum makes a Gemm of a product of two matrices and a sum that does not stretch it.
func productOfSum(s *site, n *graph.Node) (string, error) {
	if s.run.m.OpsetVersion("") < gemmSince {
		return "", nil
	}
	for slot := range 2 {
		sum, bias := n.Input(slot), n.Input(1-slot)
		product := s.Maker(sum)
		if product == nil || !matrixProducts[product.Kind] || !known(product) || s.Gone(product) || !s.Only(sum, n) {
			continue
		}
		a, b, t := s.typeOf(product.Input(0)), s.typeOf(product.Input(1)), s.typeOf(sum)
		if a.Shape.Rank() != 2 || b.Shape.Rank() != 2 || t.DType != graph.Float32 && t.DType != graph.Float64 ||
			!s.sameType(sum, n.Output(0)) || !stretches(s.typeOf(bias), t.Shape) {
			continue
		}
		out := n.Output(0)
		s.Remove(n)
		s.Remove(product)
		return "MatMul and Add to Gemm", s.Add(&graph.Node{Name: n.Name, Op: "Gemm",
			Inputs: []graph.ValueID{product.Input(0), product.Input(1), bias}, Outputs: []graph.ValueID{out}}, n)
	}
	return "", nil
}

// stretches reports whether a tensor of the same element type is broadcast to a matrix that it does
// not make larger.
func stretches(t graph.Type, to graph.Shape) bool {
	if !t.Shape.Ranked || len(t.Shape.Dims) > len(to.Dims) {
		return false
	}
	for i, d := range t.Shape.Dims {
		if !d.Equal(symbolic.Const(1)) && !d.Equal(to.Dims[len(to.Dims)-len(t.Shape.Dims)+i]) {
			return false
		}
	}
	return true
}

// transposedOperands takes the transposes of a Gemm's factors into its attributes.
func transposedOperands(s *site, n *graph.Node) (string, error) {
	what := ""
	for slot, attr := range []string{"transA", "transB"} {
		in := n.Input(slot)
		t := s.Maker(in)
		if t == nil || !op.Of(t.Kind).Has(op.TransposeRole) || !known(t) || s.Gone(t) || !s.Only(in, n) ||
			s.typeOf(in).Shape.Rank() != 2 || !slices.Equal(permOf(t, 2), []int{1, 0}) {
			continue
		}
		n.SetAttr(attr, 1-n.Int(attr, 0))
		s.SetInput(n, slot, t.Input(0))
		s.Remove(t)
		what = "Transpose into Gemm"
	}
	return what, nil
}

// pads has the operators that pad.
var pads = [op.NumKinds]bool{op.Pad: true}

// paddedConvolution takes a padding with zeros in front of a convolution into it.
func paddedConvolution(s *site, n *graph.Node) (string, error) {
	in := n.Input(0)
	p := s.Maker(in)
	if p == nil || !pads[p.Kind] || !known(p) || s.Gone(p) || !s.Only(in, n) || !s.padsZeros(p) {
		return "", nil
	}
	rank := s.typeOf(in).Shape.Rank()
	list, given, ok := s.argument(p, "pads", 1)
	if !ok || !given || rank < 3 || len(list) != 2*rank || p.Input(3) != graph.NoValue {
		return "", nil
	}
	if auto := n.Str("auto_pad", "NOTSET"); auto != "NOTSET" && auto != "VALID" {
		return "", nil
	}
	begins, ends := list[:rank], list[rank:]
	if !zeros(begins[:2]) || !zeros(ends[:2]) || slices.Min(list) < 0 {
		return "", nil
	}
	sum := slices.Concat(begins[2:], ends[2:])
	for i, own := range n.IntList("pads", nil) {
		if i < len(sum) && n.Str("auto_pad", "NOTSET") == "NOTSET" {
			sum[i] += own
		}
	}
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a graph.Attr) bool { return a.Name == "auto_pad" })
	n.SetAttr("pads", sum)
	s.SetInput(n, 0, p.Input(0))
	s.Remove(p)
	return "Pad into Conv", nil
}

// padsZeros reports whether a Pad adds zeros.
func (s *site) padsZeros(p *graph.Node) bool {
	if p.Str("mode", "constant") != "constant" || p.Float("value", 0) != 0 {
		return false
	}
	v := p.Input(2)
	if v == graph.NoValue {
		return true
	}
	x, ok := pattern.Number(s.G, v)
	return ok && x == 0
}
