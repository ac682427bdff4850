package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Pieces is a node with numeric dims: the argument of the rules for operands that are runs of
// consecutive elements of another operand (Info.Cuts, Info.Joins), and for the division of its work
// (Info.Factors).
type Pieces struct {
	Graph *graph.Graph
	Node  *graph.Node
	// Version is the node's schema version, which only Factors asks for.
	Version int
	// Dims returns the dims of a value, nil where they are not known.
	Dims func(graph.ValueID) []int64
}

// notPart stands for an operand that is no run of consecutive elements.
const notPart = -1

// maxCutAxes is more axes than a Slice has.
const maxCutAxes = 64

// splitCuts: parts along an axis lie one behind the other if all dims before it are 1.
func splitCuts(p *Pieces) []int64 { return p.along(0, p.Node.Input(0), p.Node.Outputs) }

// concatJoins: as splitCuts. The attribute has had no default since version 4.
func concatJoins(p *Pieces) []int64 {
	if p.Node.Attr("axis") == nil {
		return nil
	}
	return p.along(0, p.Node.Output(0), p.Node.Inputs)
}

// concatTrainingJoins: the axis is 0 by default.
func concatTrainingJoins(p *Pieces) []int64 { return p.along(0, p.Node.Output(0), p.Node.Inputs) }

// along returns the first element of each part of a whole along the axis of the attribute. Behind a
// part that is left out, or of unknown length, the element is unknown.
func (p *Pieces) along(preset int64, whole graph.ValueID, parts []graph.ValueID) []int64 {
	dims := p.dims(whole)
	axis := p.Node.Int("axis", preset)
	if axis < 0 {
		axis += int64(len(dims))
	}
	if axis < 0 || axis >= int64(len(dims)) || elements(dims[:axis]) != 1 {
		return nil
	}
	inner, at := elements(dims[axis+1:]), int64(0)
	starts := slices.Repeat([]int64{notPart}, len(parts))
	for i, v := range parts {
		d := p.dims(v)
		if len(d) != len(dims) || d[axis] > dims[axis]-at {
			break
		}
		starts[i] = at * inner
		at += d[axis]
	}
	return starts
}

func (p *Pieces) dims(v graph.ValueID) []int64 {
	if v == graph.NoValue {
		return nil
	}
	return p.Dims(v)
}

// sliceCuts: a part is one run if, from the outermost axis on, it takes one element of each up to
// some axis, a range of that, and all of those behind.
func sliceCuts(p *Pieces) []int64 {
	x, y := p.dims(p.Node.Input(0)), p.dims(p.Node.Output(0))
	if len(x) == 0 || len(y) != len(x) {
		return nil
	}
	first, ok := p.firsts(x, y)
	if !ok {
		return nil
	}
	at, one := int64(0), true
	for i, d := range x {
		if !one && y[i] != d {
			return nil
		}
		one = one && y[i] == 1
		at = at*d + first[i]
	}
	return []int64{at}
}

// firsts returns the first index that a Slice takes of every axis; ok is false if the file does not
// state it, or if neighbours in the result are not neighbours in the input.
func (p *Pieces) firsts(x, y []int64) (first []int64, ok bool) {
	starts, axes, steps, ok := p.bounds()
	if !ok || axes != nil && len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		return nil, false
	}
	first = make([]int64, len(x))
	for i, start := range starts {
		axis := int64(i)
		if axes != nil {
			axis = axes[i]
		}
		if axis < 0 {
			axis += int64(len(x))
		}
		if axis < 0 || axis >= int64(len(x)) || steps != nil && steps[i] != 1 {
			return nil, false
		}
		if start < 0 {
			start += x[axis]
		}
		start = min(max(start, 0), x[axis])
		if y[axis] > x[axis]-start {
			return nil, false
		}
		first[axis] = start
	}
	return first, true
}

// bounds returns the starts, axes and steps of a Slice, the last two nil where they are left out.
func (p *Pieces) bounds() (starts, axes, steps []int64, ok bool) {
	n := p.Node
	if len(n.Inputs) == 1 { // before version 10
		return n.IntList("starts", nil), n.IntList("axes", nil), nil, true
	}
	lists := [3][]int64{}
	for i, slot := range [...]int{1, 3, 4} {
		v := n.Input(slot)
		if v == graph.NoValue {
			continue
		}
		data := Contents(p.Graph, v)
		if data == nil {
			return nil, nil, nil, false
		}
		if count, err := data.Elements(); err != nil || count > maxCutAxes {
			return nil, nil, nil, false
		}
		list, err := data.Int64s()
		if err != nil {
			return nil, nil, nil, false
		}
		lists[i] = list
	}
	return lists[0], lists[1], lists[2], true
}

