package envelope

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// parting has the conditions that make operands of a node parts of another one (live.Slices).
type parting struct {
	apart  bool    // no operand is one, for the same answers to the doubts
	doubts []doubt // that settle which are
	places []doubt // doubts that, besides, settle the first byte of each
}

// partings finds out for every node with Cuts or Joins the conditions of its parts at bindings; others,
// and those without sizes, have nil.
func (s *Sizes) partings(sizes *live.Sizes, env symbolic.Env) []*parting {
	list := make([]*parting, len(s.graph.Nodes))
	for i, n := range s.graph.Nodes {
		info := op.Of(n.Kind)
		whole, parts := n.Input(0), n.Outputs
		if info.Joins != nil {
			whole, parts = n.Output(0), n.Inputs
		} else if info.Cuts == nil {
			continue
		}
		if whole == graph.NoValue || sizes.Bytes[whole] <= 0 {
			continue // that a size is positive is asked elsewhere
		}
		list[i] = s.partingOf(n, whole, parts, env)
	}
	return list
}

// partingOf is that of a node with a whole and parts of it.
func (s *Sizes) partingOf(n *graph.Node, whole graph.ValueID, parts []graph.ValueID, env symbolic.Env) *parting {
	p := &parting{}
	for _, d := range s.openDims(whole, parts) {
		p.places = append(p.places, fixedNumber{d})
	}
	if len(p.places) == 0 {
		return p // all are numbers
	}
	at, known := op.PlacesOf(s.graph, n, env)
	if !known {
		p.doubts = p.places
		return p
	}
	for _, e := range at.Equal {
		p.doubts = append(p.doubts, question{of: e, equal: true})
	}
	if at.At == nil {
		p.apart = true
		return p
	}
	for _, e := range at.Least {
		if n, err := e.Eval(env); err != nil || n < 0 {
			p.doubts = p.places
			return p
		}
		p.doubts = append(p.doubts, question{of: e})
	}
	bits := s.graph.Values[whole].Type.DType.Bits()
	if bits%8 != 0 { // parts need not begin with a byte
		return &parting{apart: true}
	}
	width := symbolic.Const(int64(bits) / 8)
	for i, e := range at.At {
		if v := parts[i]; v != graph.NoValue && s.class[v] != none {
			p.doubts = append(p.doubts, s.beginsAligned(v, e.Mul(width))...)
		}
	}
	return p
}

// beginsAligned are the doubts whether a part of a whole is as large as the alignment, and begins at a
// multiple of it.
func (s *Sizes) beginsAligned(part graph.ValueID, at symbolic.Expr) []doubt {
	large := question{of: s.bytes[s.class[part]].Sub(symbolic.Const(live.PartAlignment))}
	if _, constant := at.Mod(symbolic.Const(live.PartAlignment)).Const(); constant {
		return []doubt{large}
	}
	return []doubt{large, fixedNumber{at}}
}

// openDims are the dims of a whole and of its parts that are no numbers.
func (s *Sizes) openDims(whole graph.ValueID, parts []graph.ValueID) (list []symbolic.Expr) {
	for i := -1; i < len(parts); i++ {
		v := whole
		if i >= 0 {
			v = parts[i]
		}
		if v == graph.NoValue {
			continue
		}
		for _, e := range s.graph.Values[v].Type.Shape.Dims {
			if _, ok := e.Const(); !ok && e.IsKnown() {
				list = append(list, e)
			}
		}
	}
	return list
}

// fixedNumber is the doubt whether an expression has one value.
type fixedNumber struct{ of symbolic.Expr }

func (f fixedNumber) open(r *region) (question, bool) {
	e := f.of.Bind(r.fixed)
	if _, constant := e.Const(); constant {
		return question{}, false
	}
	if n, err := e.Eval(r.low); err == nil {
		e = e.Sub(symbolic.Const(n)) // no edge of the box is better than another, but one value ends there
	}
	return question{e, true}, true
}

func (f fixedNumber) bind(env symbolic.Env) doubt { return fixedNumber{f.of.Bind(env)} }
