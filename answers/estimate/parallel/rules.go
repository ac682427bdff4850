package parallel

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// factors are the directions that divide a node's work (op.Factor).
func (v *visit) factors() []op.Factor {
	p := &op.Pieces{Graph: v.g, Node: v.n, Dims: func(id graph.ValueID) []int64 {
		if id == graph.NoValue {
			return nil
		}
		return v.dims[id]
	}}
	info := op.Of(v.n.Kind)
	p.Version = info.VersionOf(v.n, graph.OpsetVersion(v.opsets, info.Domain))
	return op.FactorsOf(p)
}

// stretch is where the divided features lie in a factor: so many places are before them, and behind
// each of them.
type stretch struct{ before, behind int64 }

// along divides a node along the factor that its divided inputs lie along: the other inputs that lie
// along it are divided, too, and so are the outputs; an output that does not is a sum over ranks.
func (v *visit) along(factors []op.Factor) error {
	lead := v.lead()
	if lead < 0 {
		return nil
	}
	c := v.in(lead)
	f, s := v.factorOf(factors, lead, c)
	if f == nil {
		return v.without(lead, c)
	}
	for i, in := range v.n.Inputs {
		if i == lead || in == graph.NoValue {
			continue
		}
		if err := v.other(i, f, s, c); err != nil {
			return err
		}
	}
	from, any := v.from(), false
	for slot, place := range f.Out {
		if place.Cut() && v.n.Output(slot) != graph.NoValue {
			v.set(slot, c.within(place, s), from)
			any = true
		}
	}
	if !any && c.kind == tensor {
		return v.reduce(f)
	}
	return nil
}

// lead is the input whose division counts, -1 if no input is divided: one by tensor parallel, else
// the first along the sequence.
func (v *visit) lead() int {
	lead := -1
	for i := range v.n.Inputs {
		switch v.in(i).kind {
		case tensor:
			return i
		case sequence:
			if lead < 0 {
				lead = i
			}
		}
	}
	return lead
}

// other divides an input beside the one that leads.
func (v *visit) other(i int, f *op.Factor, s stretch, c cut) error {
	place, have := f.In[i], v.in(i)
	switch {
	case !place.Cut() && have.kind == tensor:
		return v.block("its inputs are divided along different axes")
	case !place.Cut():
		v.gatherInput(i)
		return nil
	case c.kind == tensor && have.kind == whole && !v.backward() && !v.slices(v.n.Input(i)):
		return v.block("%q is whole there", v.g.ValueName(v.n.Input(i)))
	case c.kind == sequence && have.kind == sequence && have.axis != place.Dim:
		v.gatherInput(i)
		return nil
	}
	if !v.want(i, c.within(place, s)) {
		return v.block("%q cannot be divided like its other inputs", v.g.ValueName(v.n.Input(i)))
	}
	return nil
}

// reduce makes the output a sum over ranks. In the forward half, that is for linears, losses and
// lookups: other nodes that need all features, such as a norm that is written out, are kept whole.
func (v *visit) reduce(f *op.Factor) error {
	info := op.Of(v.n.Kind)
	if !v.backward() && !info.Has(op.Loss) && (info.Class != op.Expensive || f.Reduce != op.SumOf) {
		return v.block("its output needs all of the divided values")
	}
	v.summed()
	return nil
}

// factorOf finds the factor of an input's divided axis, and the divided stretch of it.
func (v *visit) factorOf(factors []op.Factor, i int, c cut) (*op.Factor, stretch) {
	var list []*op.Factor
	for k := range factors {
		if place := factors[k].In[i]; place.Dim == c.axis {
			list = append(list, &factors[k])
		}
	}
	if c.inner > 0 {
		size := v.shape(i)[c.axis] / c.outer / c.inner
		for _, f := range list {
			if p := f.In[i]; c.outer%p.Outer == 0 && (p.Outer*f.Size)%(c.outer*size) == 0 {
				return f, stretch{c.outer / p.Outer, p.Outer * f.Size / (c.outer * size)}
			}
		}
		return nil, stretch{}
	}
	slices.SortFunc(list, func(a, b *op.Factor) int { return int(a.In[i].Outer - b.In[i].Outer) })
	// The features of an axis that is cut into several: all but the last are heads, and before them
	// may be the three that queries, keys and values are. Along a sequence, the batch is before it.
	at := len(list) - 1
	if c.kind == tensor && len(list) > 1 {
		at--
	}
	if at < 0 || len(list) > 1 && list[at].Size%v.ways != 0 {
		return nil, stretch{}
	}
	return list[at], stretch{1, 1}
}

