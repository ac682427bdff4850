package parallel

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Megatron's rule (arXiv 1909.08053, section 3): of two linears in a row the first is divided into
// columns and the second into rows, so that the values between them are divided and one sum over
// ranks is needed behind them. Queries, keys and values are one first linear, or three; their columns
// are divided by whole heads. The table of tokens is divided into rows, and so is the head: each rank
// makes the scores of a part of the vocabulary.

// The roles of parameters as reports name them.
const (
	columnParallel     = "column-parallel"
	rowParallel        = "row-parallel"
	vocabularyParallel = "vocabulary-parallel"
	alikeDivided       = "alike" // added to divided features, or multiplied by them
)

// linear is a product of an activation with a weight of two dims.
type linear struct {
	x, w      int // inputs
	sum, cols *op.Factor
}

// linear finds out whether a forward node is one.
func (v *visit) linear(factors []op.Factor) (l linear, ok bool) {
	if v.backward() || op.Of(v.n.Kind).Class != op.Expensive || len(v.n.Inputs) < 2 {
		return l, false
	}
	for _, w := range []int{1, 0} {
		in := v.n.Inputs[w]
		if in == graph.NoValue || len(v.dims[in]) != 2 {
			continue
		}
		if _, _, weight := v.weight(in, 0); !weight {
			continue
		}
		l = linear{x: 1 - w, w: w}
		for k := range factors {
			f := &factors[k]
			switch {
			case !f.In[w].Cut():
			case f.In[l.x].Cut() && f.Reduce == op.SumOf:
				l.sum = f
			case !f.In[l.x].Cut() && f.Out[0].Cut():
				l.cols = f
			}
		}
		return l, l.sum != nil && l.cols != nil
	}
	return l, false
}

// beginLinear divides the weight of a linear of the forward half: its rows if its input is divided,
// else its columns.
func (v *visit) beginLinear(factors []op.Factor) {
	l, ok := v.linear(factors)
	if !ok {
		return
	}
	x, w := v.in(l.x), v.n.Inputs[l.w]
	if x.kind == tensor {
		p, axis, _ := v.weight(w, l.sum.In[l.w].Dim)
		if x.axis == l.sum.In[l.x].Dim && v.divide(p, axis, rowParallel, v.from()) {
			v.follow(w)
		}
		return
	}
	p, axis, _ := v.weight(w, l.cols.In[l.w].Dim)
	if v.role[p] == "" && v.dims[p][axis]%v.ways != 0 && p != v.table {
		if v.ban[p] == "" {
			v.ban[p] = fmt.Sprintf("its %d columns are not divisible by %d", v.dims[p][axis], v.ways)
		}
		return
	}
	role := columnParallel
	if p == v.table {
		role = vocabularyParallel
	}
	if !v.divide(p, axis, role, graph.NoValue) {
		return
	}
	v.follow(w)
	if v.role[p] == columnParallel {
		v.unite(v.reader[v.n.Inputs[l.x]], p) // queries, keys and values read one value
		v.reader[v.n.Inputs[l.x]] = p
	}
}

// beginTable divides the rows of the table of tokens.
func (v *visit) beginTable() {
	p, row, ok := v.weight(v.n.Inputs[0], 0)
	if v.backward() || !ok || p != v.table || row != 0 {
		return
	}
	if v.divide(p, 0, vocabularyParallel, graph.NoValue) {
		v.follow(v.n.Inputs[0])
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
		if d.back[n.ID] || !d.known(n) || !(&visit{d, n}).lookup() {
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
