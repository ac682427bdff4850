package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// fusion is a pattern in the forward half: nodes that together are one operator. They stay as they
// are; their gradient is that of the operator, which reads less of what is between them.
type fusion struct {
	*Ctx    // of the last node, whose output is the operator's
	row     *fusedRow
	values  []Value       // of the names in the pattern
	nodes   []*graph.Node // the last one first
	reduces []*reduceNode // all over the same axes
}

// fusedRow is a row of the table of patterns.
type fusedRow struct {
	name string // of the operator
	// form is the text of the pattern, as patternReader reads it.
	form string
	// rule returns the gradient of the input, in its type.
	rule func(f *fusion) Value

	term  *term
	names []string
	input int // which of the names is the input
}

// Fused counts the places of the forward half where nodes have the gradient of the one operator that
// they are together.
type Fused struct {
	Pattern string
	Count   int
}

// rowsByKind has the patterns by the kind of the last node, in the order of the table.
var rowsByKind [op.NumKinds][]*fusedRow

func init() {
	for i := range fusedRows {
		row := &fusedRows[i]
		var r *patternReader
		row.term, r = readPattern(row.form)
		row.names, row.input = r.names, r.input
		rowsByKind[row.term.kind] = append(rowsByKind[row.term.kind], row)
	}
}

// fuse finds the patterns in a graph whose nodes have no gradients yet but those of the losses: by
// node, the one that it is the last of.
func (j *joint) fuse(order graph.Order) []*fusion {
	found := make([]*fusion, len(j.g.Nodes))
	if j.unfused {
		return found
	}
	m := &matcher{j: j, readers: j.readersOf(order)}
	for _, id := range slices.Backward(order) {
		n := j.g.Nodes[id]
		for _, row := range rowsByKind[n.Kind] {
			if found[id] = m.match(n, row); found[id] != nil {
				j.out.count(row.name)
				break
			}
		}
	}
	return found
}

// count notes that a pattern was found.
func (o *Joint) count(pattern string) {
	at := slices.IndexFunc(o.Fused, func(f Fused) bool { return f.Pattern == pattern })
	if at < 0 {
		at, o.Fused = len(o.Fused), append(o.Fused, Fused{Pattern: pattern})
	}
	o.Fused[at].Count++
}

// read is a value of the pattern as the backward half reads it.
func (f *fusion) read(v Value) Value { return f.remade(f.j.source(v)) }

// input is the value that the pattern is a function of.
func (f *fusion) input() Value { return f.values[f.row.input] }

// named is what a name of the pattern stands for; None: it has no such name.
func (f *fusion) named(name string) Value {
	if i := slices.Index(f.row.names, name); i >= 0 {
		return f.values[i]
	}
	return None
}

// over reduces v over the axes of the pattern, and keeps them as dims of 1.
func (f *fusion) over(name string, v Value) Value { return f.reduces[0].over(name, v) }
