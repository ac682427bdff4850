package op

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Body is the result of inference for a subgraph.
type Body struct {
	Node   graph.NodeID // that holds it
	Attr   string       // the attribute's name
	Result *Result      // its IDs are the subgraph's own
}

// Walk calls f for a graph's result and for those of all bodies in it, at any depth. Conflicts
// inside bodies are found this way: their IDs belong to the graph that f is given.
func (r *Result) Walk(g *graph.Graph, f func(*graph.Graph, *Result)) {
	f(g, r)
	for _, b := range r.Bodies {
		b.Result.Walk(g.Nodes[b.Node].GraphAttr(b.Attr), f)
	}
}

// body is a subgraph on its way through inference.
type body struct {
	c     *Ctx
	attr  string
	g     *graph.Graph
	order graph.Order
	inf   *inference // of the latest run
}

// body returns the subgraph attribute, with an Errorf where it is missing or has no order.
func (c *Ctx) body(attr string) *body {
	g := c.Node.GraphAttr(attr)
	if g == nil {
		c.Errorf("lacks the attribute %q, a graph", attr)
		return nil
	}
	order, err := graph.Topological(g)
	if err != nil {
		c.Errorf("%s: %v", attr, err)
		return nil
	}
	return &body{c: c, attr: attr, g: g, order: order}
}

// wantCounts checks the numbers of the body's inputs and outputs.
func (b *body) wantCounts(inputs, outputs int) bool {
	if len(b.g.Inputs) != inputs {
		b.c.Errorf("%s has %d inputs, wanted %d", b.attr, len(b.g.Inputs), inputs)
	} else if len(b.g.Outputs) != outputs {
		b.c.Errorf("%s has %d outputs, wanted %d", b.attr, len(b.g.Outputs), outputs)
	}
	return !b.c.Failed()
}

// run infers the body with the given types and contents of its inputs. The error is that of the
// node inside which the types contradict.
func (b *body) run(inputs []graph.Type, contents [][]symbolic.Expr) error {
	if !b.c.inf.spend(len(b.order)) {
		return errTooManyRounds
	}
	b.inf = newInference(b.g, b.c.inf.opsets, b.c.inf)
	// The body's inputs are named by its own file text; only symbols that come from outside are
	// meaningful there.
	b.inf.inputs = b.c.inf.inputs
	for i, d := range b.g.Inputs {
		v := &b.g.Values[d.Value]
		stated, ok := b.foreign(d.Type), false
		if v.Type, ok = b.inf.merge(inputs[i], stated); !ok {
			v.Type = inputs[i]
			c := Conflict{Value: d.Value, Declared: stated, Inferred: inputs[i]}
			if c.Refuted() {
				b.inf.res.Conflicts = append(b.inf.res.Conflicts, c)
			}
		}
		if i < len(contents) && v.Type.Form == graph.FormTensor {
			b.inf.res.setContents(d.Value, contents[i])
		}
	}
	return b.inf.run(b.order)
}

// Loops in loops take several rounds each, which multiply. The work on bodies in all rounds
// together is bounded by about so many times the nodes of the file.
const (
	bodyRounds = 16
	bodyNodes  = 1 << 18
)

var errTooManyRounds = errors.New("the types in subgraphs within subgraphs do not settle in a reasonable time: they " +
	"change with every iteration at several levels")

// spend subtracts nodes of a body from the walk's allowance for bodies; false if the allowance is
// used up.
func (inf *inference) spend(nodes int) bool {
	if inf.purse == nil {
		inf.purse = newPurse(inf.g.Nodes...)
	}
	*inf.purse -= nodes
	return *inf.purse >= 0
}

func newPurse(nodes ...*graph.Node) *int {
	purse := bodyNodes + bodyRounds*countNodes(nodes)
	return &purse
}

// countNodes counts nodes and those in their subgraphs.
func countNodes(nodes []*graph.Node) int {
	total := len(nodes)
	for _, n := range nodes {
		n.Subgraphs(func(_ string, sub *graph.Graph) { total += countNodes(sub.Nodes) })
	}
	return total
}

// foreign returns a type that the body's text states without the symbols that are meaningless
// outside of it.
func (b *body) foreign(t graph.Type) graph.Type {
	return withoutSymbols(t, func(s string) bool { return b.c.inf.inputs[s] })
}

// withoutSymbols makes dims unknown that mention symbols other than the allowed ones.
func withoutSymbols(t graph.Type, allowed func(symbol string) bool) graph.Type {
	if t.Elem != nil {
		elem := withoutSymbols(*t.Elem, allowed)
		t.Elem = &elem
	}
	if !t.Shape.Ranked {
		return t
	}
	t.Shape = graph.Dims(append([]symbolic.Expr(nil), t.Shape.Dims...)...)
	for i, d := range t.Shape.Dims {
		for _, s := range d.Symbols() {
			if !allowed(s) {
				t.Shape.Dims[i] = symbolic.Unknown()
				break
			}
		}
	}
	return t
}

