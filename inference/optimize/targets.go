package optimize

import (
	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// targets has the operators whose input 1 is the shape to come to.
var targets = [op.NumKinds]bool{op.Reshape: true}

// settleTargets makes constants of the targets of reshapes that depend on symbols: a dim that is the
// input's at the same place is 0, which stands for it, and one other may be -1, which stands for the
// rest. Nodes that compute the target are left without a reader.
func settleTargets(s *site) error {
	var err error
	s.Nodes(func(n *graph.Node) {
		if err != nil || !targets[n.Kind] || !known(n) || n.Int("allowzero", 0) != 0 {
			return
		}
		target := n.Input(1)
		if target == graph.NoValue || s.Maker(target) == nil {
			return
		}
		elems, ok := s.Types.Contents(target)
		if !ok {
			return
		}
		dims, ok := s.settled(elems, s.typeOf(n.Input(0)).Shape)
		if !ok {
			return
		}
		name := s.label(n) + "/shape"
		var v graph.ValueID
		t := graph.Int64Tensor(name, []int64{int64(len(dims))}, dims...)
		if v, err = s.Constant(t, graph.NoValue); err == nil {
			s.SetInput(n, 1, v)
			s.did(n.Op)
		}
	})
	return err
}

// settled writes a target as numbers.
func (s *site) settled(elems []symbolic.Expr, from graph.Shape) ([]int64, bool) {
	dims := make([]int64, len(elems))
	rest, copied := 0, 0
	for i, e := range elems {
		switch n, fixed := e.Const(); {
		case fixed && n == -1:
			dims[i] = -1
			rest++
		case fixed && n < 1:
			return nil, false // a 0 copies a dim as it is
		case fixed:
			dims[i] = n
		case from.Ranked && i < len(from.Dims) && s.decided(e) && e.Equal(from.Dims[i]):
			copied++
		case s.decided(e):
			dims[i] = -1
			rest++
		default:
			return nil, false
		}
	}
	// If a copied dim may be 0 in a run, -1 is ambiguous.
	return dims, rest == 0 || rest == 1 && copied == 0
}

// decided reports whether an expression is one of symbols that the callers of the model decide on by
// their inputs.
func (s *site) decided(e symbolic.Expr) bool {
	if !e.IsKnown() {
		return false
	}
	if s.symbols == nil {
		s.symbols = map[string]bool{}
		for _, d := range s.G.Inputs {
			for _, dim := range d.Type.Shape.Dims {
				dim.VisitSymbols(func(name string) { s.symbols[name] = true })
			}
		}
	}
	ok := true
	e.VisitSymbols(func(name string) { ok = ok && s.symbols[name] })
	return ok
}
