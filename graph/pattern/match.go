package pattern

import (
	"math"
	"slices"

	"memopt/graph"
)

// Match is a place of a graph where a pattern fits.
type Match struct {
	Pattern *Pattern
	Values  []graph.ValueID // of the pattern's names; NoValue where an alternative has no such name
	Nodes   []*graph.Node   // the last one first
	Reduces []*graph.Node   // those of Nodes that are reductions
	g       *graph.Graph
	number  func(graph.ValueID) (float64, bool)
}

// Find matches a pattern from its last node on. number says which values are constants of one
// element, and returns their number (Number, less those that the caller excludes). It returns nil
// if the pattern does not fit.
func (p *Pattern) Find(g *graph.Graph, last *graph.Node, number func(graph.ValueID) (float64, bool)) *Match {
	m := &Match{Pattern: p, Values: slices.Repeat([]graph.ValueID{graph.NoValue}, len(p.Names)), g: g,
		number: number}
	if !m.node(p.root, last) {
		return nil
	}
	return m
}

// Named is the value of a name of the pattern; NoValue if it has no such name.
func (m *Match) Named(name string) graph.ValueID {
	if i := slices.Index(m.Pattern.Names, name); i >= 0 {
		return m.Values[i]
	}
	return graph.NoValue
}

// Input is the value that the pattern is a function of.
func (m *Match) Input() graph.ValueID { return m.Values[m.Pattern.Input] }

// Closed reports whether the values between the nodes have no other readers. readers counts how often
// a value is read; held reports values that have some other use.
func (m *Match) Closed(readers func(graph.ValueID) int32, held func(graph.ValueID) bool) bool {
	for _, n := range m.Nodes[1:] {
		v, inside := n.Outputs[0], int32(0)
		for _, reader := range m.Nodes {
			for _, in := range reader.Inputs {
				if in == v {
					inside++
				}
			}
		}
		if readers(v) != inside || m.g.Values[v].Output || held(v) {
			return false
		}
	}
	return true
}

// value reports whether a value matches a term, and notes the names that it bound.
func (m *Match) value(t *term, v graph.ValueID) bool {
	if v == graph.NoValue {
		return false
	}
	if t.slot >= 0 && m.Values[t.slot] != graph.NoValue {
		return m.Values[t.slot] == v
	}
	ok := t.leaf == anyValue
	switch {
	case t.either != nil:
		ok = slices.ContainsFunc(t.either, func(t *term) bool {
			return m.attempt(func() bool { return m.value(t, v) })
		})
	case t.leaf == oneNumber || t.leaf == anyConstant:
		var x float64
		x, ok = m.number(v)
		ok = ok && (t.leaf == anyConstant || math.Abs(x-t.number) <= m.rounding(v)*math.Abs(t.number))
	case t.leaf == noLeaf:
		ok = m.made(t, v)
	}
	if ok && t.slot >= 0 {
		m.Values[t.slot] = v
	}
	return ok
}

// rounding is the relative tolerance between constants of a type and those of a pattern: they were
// rounded to the type or, if it is wider, to float.
func (m *Match) rounding(v graph.ValueID) float64 {
	switch m.g.Values[v].Type.DType {
	case graph.Float16:
		return 1.0 / (1 << 10)
	case graph.BFloat16:
		return 1.0 / (1 << 7)
	}
	return 1.0 / (1 << 22)
}

// made reports whether a node that a term describes makes a value.
func (m *Match) made(t *term, v graph.ValueID) bool {
	def := m.g.Values[v].Def
	return def != graph.NoNode && m.node(t, m.g.Nodes[def])
}

// node reports whether a node matches a term.
func (m *Match) node(t *term, n *graph.Node) bool {
	if n.Kind != t.kind {
		return false
	}
	m.Nodes = append(m.Nodes, n)
	if t.reduces {
		m.Reduces = append(m.Reduces, n)
	}
	if !t.symmetric {
		return m.inputs(t, n.Inputs)
	}
	return m.attempt(func() bool { return m.inputs(t, n.Inputs) }) ||
		m.attempt(func() bool { return m.inputs(t, []graph.ValueID{n.Input(1), n.Input(0)}) })
}

// inputs reports whether the first values match the arguments of a term.
func (m *Match) inputs(t *term, values []graph.ValueID) bool {
	for i, arg := range t.args {
		if i >= len(values) || !m.value(arg, values[i]) {
			return false
		}
	}
	return true
}

// attempt undoes the bindings of a failed match.
func (m *Match) attempt(do func() bool) bool {
	values, nodes, reduces := slices.Clone(m.Values), len(m.Nodes), len(m.Reduces)
	if do() {
		return true
	}
	m.Values, m.Nodes, m.Reduces = values, m.Nodes[:nodes], m.Reduces[:reduces]
	return false
}