// within is the cut of an operand along a factor with a divided stretch.
func (c cut) within(place op.Place, s stretch) cut {
	c.axis = place.Dim
	c.outer, c.inner = place.Outer*s.before, place.Inner*s.behind
	if c.outer == 1 && c.inner == 1 {
		return c.loose()
	}
	return c
}

// without is for a node that has no factor along the divided axis. Nodes that cut and join along it
// do so with the parts of each rank: columns of a weight can be permuted. A loss over divided
// classes, and in the backward half every value of the same dims, is made with sums over ranks.
func (v *visit) without(lead int, c cut) error {
	info := op.Of(v.n.Kind)
	moves := info.Cuts != nil || info.Joins != nil
	if !moves && !info.Has(op.Loss) && !v.backward() && c.kind == tensor {
		return v.block("it needs all of the values that are divided along axis %d of %q", c.axis,
			v.g.ValueName(v.n.Input(lead)))
	}
	dims := v.shape(lead)
	for i, in := range v.n.Inputs {
		if i == lead || in == graph.NoValue || v.numbers(in) {
			continue
		}
		if moves && len(v.dims[in]) == len(dims) {
			if !v.want(i, c) {
				return v.block("its inputs are divided along different axes")
			}
		} else if !v.in(i).same(c) || !slices.Equal(v.dims[in], dims) {
			v.gatherInput(i)
		}
	}
	from := v.from()
	for slot, o := range v.n.Outputs {
		switch {
		case o == graph.NoValue || len(v.dims[o]) != len(dims):
		case slices.Equal(v.dims[o], dims):
			v.set(slot, c, from)
		case v.dims[o][c.axis]%v.ways != 0 && !v.backward():
			return v.block("%d elements along axis %d are no whole parts", v.dims[o][c.axis], c.axis)
		case moves || v.dims[o][c.axis]%v.ways == 0 && v.dims[o][c.axis] > 1:
			v.set(slot, c.loose(), from)
		}
	}
	return nil
}

// numbers reports whether a value is a list of integers, or a scalar, that parameterizes an operator.
func (d *divider) numbers(v graph.ValueID) bool {
	return len(d.dims[v]) <= 1 && !d.g.Values[v].Type.DType.IsFloat()
}

// slices reports whether every rank can take its part of a whole value of the forward half: a weight,
// a constant, or a value that depends on data alone.
func (d *divider) slices(v graph.ValueID) bool {
	_, _, weight := d.weight(v, 0)
	return weight || d.data[v]
}

// summed divides an output that is a sum over ranks: it is whole on all of them, or, with sequence
// parallel, each gets its part of the sequence, which is the axis before the features.
func (v *visit) summed() {
	out := v.n.Output(0)
	rank := len(v.dims[out])
	if !v.seq || rank < 2 || v.dims[out][rank-2] == 1 {
		return
	}
	v.set(0, cut{kind: sequence, axis: rank - 2}, graph.NoValue)
}

// lookup reports whether a node looks up rows of a table of two dims by integers.
func (v *visit) lookup() bool {
	table, ids := v.shape(0), v.shape(1)
	if len(v.n.Inputs) != 2 || len(table) != 2 || v.g.Values[v.n.Inputs[1]].Type.DType.IsFloat() {
		return false
	}
	return slices.Equal(v.dims[v.n.Output(0)], append(slices.Clone(ids), table[1]))
}

// normal counts an axis from the front.
func normal(axis int64, rank int) int {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis)
}