// elements multiplies dims of a value whose size fits int64.
func elements(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// Places says where parts begin as expressions, for all bindings that give the same answers to some
// questions.
type Places struct {
	// Equal are differences that are 0, or are not, and Least are expressions that are at least 0.
	Equal, Least []symbolic.Expr
	// At is the element of the whole at the beginning of each part, by output or input as in
	// Info.Cuts and Info.Joins; nil if the operands are not parts.
	At []symbolic.Expr
}

// PlacesOf returns the places of a node's parts at bindings, as its Cuts or Joins has them in numbers.
// ok is false where they are not known as expressions.
func PlacesOf(g *graph.Graph, n *graph.Node, env symbolic.Env) (p Places, ok bool) {
	whole, parts := n.Input(0), n.Outputs
	if Of(n.Kind).Joins != nil {
		whole, parts = n.Output(0), n.Inputs
	}
	if whole == graph.NoValue || !g.Values[whole].Type.Shape.Ranked {
		return p, true
	}
	dims := g.Values[whole].Type.Shape.Dims
	if n.Kind == Slice {
		return placeOfSlice(g, n, dims, env)
	}
	return placesOfRow(g, n, dims, parts, env)
}

// placesOfRow are those of parts along an axis: they are runs where all dims before it are 1.
func placesOfRow(g *graph.Graph, n *graph.Node, dims []symbolic.Expr, parts []graph.ValueID,
	env symbolic.Env) (p Places, ok bool) {
	axis := n.Int("axis", 0)
	if axis < 0 {
		axis += int64(len(dims))
	}
	if axis < 0 || axis >= int64(len(dims)) {
		return p, true
	}
	for _, d := range dims[:axis] {
		if apart := p.asks(d.Sub(symbolic.Const(1)), env); apart {
			return p, true
		}
	}
	inner, at := product(dims[axis+1:]), symbolic.Const(0)
	for _, v := range parts {
		p.At = append(p.At, at.Mul(inner))
		if v == graph.NoValue || len(g.Values[v].Type.Shape.Dims) != len(dims) {
			return p, false
		}
		at = at.Add(g.Values[v].Type.Shape.Dims[axis])
	}
	return p, true
}

// placeOfSlice is that of a range along one axis behind axes of length 1.
func placeOfSlice(g *graph.Graph, n *graph.Node, x []symbolic.Expr, env symbolic.Env) (p Places, ok bool) {
	if n.Output(0) == graph.NoValue {
		return p, true
	}
	y := g.Values[n.Output(0)].Type.Shape.Dims
	starts, axes, _, known := (&Pieces{Graph: g, Node: n}).bounds()
	if !known || len(y) != len(x) || len(x) == 0 {
		return p, true
	}
	along := 0
	for along < len(x)-1 && x[along].IsConst(1) {
		along++
	}
	if one, err := y[along].Eval(env); err != nil || one == 1 && along < len(x)-1 && !y[along].IsConst(1) {
		return p, false
	}
	for i := along + 1; i < len(x); i++ {
		if apart := p.asks(y[i].Sub(x[i]), env); apart {
			p.asks(y[along].Sub(symbolic.Const(1)), env)
			return p, !y[along].IsConst(1)
		}
	}
	start := symbolic.Const(0)
	for i, at := range starts {
		axis := int64(i)
		if i < len(axes) {
			axis = axes[i]
		}
		if axis < 0 {
			axis += int64(len(x))
		}
		if axis != int64(along) {
			continue
		}
		if start = symbolic.Const(at); at < 0 {
			start = start.Add(x[along])
		}
		p.Least = append(p.Least, start, x[along].Sub(start).Sub(y[along]))
	}
	p.At = []symbolic.Expr{start.Mul(product(x[along+1:]))}
	return p, true
}

// asks notes that it matters whether an expression is 0, and reports whether it is not at bindings.
func (p *Places) asks(e symbolic.Expr, env symbolic.Env) (differs bool) {
	if !e.IsConst(0) {
		p.Equal = append(p.Equal, e)
	}
	n, err := e.Eval(env)
	return err != nil || n != 0
}
