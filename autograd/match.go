package autograd

import (
	"math"
	"slices"

	"memopt/graph"
)

// matcher looks for patterns.
type matcher struct {
	j       *joint
	readers []int32 // by value: how often it is read
}

// match returns the pattern that a node is the last one of, or nil.
func (m *matcher) match(n *graph.Node, row *fusedRow) *fusion {
	root := n.Output(0)
	if root == None || !m.j.requires[root] {
		return nil
	}
	f := &fusion{Ctx: m.j.ctx(n), row: row, values: slices.Repeat([]Value{None}, len(row.names))}
	if !m.node(f, row.term, n) || !m.closed(f) || !f.sameAxes() || !f.sameRank() {
		return nil
	}
	return f
}

// value reports whether a value is what a term says, and notes what it found.
func (m *matcher) value(f *fusion, t *term, v Value) bool {
	if v == None {
		return false
	}
	if t.slot >= 0 && f.values[t.slot] != None {
		return f.values[t.slot] == v
	}
	ok := t.leaf == anyValue
	switch {
	case t.either != nil:
		ok = slices.ContainsFunc(t.either, func(t *term) bool {
			return f.attempt(func() bool { return m.value(f, t, v) })
		})
	case t.leaf == oneNumber || t.leaf == anyConstant:
		var x float64
		x, ok = m.constant(v)
		ok = ok && (t.leaf == anyConstant || math.Abs(x-t.number) <= m.rounding(v)*math.Abs(t.number))
	case t.leaf == noLeaf:
		ok = m.made(f, t, v)
	}
	if ok && t.slot >= 0 {
		f.values[t.slot] = v
	}
	return ok
}

// constant returns the number that a value of one element has, and whose gradient nobody wants.
func (m *matcher) constant(v Value) (float64, bool) {
	if m.j.requires[v] {
		return 0, false
	}
	return (&emitter{m.j}).mathConstant(v)
}

// rounding is how far constants of a type may be from what a pattern says, relatively: they were
// rounded to the type or, where it is wider, to float.
func (m *matcher) rounding(v Value) float64 {
	switch m.j.g.Values[v].Type.DType {
	case graph.Float16:
		return 1.0 / (1 << 10)
	case graph.BFloat16:
		return 1.0 / (1 << 7)
	}
	return 1.0 / (1 << 22)
}

// made reports whether a node that a term describes makes a value.
func (m *matcher) made(f *fusion, t *term, v Value) bool {
	def := m.j.g.Values[v].Def
	return def != graph.NoNode && m.node(f, t, m.j.g.Nodes[def])
}

// node reports whether a node is what a term says.
func (m *matcher) node(f *fusion, t *term, n *graph.Node) bool {
	if n.Kind != t.kind {
		return false
	}
	f.nodes = append(f.nodes, n)
	if t.reduces {
		f.reduces = append(f.reduces, reduceNodeOf(m.j.ctx(n)))
	}
	if len(t.args) == 1 {
		return m.value(f, t.args[0], n.Input(0))
	}
	inOrder := func(a, b int) func() bool {
		return func() bool { return m.value(f, t.args[0], n.Input(a)) && m.value(f, t.args[1], n.Input(b)) }
	}
	return f.attempt(inOrder(0, 1)) || t.symmetric && f.attempt(inOrder(1, 0))
}

// attempt leaves no traces of what fails.
func (f *fusion) attempt(do func() bool) bool {
	values, nodes, reduces := slices.Clone(f.values), len(f.nodes), len(f.reduces)
	if do() {
		return true
	}
	f.values, f.nodes, f.reduces = values, f.nodes[:nodes], f.reduces[:reduces]
	return false
}

// closed reports whether nobody else reads what is between the nodes, so that no gradient comes there
// from elsewhere.
func (m *matcher) closed(f *fusion) bool {
	for _, n := range f.nodes[1:] {
		v, inside := n.Outputs[0], int32(0)
		for _, reader := range f.nodes {
			for _, in := range reader.Inputs {
				if in == v {
					inside++
				}
			}
		}
		if m.readers[v] != inside || m.j.g.Values[v].Output || m.j.hasGrad(v) {
			return false
		}
	}
	return true
}

// sameAxes reports whether all reductions are over the same known axes, and keep them.
func (f *fusion) sameAxes() bool {
	for _, r := range f.reduces {
		first := f.reduces[0]
		if !r.keep || !slices.Equal(r.list, first.list) || !r.all && len(r.list) == 0 {
			return false
		}
	}
	return true
}

// sameRank reports whether the output has the rank of the input: constants of one element may have
// more dims of 1 than the input has dims.
func (f *fusion) sameRank() bool {
	in, known := f.Dims(f.input())
	out, known2 := f.Dims(f.Out(0))
	return known && known2 && len(in) == len(out)
}
