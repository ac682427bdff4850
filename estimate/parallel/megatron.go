package parallel

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Megatron's rule (arXiv 1909.08053, section 3): of two linears in a row the first is divided into
// columns and the second into rows, so that what lies between them is divided and one sum over ranks
// is needed behind them. Queries, keys and values are one first linear, or three; their columns go by
// whole heads. The table of tokens is divided into rows, and so is the head, which makes scores of a
// part of the vocabulary on each rank.

// The roles of parameters as reports name them.
const (
	columnParallel     = "column-parallel"
	rowParallel        = "row-parallel"
	vocabularyParallel = "vocabulary-parallel"
	alikeDivided       = "alike" // what is added to divided features, or multiplied by them
)

// beginLinear divides the weight of a linear of the forward half: its rows where what it reads is
// divided, else its columns.
func (m *multiplication) beginLinear() {
	if m.backward() {
		return
	}
	w := m.n.Input(1)
	p, sumAxis, ok := m.weight(w, m.bSum)
	if !ok || len(m.dims[w]) != 2 || m.in(0).kind == tensor && m.in(0).axis != m.aSum {
		return
	}
	if m.in(0).kind == tensor {
		if m.divider.divide(p, sumAxis, rowParallel, m.from()) {
			m.follow(w)
		}
		return
	}
	_, column, _ := m.weight(w, m.bCol)
	if m.role[p] == "" && m.dims[p][column]%m.ways != 0 && p != m.table {
		if m.ban[p] == "" {
			m.ban[p] = fmt.Sprintf("its %d columns are not divisible by %d", m.dims[p][column], m.ways)
		}
		return
	}
	with := graph.NoValue
	if first := m.reader[m.n.Input(0)]; first != graph.NoValue {
		with = first // queries, keys and values read one value
	}
	role := columnParallel
	if p == m.table {
		role = vocabularyParallel
	}
	if m.divider.divide(p, column, role, graph.NoValue) {
		m.follow(w)
		if m.role[p] == columnParallel {
			m.unite(with, p)
			m.reader[m.n.Input(0)] = p
		}
	}
}

// beginTable divides the rows of the table of tokens.
func (v *visit) beginTable(axis int) {
	data := v.n.Input(0)
	p, row, ok := v.weight(data, axis)
	if v.backward() || !ok || p != v.table || row != 0 || axis != 0 {
		return
	}
	if v.divide(p, 0, vocabularyParallel, graph.NoValue) {
		v.follow(data)
	}
}

// findTable finds the parameter that is the table of tokens: the one with a row for each class of the
// loss, or for each column of the last linear; else the one with the most rows. Tables of positions
// stay whole.
func (d *divider) findTable() {
	classes := d.classes()
	d.table = graph.NoValue
	best := int64(0)
	for _, n := range d.g.Nodes {
		if d.back[n.ID] || !isGather(n.Kind) {
			continue
		}
		p, axis, ok := d.weight(n.Input(0), 0)
		if !ok || axis != 0 || len(d.dims[p]) != 2 {
			continue
		}
		rows := d.dims[p][0]
		if rows == classes {
			rows = 1 << 62
		}
		if rows > best {
			d.table, best = p, rows
		}
	}
}

// classes is the number of classes of the loss, 0 where the graph does not say.
func (d *divider) classes() int64 {
	for _, n := range d.g.Nodes {
		if scores := d.dimsOf(n.Input(0)); op.Of(n.Kind).Has(op.Loss) && !d.back[n.ID] && len(scores) > 1 {
			return scores[1]
		}
	}
	return 0
}

func (d *divider) dimsOf(v graph.ValueID) []int64 {
	if v == graph.NoValue {
		return nil
	}
	return d.dims[v]
}
