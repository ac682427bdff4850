package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// fusion is a pattern in the forward half: nodes that together are one operator. They stay as they
// are; their gradient is that of the operator, which reads fewer of the values between them.
type fusion struct {
	*Ctx // of the last node, whose output is the operator's
	*pattern.Match
	row     *fusedRow
	reduces []*reduceNode // all over the same axes
}

// fusedRow is a row of the table of patterns.
type fusedRow struct {
	name string // of the operator
	// form is the text of the pattern. Reductions of a match are over the same axes, which they keep.
	form   string
	widths op.Widths // of its nodes in mixed precision
	// rule returns the gradient of the input, in its type.
	rule func(f *fusion) Value

	pattern *pattern.Pattern
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
		row.pattern = pattern.Parse(row.form)
		last := row.pattern.Last()
		rowsByKind[last] = append(rowsByKind[last], row)
	}
}

// fuse finds the patterns in a graph whose nodes have no gradients yet but those of the losses: by
// node, the one that it is the last of.
func (j *joint) fuse(order graph.Order) []*fusion {
	found := make([]*fusion, len(j.g.Nodes))
	if j.unfused {
		return found
	}
	readers := j.readersOf(order)
	for _, id := range slices.Backward(order) {
		n := j.g.Nodes[id]
		for _, row := range rowsByKind[n.Kind] {
			if found[id] = j.match(n, row, readers); found[id] != nil {
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

// over reduces v over the axes of the pattern, and keeps them as dims of 1.
func (f *fusion) over(name string, v Value) Value { return f.reduces[0].over(name, v) }

// match returns the pattern that ends in a node, or nil. If a value between the nodes has another
// reader, a gradient comes there from elsewhere.
func (j *joint) match(n *graph.Node, row *fusedRow, readers []int32) *fusion {
	root := n.Output(0)
	if root == None || !j.requires[root] {
		return nil
	}
	m := row.pattern.Find(j.g, n, j.fixedNumber)
	if m == nil || !m.Closed(func(v Value) int32 { return readers[v] }, j.hasGrad) {
		return nil
	}
	f := &fusion{Ctx: j.ctx(n), Match: m, row: row}
	for _, r := range m.Reduces {
		f.reduces = append(f.reduces, reduceNodeOf(j.ctx(r)))
	}
	if !f.sameAxes() || !f.sameRank() {
		return nil
	}
	return f
}

// fixedNumber returns the number in a value of one element whose gradient is not wanted.
func (j *joint) fixedNumber(v Value) (float64, bool) {
	if j.requires[v] {
		return 0, false
	}
	return pattern.Number(j.g, v)
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
	in, known := f.Dims(f.Input())
	out, known2 := f.Dims(f.Out(0))
	return known && known2 && len(in) == len(out)
}
