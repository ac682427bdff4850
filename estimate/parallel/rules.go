package parallel

import (
	"slices"

	"memopt/graph"
)

// aligned is for operators that compute elements of their outputs from elements of their inputs at
// the same place, with broadcasting: axes are counted from the last.
func aligned(v *visit) error {
	c, ok := v.common()
	switch {
	case !ok:
		return v.block("its inputs are divided along different axes")
	case c.kind == whole:
		return nil
	}
	from := v.from()
	out := v.dims[v.n.Output(0)]
	behind := c.axis // counted from the last: common's axis is
	kept := false
	for slot, o := range v.n.Outputs {
		if o == graph.NoValue || len(v.dims[o]) < behind || len(v.dims[o]) == 0 {
			continue
		}
		axis := len(v.dims[o]) - behind
		if size := v.dims[o][axis]; size > 1 && v.sameSize(size, behind) {
			v.set(slot, c.at(axis), from)
			kept = kept || slot == 0
		}
	}
	if !kept {
		return v.block("its output is not divided as its inputs are")
	}
	return v.others(c, behind, out)
}

// sameSize reports whether a divided input has so many elements along its axis.
func (v *visit) sameSize(size int64, behind int) bool {
	for i, in := range v.n.Inputs {
		if c := v.in(i); c.kind != whole && len(v.dims[in])-c.axis == behind && v.dims[in][c.axis] == size {
			return true
		}
	}
	return false
}

// common is the cut that all divided inputs have, its axis counted from the last (1 is the last).
// Where some are divided by tensor parallel, those along the sequence are gathered.
func (v *visit) common() (c cut, ok bool) {
	for i, in := range v.n.Inputs {
		have := v.in(i)
		if have.kind == whole {
			continue
		}
		have.axis = len(v.dims[in]) - have.axis
		switch {
		case c.kind == whole || have.kind == tensor && c.kind == sequence:
			c = have
		case have.kind == c.kind && have.axis != c.axis:
			return c, false
		case have.kind == c.kind && have.inner != c.inner && have.inner != 0 && c.inner == 0:
			c = have
		}
	}
	return c, true
}

// others divides the whole inputs that have the axis, too. What a forward node adds to divided
// features and is neither a weight nor of the data is whole by right: there the division cannot go
// on.
func (v *visit) others(c cut, behind int, out []int64) error {
	for i, in := range v.n.Inputs {
		if in == graph.NoValue || len(v.dims[in]) < behind || v.numbers(in) {
			continue
		}
		axis := len(v.dims[in]) - behind
		if size := v.dims[in][axis]; size == 1 || len(out) >= behind && size != out[len(out)-behind] {
			continue
		}
		if v.in(i).kind == whole && c.kind == tensor && !v.backward() && !v.slices(in) {
			return v.block("%q is whole there", v.g.ValueName(in))
		}
		if !v.want(i, c.at(axis)) {
			return v.block("%q cannot be divided like it", v.g.ValueName(in))
		}
	}
	return nil
}

// numbers reports whether a value is a list of integers, or a scalar, that tells an operator what to
// do.
func (d *divider) numbers(v graph.ValueID) bool {
	return len(d.dims[v]) <= 1 && !d.g.Values[v].Type.DType.IsFloat()
}

// slices reports whether every rank can take its part of a whole value of the forward half: a
// weight, a constant, or what depends on data alone.
func (d *divider) slices(v graph.ValueID) bool {
	_, _, weight := d.weight(v, 0)
	return weight || d.data[v]
}

// permuted is Transpose.
func permuted(v *visit) error {
	c := v.in(0)
	if c.kind == whole {
		return nil
	}
	c.axis = slices.Index(permutation(v.n, len(v.shape(0))), c.axis)
	v.set(0, c, v.from())
	return nil
}

// first is for operators whose output is divided as their first input is, axis by axis.
func first(v *visit) error {
	c := v.in(0)
	for i := 1; i < len(v.n.Inputs); i++ {
		if v.in(i).kind != whole && !v.in(i).same(c) {
			v.gatherInput(i)
		}
	}
	if c.kind == whole {
		return v.lost()
	}
	from := v.from()
	for slot, o := range v.n.Outputs {
		if o == graph.NoValue || len(v.dims[o]) != len(v.shape(0)) {
			continue
		}
		if d := v.dims[o][c.axis]; d != v.shape(0)[c.axis] {
			if d%v.ways != 0 {
				return v.block("%d of %d elements along axis %d are no whole parts", d, v.shape(0)[c.axis], c.axis)
			}
			c = c.loose()
		}
		v.set(slot, c, from)
	}
	return nil
}

// lost blocks a division by tensor parallel that an operator's output does not have.
func (v *visit) lost() error {
	for i := range v.n.Inputs {
		if v.in(i).kind == tensor && !v.backward() {
			return v.block("its output is not divided as its inputs are")
		}
	}
	return nil
}

