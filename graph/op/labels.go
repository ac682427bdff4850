package op

import (
	"maps"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// A label is a symbol that no graph input has: a name that a tool's shape inference has given to a
// dim that it could not express, such as "unk__85". One name stands for one number wherever the
// file has it. So where one value with that dim can be inferred, all can: one walk over the graph
// learns expressions for labels, and the next puts them in the labels' place.

// maxLabelWalks bounds the walks: an expression learned for one label may determine another.
const maxLabelWalks = 4

// inferAll walks over a graph until a walk learns no more about its labels. start makes an
// inference. Labels that contradict each other are believed no more than before.
func inferAll(start func() *inference, order graph.Order) (*Result, error) {
	known := map[string]symbolic.Expr{}
	for walk := 1; ; walk++ {
		inf := start()
		inf.known = known
		err := inf.run(order)
		switch {
		case err != nil && len(known) > 0:
			inf = start()
			return inf.res, inf.run(order)
		case err != nil || walk == maxLabelWalks || !inf.learn(known):
			return inf.res, err
		}
	}
}

// isLabel reports whether a symbol occurs in no input.
func (inf *inference) isLabel(symbol string) bool { return !inf.inputs[symbol] }

// hasLabel reports whether an expression has a label in it.
func (inf *inference) hasLabel(e symbolic.Expr) bool {
	has := false
	e.VisitSymbols(func(name string) { has = has || inf.isLabel(name) })
	return has
}

// equate notes that a dim that may be a label is the same as another expression.
func (inf *inference) equate(dim, other symbolic.Expr) {
	names := dim.Symbols()
	if len(names) != 1 || !inf.isLabel(names[0]) || !dim.Equal(symbolic.Sym(names[0])) ||
		slices.Contains(other.Symbols(), names[0]) {
		return
	}
	if inf.labels == nil {
		inf.labels = map[string]symbolic.Expr{}
	}
	inf.labels[names[0]] = agreed(inf.labels, names[0], other)
}

// agreed is a label's expression after one more place states one: unknown if the two differ.
func agreed(labels map[string]symbolic.Expr, name string, e symbolic.Expr) symbolic.Expr {
	if old, ok := labels[name]; ok && !old.Equal(e) {
		return symbolic.Unknown()
	}
	return e
}

// takeLabels takes over a subgraph's expressions for labels.
func (inf *inference) takeLabels(from map[string]symbolic.Expr) {
	if inf.labels == nil && len(from) > 0 {
		inf.labels = map[string]symbolic.Expr{}
	}
	for name, e := range from {
		inf.labels[name] = agreed(inf.labels, name, e)
	}
}

// learn adds to known the expressions found for labels that are left in types, and reports whether
// it added any.
func (inf *inference) learn(known map[string]symbolic.Expr) bool {
	left := map[string]bool{}
	inf.res.Walk(inf.g, func(g *graph.Graph, _ *Result) {
		for i := range g.Values {
			for _, d := range g.Values[i].Type.Shape.Dims {
				d.VisitSymbols(func(name string) { left[name] = true })
			}
		}
	})
	before := len(known)
	for name := range left {
		if e, ok := inf.labels[name]; ok && !e.IsUnknown() {
			known[name] = e
		}
	}
	follow(known)
	return len(known) > before
}

// follow replaces labels in the expressions of labels, unless one would be expressed by itself.
func follow(known map[string]symbolic.Expr) {
	names := slices.Sorted(maps.Keys(known))
	for range maxLabelWalks {
		for _, name := range names {
			if e := known[name].Subst(known); !slices.Contains(e.Symbols(), name) {
				known[name] = e
			}
		}
	}
}

// relabelled replaces labels by their known expressions.
func (inf *inference) relabelled(t graph.Type) graph.Type {
	if len(inf.known) == 0 {
		return t
	}
	if t.Elem != nil {
		elem := inf.relabelled(*t.Elem)
		t.Elem = &elem
	}
	for i, d := range t.Shape.Dims {
		if inf.hasLabel(d) {
			t.Shape = with(t.Shape, i, d.Subst(inf.known))
		}
	}
	return t
}
