package graph

import (
	"fmt"
	"strconv"
)

// Bounds of inlining. Functions that call functions twice each grow exponentially with their depth,
// so their final size is computed before any of them is copied.
const (
	maxInlinedNodes = 2_000_000
	maxInlinedParts = 64 << 20 // operands, attributes and values; a subgraph counts as partsOfGraph
	partsOfGraph    = 512
	maxInlinedNames = 1 << 30 // bytes
	maxCallDepth    = 256
)

// InlineFunctions replaces every call of a model-local function, in subgraphs and in other
// functions too, by the function's body. The model then has no functions.
//
//   - Inner nodes and values are named "<label of the call>/<inner name>", with _2, _3
//     and so on behind it where that name is taken.
//   - An attribute that refers to one of the function's (@name) takes its value from the
//     call, else the function's default, else it is dropped.
//   - Where the call leaves out an input, so do the nodes that read it. An output that
//     is just an input becomes an Identity node.
//   - The node metadata of the call goes to the inner nodes, under keys that they do
//     not have.
//   - Of the body's value_info only numbers are kept as dims: its symbols are local to
//     the function.
//   - Operator sets that the bodies use join the model's. Where both import a domain in different
//     versions, an operator of the body that same does not hold for is an error.
//
// same says whether an operator that is called as in one version of its domain means the same in the
// other; nil stands for never.
//
// More than 2,000,000 nodes are an error. After an error the model must not be used.
func InlineFunctions(m *Model, same func(n *Node, from, to int64) bool) (changed bool, err error) {
	if len(m.Functions) == 0 {
		return false, nil
	}
	if err := CheckFunctions(m); err != nil {
		return false, err
	}
	in := newInliner(m)
	in.same = same
	if err := in.measure(m.Graph); err != nil {
		return false, err
	}
	if in.opsets, err = in.mergedOpsets(); err != nil {
		return false, err
	}
	if in.callsAny(m.Graph) {
		in.collectNames(m.Graph)
		in.rewrite(m.Graph)
		if in.err != nil {
			return false, in.err
		}
	}
	m.Opsets, m.Functions = in.opsets, nil
	return true, nil
}

// inliner is the state of one InlineFunctions.
type inliner struct {
	m      *Model
	opsets []Opset // the model's, and those that bodies use
	same   func(n *Node, from, to int64) bool
	byKey  map[functionKey]int
	weight []weight // of each function's body with all its calls inlined
	known  []bool

	values map[string]int // names of values in use, with the number tried last
	labels map[string]int // names of nodes
	// Subgraphs among calls' attributes that have been copied: later copies need names of their
	// own.
	passed map[*Graph]bool
	spent  weight // so far
	names  int    // bytes of new names so far
	err    error  // the first
}

func newInliner(m *Model) *inliner {
	n := len(m.Functions)
	in := &inliner{m: m, byKey: make(map[functionKey]int, n), weight: make([]weight, n), known: make([]bool, n),
		values: map[string]int{}, labels: map[string]int{}, passed: map[*Graph]bool{}}
	for i, f := range m.Functions {
		in.byKey[keyOf(f.Domain, f.Name, f.Overload)] = i
	}
	return in
}

// callee returns the index of the function that a node calls.
func (in *inliner) callee(n *Node) (int, bool) {
	i, ok := in.byKey[keyOf(n.Domain, n.Op, n.Rare().Overload)]
	return i, ok
}

func (in *inliner) callsAny(g *Graph) bool {
	any := false
	callees(g, in.byKey, func(int) { any = true })
	return any
}

// weight measures the final size of a body.
type weight struct {
	nodes, parts int64
	depth        int // of calls
}

func (w *weight) add(o weight) {
	w.nodes = min(w.nodes+o.nodes, maxInlinedNodes+1)
	w.parts = min(w.parts+o.parts, maxInlinedParts+1)
	w.depth = max(w.depth, o.depth)
}

func (w *weight) check() error {
	switch {
	case w.nodes > maxInlinedNodes:
		return fmt.Errorf("inlining the model's functions makes more than %d nodes", maxInlinedNodes)
	case w.parts > maxInlinedParts:
		return fmt.Errorf("inlining the model's functions makes more than %d operands, attributes and values (a "+
			"subgraph counts as %d)", maxInlinedParts, partsOfGraph)
	case w.depth > maxCallDepth:
		return fmt.Errorf("functions call each other more than %d deep", maxCallDepth)
	}
	return nil
}

// measure fails when the inlined graph would exceed the bounds.
func (in *inliner) measure(g *Graph) error {
	w := in.weigh(g)
	return w.check()
}

// weigh counts a graph with all calls inlined, each function once.
func (in *inliner) weigh(g *Graph) weight {
	w := weight{parts: int64(len(g.Values))}
	for _, n := range g.Nodes {
		w.add(ownWeight(n))
		if i, ok := in.callee(n); ok {
			w.add(in.weighFunction(i))
		}
		n.Subgraphs(func(_ string, sub *Graph) {
			w.add(weight{parts: partsOfGraph})
			w.add(in.weigh(sub))
		})
	}
	return w
}

func (in *inliner) weighFunction(i int) weight {
	if !in.known[i] {
		in.weight[i] = in.weigh(in.m.Functions[i].Body)
		in.weight[i].depth++
		in.known[i] = true
	}
	return in.weight[i]
}

func ownWeight(n *Node) weight {
	return weight{nodes: 1, parts: int64(len(n.Inputs) + len(n.Outputs) + len(n.Attrs) + len(n.Rare().Metadata))}
}

// spend counts copied parts. It is a second guard: a subgraph that a call passes as an attribute is
// copied as often as the function refers to it.
func (in *inliner) spend(w weight) bool {
	in.spent.add(w)
	if err := in.spent.check(); in.err == nil {
		in.err = err
	}
	return in.err == nil
}

func (in *inliner) collectNames(g *Graph) {
	for i := range g.Values {
		in.values[g.Values[i].Name] = 1
	}
	for _, n := range g.Nodes {
		if n.Name != "" {
			in.labels[n.Name] = 1
		}
		n.Subgraphs(func(_ string, sub *Graph) { in.collectNames(sub) })
	}
}

// fresh returns a name that is not in use yet and takes it.
func (in *inliner) fresh(used map[string]int, name string) string {
	if in.names += len(name); in.names > maxInlinedNames {
		if in.err == nil {
			in.err = fmt.Errorf("inlining the model's functions makes names of more than %d bytes in total",
				maxInlinedNames)
		}
		return name
	}
	unique := name
	for used[unique] > 0 {
		used[name]++
		unique = name + "_" + strconv.Itoa(used[name])
	}
	used[unique] = 1
	return unique
}