// along is for operators that split or join along an axis: inputs and outputs of one rank.
func along(v *visit) error {
	c := cut{}
	for i := range v.n.Inputs {
		if have := v.in(i); have.kind > whole && (c.kind == whole || have.kind == tensor) {
			c = have
		}
	}
	if c.kind == whole {
		return nil
	}
	rank := len(v.dims[v.n.Output(0)])
	for i, in := range v.n.Inputs {
		if in == graph.NoValue || len(v.dims[in]) != rank || v.numbers(in) {
			continue
		}
		if !v.want(i, c) {
			return v.block("its inputs are divided along different axes")
		}
	}
	for slot, o := range v.n.Outputs {
		if o == graph.NoValue {
			continue
		}
		if v.dims[o][c.axis]%v.ways != 0 {
			return v.block("%d elements along axis %d are no whole parts", v.dims[o][c.axis], c.axis)
		}
		v.set(slot, c.loose(), v.from())
	}
	return nil
}

// reduced is for reductions: over a divided axis they add up what the ranks have.
func reduced(v *visit) error {
	c := v.in(0)
	rank, out := len(v.shape(0)), v.dims[v.n.Output(0)]
	if c.kind == whole {
		return nil
	}
	axis := c.axis
	if len(out) == rank {
		if out[axis] == 1 && v.shape(0)[axis] != 1 {
			return v.lost()
		}
	} else {
		axes, ok := v.axes(rank)
		if !ok || slices.Contains(axes, axis) {
			return v.lost()
		}
		for _, a := range axes {
			if a < c.axis {
				axis--
			}
		}
	}
	v.set(0, c.at(axis), v.from())
	return nil
}

// axes are those that a reduction works on, from its attribute or its second input.
func (v *visit) axes(rank int) ([]int, bool) {
	list := v.n.IntList("axes", nil)
	if list == nil && v.n.Input(1) != graph.NoValue {
		ints, ok := v.contents(v.n.Input(1))
		if !ok {
			return nil, false
		}
		list = ints
	}
	if one := v.n.Attr("axis"); one != nil { // ArgMax
		list = []int64{v.n.Int("axis", 0)}
	}
	var axes []int
	for _, a := range list {
		axes = append(axes, normal(a, rank))
	}
	if len(axes) == 0 {
		for a := range rank {
			axes = append(axes, a)
		}
	}
	return axes, true
}

// normal counts an axis from the front.
func normal(axis int64, rank int) int {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis)
}

// mixed is for operators whose output at one place depends on a whole axis.
func mixed(v *visit) error {
	rank := len(v.shape(0))
	axis := normal(v.n.Int("axis", -1), rank)
	if c := v.in(0); c.kind == tensor && c.axis == axis && !v.backward() {
		return v.block("it needs all %d elements along axis %d", v.shape(0)[axis], axis)
	}
	return aligned(v)
}

// classes is mixed where the axis may be that of the vocabulary: sums over ranks give what each
// needs of the others.
func classes(v *visit) error { return aligned(v) }

// normalised is for norms, which need the features of a token together.
func normalised(v *visit) error {
	for i := range v.n.Inputs {
		if c := v.in(i); c.kind == tensor && !v.backward() {
			return v.block("a norm needs all features of a token")
		}
	}
	return aligned(v)
}

// loss is for cross entropies: scores may be divided along the classes (the vocabulary).
func loss(v *visit) error {
	c, scores := v.in(0), v.shape(0)
	from := v.from()
	for slot, o := range v.n.Outputs {
		if o != graph.NoValue && slices.Equal(v.dims[o], scores) && c.kind != whole {
			v.set(slot, c, from)
		}
	}
	return nil
}

// gathered is Gather: of a table of tokens, the rows are divided, and what the ranks have found is
// added up.
func gathered(v *visit) error {
	rank := len(v.shape(0))
	axis := normal(v.n.Int("axis", 0), rank)
	v.beginTable(axis)
	data, indices := v.in(0), v.in(1)
	ids := len(v.shape(1))
	switch {
	case data.kind == tensor && data.axis == axis:
		if indices.kind != whole {
			v.gatherInput(1)
		}
		v.summed(true)
	case data.kind != whole:
		at := data.axis
		if at > axis {
			at += ids - 1
		} else if at == axis {
			v.gatherInput(0)
			return nil
		}
		v.set(0, data.at(at), v.from())
	case indices.kind != whole:
		v.set(0, indices.at(axis+indices.axis), v.from())
	}
	return nil
}

// picked is for operators that pick elements: along a divided axis, the ranks' findings are added up.
func picked(v *visit) error {
	c := v.in(0)
	out := v.dims[v.n.Output(0)]
	if c.kind != whole && len(out) == len(v.shape(0)) && out[c.axis] == v.shape(0)[c.axis] {
		v.set(0, c, v.from())
	}
	return nil
}

// made is for operators that make what they are told to; see refine.
func made(*visit) error { return nil }

// summed divides an output that is a sum over ranks: it is whole on all of them, or, with sequence
// parallel, each gets its part of the sequence, which is the axis before the features.
func (v *visit) summed(features bool) {
	out := v.n.Output(0)
	rank := len(v.dims[out])
	if !v.seq || !features || rank < 2 || v.dims[out][rank-2] == 1 {
		return
	}
	v.set(0, cut{kind: sequence, axis: rank - 2}, graph.NoValue)
}
