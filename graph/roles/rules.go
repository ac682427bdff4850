package roles

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// finder tells roles by the nodes that read a tensor.
type finder struct {
	g    *graph.Graph
	uses map[*graph.Graph]*graph.Uses
	seen map[place]verdict // of values that nodes make, and of those of subgraphs
}

// place is a value of a graph, the main one or one inside it.
type place struct {
	g *graph.Graph
	v graph.ValueID
}

// verdict is the common answer of all readers of a value.
type verdict struct {
	weight  bool // one takes it for a weight
	neutral bool // one reader has no answer
	angle   bool // one takes its sine or cosine
	fixed   Role // the role of an operand of this kind; None if it has no role
}

func (a verdict) and(b verdict) verdict {
	out := verdict{a.weight || b.weight, a.neutral || b.neutral, a.angle || b.angle, a.fixed}
	if out.fixed.Kind == None {
		out.fixed = b.fixed
	}
	return out
}

func newFinder(g *graph.Graph) *finder {
	return &finder{g: g, uses: map[*graph.Graph]*graph.Uses{}, seen: map[place]verdict{}}
}

// singleNumber is the role of a tensor of one element that no reader takes for a weight.
var singleNumber = constant("a single number")

// role is the role of an initializer by rules.
func (f *finder) role(v graph.ValueID) Role {
	role := f.operand(v)
	if role.Kind != Parameter {
		return role
	}
	t := f.g.Values[v].Data
	if isAngles(t) {
		return constant("a table of sines and cosines")
	}
	n, err := t.Elements()
	if err == nil && n == 1 && !f.readers(place{f.g, v}, nil).weight {
		return singleNumber
	}
	return role
}

// operand is the role of a value by the nodes that read it: a parameter unless all say otherwise.
func (f *finder) operand(v graph.ValueID) Role {
	all := f.readers(place{f.g, v}, f.g.Values[v].Data)
	if all.fixed.Kind == None || all.weight || all.neutral || all.angle {
		return Role{Kind: Parameter}
	}
	return all.fixed
}

// readers asks the nodes that read a value for its role. t has its contents; nil where they are unknown.
func (f *finder) readers(at place, t *graph.TensorData) (out verdict) {
	if f.uses[at.g] == nil {
		f.uses[at.g] = graph.NewUses(at.g)
	}
	for _, use := range f.uses[at.g].Of(at.v) {
		out = out.and(f.use(at, use, t))
	}
	return out
}

// use is the answer of one reader.
func (f *finder) use(at place, use graph.Use, t *graph.TensorData) verdict {
	n, slot := at.g.Nodes[use.Node], int(use.Slot)
	if use.Slot == graph.Captured {
		return f.inside(at, n, t)
	}
	r := &table[n.Kind]
	fixed, isFixed := r.fixed[slot]
	switch {
	case isFixed:
		return verdict{fixed: fixed}
	case slices.Contains(r.through, slot) || len(r.through) > 1:
		return f.made(at.g, n, t)
	case r.angle:
		return verdict{angle: true}
	case slices.Contains(r.zeroStates, slot) && isZero(t):
		return verdict{fixed: constant("the initial state of a recurrence")}
	case r.choice && isMask(t):
		return verdict{fixed: constant("a mask")}
	case r.product && f.turns(at.g, n, slot):
		return verdict{fixed: constant("frequencies of an embedding of positions")}
	case slices.Contains(r.weights, slot), r.addend && f.isBias(at, n, slot):
		return verdict{weight: true}
	}
	return verdict{neutral: true}
}

// made is the answer of the readers of a node's outputs.
func (f *finder) made(g *graph.Graph, n *graph.Node, t *graph.TensorData) (out verdict) {
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		at := place{g, v}
		found, ok := f.seen[at]
		if !ok {
			f.seen[at] = verdict{}
			found = f.readers(at, t)
			if g.Values[v].Output {
				found.neutral = true
			}
			f.seen[at] = found
		}
		out = out.and(found)
	}
	return out
}

// inside is the answer of the nodes of a node's subgraphs for a value that they take from outside.
func (f *finder) inside(at place, n *graph.Node, t *graph.TensorData) (out verdict) {
	n.Subgraphs(func(_ string, sub *graph.Graph) {
		for i := range sub.Values {
			if sub.Values[i].Outer == at.v {
				out = out.and(f.readers(place{sub, graph.ValueID(i)}, t))
			}
		}
	})
	return out
}

// turns reports whether a node multiplies an operand by positions, and only sines and cosines are taken
// of the product.
func (f *finder) turns(g *graph.Graph, n *graph.Node, slot int) bool {
	if len(n.Inputs) != 2 || !isCounted(g, n.Inputs[1-slot]) {
		return false
	}
	all := f.made(g, n, nil)
	return all.angle && !all.weight && !all.neutral && all.fixed.Kind == None
}

// isCounted reports whether a value is made of integers.
func isCounted(g *graph.Graph, v graph.ValueID) bool {
	for v != graph.NoValue {
		val := &g.Values[v]
		if val.Type.DType.IsInteger() {
			return true
		}
		if val.Def == graph.NoNode {
			return false
		}
		n := g.Nodes[val.Def]
		if !slices.Contains(table[n.Kind].through, 0) {
			return false
		}
		v = n.Input(0)
	}
	return false
}

// isBias reports whether a node adds a vector to a product or a convolution that is as wide as the
// vector, so that it is not spread over the columns.
func (f *finder) isBias(at place, n *graph.Node, slot int) bool {
	shape := at.g.Values[at.v].Type.Shape.Dims
	other := n.Input(1 - slot)
	if len(shape) == 0 || other == graph.NoValue {
		return false
	}
	dims := at.g.Values[other].Type.Shape.Dims
	if len(dims) == 0 || !dims[len(dims)-1].Equal(shape[len(shape)-1]) {
		return false
	}
	for {
		val := &at.g.Values[other]
		if val.Def == graph.NoNode {
			return false
		}
		maker := at.g.Nodes[val.Def]
		switch r := &table[maker.Kind]; {
		case slices.Contains(r.weights, 1):
			return !op.Of(maker.Kind).Has(op.Norm)
		case !slices.Contains(r.through, 0):
			return false
		}
		other = maker.Input(0)
	}
}
