package envelope

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// partDoubts are those about which operands are parts of others, and at which byte (live.Slices). An
// operand is no run of consecutive elements of another one if it has another length along some
// axis, and more than one element along an axis before that: then nothing else matters. Otherwise
// all dims of the node's operands do, as numbers.
func (s *Sizes) partDoubts(sizes *live.Sizes, env symbolic.Env) (list []doubt) {
	asked := map[string]bool{}
	add := func(e symbolic.Expr, equal bool) {
		if text := e.String(); !asked[text] {
			asked[text] = true
			list = append(list, question{of: e, equal: equal})
		}
	}
	for _, n := range s.graph.Nodes {
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
		d := &partDims{env: env, whole: s.graph.Values[whole].Type.Shape.Dims}
		if d.constant(s.graph, parts) {
			continue
		}
		var questions []symbolic.Expr
		apart := true
		for _, v := range parts {
			if v == graph.NoValue {
				continue
			}
			q, ok := d.apart(s.graph.Values[v].Type.Shape.Dims)
			questions, apart = append(questions, q...), apart && ok
		}
		if apart {
			for _, q := range questions {
				add(q, true)
			}
			continue
		}
		for _, e := range d.all {
			list = append(list, fixedNumber{e})
		}
	}
	return list
}

// partDims compares the dims of parts with those of the whole.
type partDims struct {
	env   symbolic.Env
	whole []symbolic.Expr
	all   []symbolic.Expr // of the whole and of all parts: those that are no numbers
}

// constant reports whether all dims are numbers, and otherwise notes which are not.
func (d *partDims) constant(g *graph.Graph, parts []graph.ValueID) bool {
	note := func(dims []symbolic.Expr) {
		for _, e := range dims {
			if _, ok := e.Const(); !ok && e.IsKnown() {
				d.all = append(d.all, e)
			}
		}
	}
	note(d.whole)
	for _, v := range parts {
		if v != graph.NoValue {
			note(g.Values[v].Type.Shape.Dims)
		}
	}
	return len(d.all) == 0
}

// apart returns what makes a part no run of consecutive elements at the bindings: the difference of
// two lengths, and the length before it that is not 1.
func (d *partDims) apart(part []symbolic.Expr) ([]symbolic.Expr, bool) {
	if len(part) != len(d.whole) {
		return nil, true // then nothing is a part
	}
	long := -1 // the first axis of more than one element
	for i, e := range part {
		n, err := e.Eval(d.env)
		w, err2 := d.whole[i].Eval(d.env)
		if err != nil || err2 != nil {
			return nil, true
		}
		if long >= 0 && n != w {
			return []symbolic.Expr{part[long].Sub(symbolic.Const(1)), e.Sub(d.whole[i])}, true
		}
		if n != 1 && long < 0 {
			long = i
		}
	}
	return nil, false
}

// fixedNumber is the doubt whether an expression has one value.
type fixedNumber struct{ of symbolic.Expr }

func (f fixedNumber) open(box Box, fixed symbolic.Env) (question, bool) {
	e := f.of.Bind(fixed)
	if _, constant := e.Const(); constant {
		return question{}, false
	}
	if n, err := e.Eval(box.Low()); err == nil {
		e = e.Sub(symbolic.Const(n)) // no edge of the box is better than another, but one value ends there
	}
	return question{e, true}, true
}

func (f fixedNumber) bind(env symbolic.Env) doubt { return fixedNumber{f.of.Bind(env)} }