// outer says which symbols may leave the body: the caller's, and those that came in by
// captured values and inputs.
func (b *body) outer() func(symbol string) bool {
	entered := map[string]bool{}
	for i := range b.g.Values {
		v := &b.g.Values[i]
		if v.Outer == graph.NoValue && !v.Input {
			continue
		}
		for _, d := range v.Type.Shape.Dims {
			d.VisitSymbols(func(s string) { entered[s] = true })
		}
		for _, e := range b.inf.res.contents.get(graph.ValueID(i)) {
			e.VisitSymbols(func(s string) { entered[s] = true })
		}
	}
	return func(s string) bool { return entered[s] || b.c.inf.inputs[s] }
}

// outputs returns the types and contents of the body's outputs, fit for use outside.
func (b *body) outputs() (types []graph.Type, contents [][]symbolic.Expr) {
	allowed := b.outer()
	for _, d := range b.g.Outputs {
		types = append(types, withoutSymbols(b.g.Values[d.Value].Type, allowed))
		contents = append(contents, b.inf.res.contents.get(d.Value))
	}
	return types, contents
}

// keep records the results of the latest run. If the body has unknown operators, the outputs of the
// node that holds it may be unknown.
func (b *body) keep() {
	b.clash()
	b.c.inf.takeLabels(b.inf.labels)
	res := b.c.inf.res
	res.Bodies = append(res.Bodies, Body{b.c.Node.ID, b.attr, b.inf.res})
	if n := len(res.NoRow); len(b.inf.res.NoRow) > 0 && (n == 0 || res.NoRow[n-1] != b.c.Node.ID) {
		res.NoRow = append(res.NoRow, b.c.Node.ID)
	}
}

// clash notes where the file states other elements, or another rank, of an input of the body than
// the node gives it: the node's type is used, and no executor runs the node.
func (b *body) clash() {
	n := b.c.Node
	for i := range b.inf.res.Conflicts {
		c := &b.inf.res.Conflicts[i]
		v := &b.g.Values[c.Value]
		if v.Input && n.Clash() == nil {
			setFaults(n, n.Fault(), b.c.fault(fmt.Sprintf("%s: input %q is %v as the node gives it, and %v in the file",
				b.attr, v.Name, c.Inferred, c.Declared)))
		}
	}
}

// truth returns the value of bool value id where it is the same in every run.
func (inf *inference) truth(id graph.ValueID) (value, known bool) {
	if id == graph.NoValue {
		return false, false
	}
	if e := inf.res.contents.get(id); len(e) == 1 {
		if n, ok := e[0].Const(); ok {
			return n != 0, true
		}
	}
	return false, false
}

// steady runs a body until the types of its carried values no longer change: dims that differ from
// one iteration to the next become unknown. fixed are the types of the other inputs, in front
// (before) and behind the carried ones; from is the body's first carried output.
//
// Each round makes at least one thing unknown that was known: a dim, a rank, a type. So the
// sum of ranks, and one round for each value's rank and type, bound the rounds.
func (b *body) steady(before, carried, behind []graph.Type, from int) ([]graph.Type, bool) {
	rounds := 2
	for _, t := range carried {
		rounds += len(t.Shape.Dims) + 4
	}
	for range rounds {
		in := append(append(append([]graph.Type(nil), before...), carried...), behind...)
		if err := b.run(in, nil); err != nil {
			b.c.Errorf("%s: %v", b.attr, err)
			return nil, false
		}
		out, _ := b.outputs()
		changed := false
		for k := range carried {
			t := joinTypes(carried[k], out[from+k])
			if !sameType(t, carried[k]) {
				carried[k], changed = t, true
			}
		}
		if !changed {
			b.keep()
			return out, true
		}
	}
	b.c.Errorf("%s: the types of the carried values did not settle after %d iterations", b.attr, rounds)
	return nil, false
}

// bodiesOf returns the inferred subgraphs of a node. They are sorted once.
func (inf *inference) bodiesOf(id graph.NodeID) []Body {
	if inf.bodies == nil {
		inf.bodies = slices.Clone(inf.res.Bodies) // which stand in the order of execution
		slices.SortStableFunc(inf.bodies, func(a, b Body) int { return cmp.Compare(a.Node, b.Node) })
	}
	from, _ := slices.BinarySearchFunc(inf.bodies, id, func(b Body, id graph.NodeID) int {
		return cmp.Compare(b.Node, id)
	})
	to := from
	for to < len(inf.bodies) && inf.bodies[to].Node == id {
		to++
	}
	return inf.bodies[from:to]
}

// bodyFLOPs returns the operations of one run of a subgraph.
func (c *Ctx) bodyFLOPs(attr string) symbolic.Expr {
	total := symbolic.Const(0)
	for _, b := range c.inf.bodiesOf(c.Node.ID) {
		if b.Attr != attr {
			continue
		}
		for _, n := range FLOPs(c.Node.GraphAttr(attr), c.inf.opsets, b.Result) {
			total = total.Add(n)
		}
	}
	return total
}
