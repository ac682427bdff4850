package op

import "slices"

// transposeFactors: by the permutation, which reverses the dims by default.
func transposeFactors(p *Pieces) []Factor {
	x := p.in(0)
	perm := p.Node.IntList("perm", nil)
	var list []*Factor
	for d := range x {
		from := len(x) - 1 - d
		if perm != nil {
			if len(perm) != len(x) || perm[d] < 0 || perm[d] >= int64(len(x)) {
				return nil
			}
			from = int(perm[d])
		}
		list = append(list, p.factor(x[from]).in(p, 0, from).out(p, 0, d))
	}
	return kept(list)
}

// reshapeFactors: the elements keep their order, so that the dims of both shapes are products of
// factors in the same order. If the shapes have no common factors behind their common beginning, as
// 6×4 and 8×3, the rest has no factor.
func reshapeFactors(p *Pieces) []Factor {
	x, y := p.in(0), p.out(0)
	if x == nil || y == nil || elements(x) != elements(y) || elements(x) == 0 {
		return nil
	}
	from, to := prefixes(x), prefixes(y)
	marks := slices.Concat(from, to)
	slices.Sort(marks)
	marks = slices.Compact(marks)
	var list []*Factor
	for i := 1; i < len(marks); i++ {
		a, b := marks[i-1], marks[i]
		if b%a != 0 {
			continue
		}
		f := p.factor(b / a)
		if f.within(f.In, from, a, b) && f.within(f.Out, to, a, b) {
			list = append(list, f)
		}
	}
	return kept(list)
}

// filledFactors: all elements are one, along every dim.
func filledFactors(p *Pieces) []Factor {
	var list []*Factor
	for d, n := range p.out(0) {
		list = append(list, p.factor(n).out(p, 0, d))
	}
	return kept(list)
}

// squeezeFactors: without axes, a part of one place would lose its dim.
func squeezeFactors(p *Pieces) []Factor {
	if p.Node.Attr("axes") == nil && !p.hasIn(1) {
		return nil
	}
	return reshapeFactors(p)
}

// prefixes are the products of the first 0, 1, 2 … dims.
func prefixes(dims []int64) []int64 {
	list := []int64{1}
	for _, d := range dims {
		list = append(list, list[len(list)-1]*d)
	}
	return list
}

// within places operand 0 along the factor from a to b of the elements' order, counted as prefixes are.
func (f *Factor) within(list []Place, prefix []int64, a, b int64) bool {
	for d := 1; d < len(prefix); d++ {
		low, high := prefix[d-1], prefix[d]
		if low <= a && b <= high && low < high {
			list[0] = Place{Dim: d - 1, Outer: a / low, Inner: high / b}
			return a%low == 0 && high%b == 0
		}
	}
	return false
}

// joinFactors: every dim except the one that operands are joined or cut along; each of them has
// another length there.
func joinFactors(preset int64) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		axis, ok := p.axis("axis", preset, len(p.in(0)))
		if !ok {
			return nil
		}
		return kept(p.allBut(axis))
	}
}

// splitFactors: the sizes of the parts are an input.
func splitFactors(p *Pieces) []Factor {
	axis, ok := p.axis("axis", 0, len(p.in(0)))
	if !ok {
		return nil
	}
	var list []*Factor
	for d := range p.in(0) {
		if d != axis {
			list = append(list, p.sameDim(d, []int{1}, nil))
		}
	}
	return kept(list)
}

// sliceFactors: the dims that are taken whole and in order.
func sliceFactors(p *Pieces) []Factor {
	x, y := p.in(0), p.out(0)
	if x == nil || len(x) != len(y) {
		return nil
	}
	if _, ok := p.firsts(x, y); !ok {
		return nil
	}
	return kept(p.unchanged(x, y, 0))
}

// unchanged are the dims that an input and output 0 have alike.
func (p *Pieces) unchanged(x, y []int64, slot int) (list []*Factor) {
	for d := range x {
		if d < len(y) && x[d] == y[d] {
			list = append(list, p.factor(x[d]).in(p, slot, d).out(p, 0, d))
		}
	}
	return list
}

// sliceGradFactors: as sliceFactors, from the gradient to a shape that is an input.
func sliceGradFactors(p *Pieces) []Factor {
	steps, ok := p.ints(5, "")
	if !ok || slices.ContainsFunc(steps, func(n int64) bool { return n != 1 }) {
		return nil
	}
	return kept(p.unchanged(p.in(0), p.out(0), 0))
}

// padFactors: the dims without padding at either end.
func padFactors(p *Pieces) []Factor {
	x := p.in(0)
	pads, ok := p.ints(1, "pads")
	if p.Node.Attr("paddings") != nil { // version 1
		pads = p.Node.IntList("paddings", nil)
	}
	axes, known := p.ints(3, "")
	if !ok || !known || len(pads)%2 != 0 {
		return nil
	}
	var list []*Factor
	for d, f := range p.unchanged(x, p.out(0), 0) {
		at := d
		if axes != nil {
			at = slices.IndexFunc(axes, func(a int64) bool { return a == int64(d) || a == int64(d-len(x)) })
		}
		if at < 0 || at < len(pads)/2 && pads[at] == 0 && pads[at+len(pads)/2] == 0 {
			list = append(list, f)
		}
	}
	return kept(list)
}

// tileFactors: the dims that are not repeated.
func tileFactors(p *Pieces) []Factor {
	if x, y := p.in(0), p.out(0); x != nil && len(x) == len(y) {
		return kept(p.unchanged(x, y, 0))
	}
	return nil
}

// gatherFactors: the dims of the data but that which is indexed, and those of the indices.
func gatherFactors(p *Pieces) []Factor {
	x, at := p.in(0), p.in(1)
	axis, ok := p.axis("axis", 0, len(x))
	if !ok || at == nil {
		return nil
	}
	var list []*Factor
	for d, n := range x {
		switch {
		case d < axis:
			list = append(list, p.factor(n).in(p, 0, d).out(p, 0, d))
		case d > axis:
			list = append(list, p.factor(n).in(p, 0, d).out(p, 0, d-1+len(at)))
		}
	}
	for d, n := range at {
		list = append(list, p.factor(n).in(p, 1, d).out(p, 0, axis+d))
	}
	return kept(list)
}

// gatherGradFactors: as gatherFactors, from the gradient; rows of the same index are added.
func gatherGradFactors(p *Pieces) []Factor {
	x, at := p.out(0), p.in(1)
	axis, ok := p.axis("axis", 0, len(x))
	if !ok || at == nil {
		return nil
	}
	var list []*Factor
	for d, n := range x {
		switch {
		case d < axis:
			list = append(list, p.factor(n).in(p, 2, d).out(p, 0, d))
		case d > axis:
			list = append(list, p.factor(n).in(p, 2, d-1+len(at)).out(p, 0, d))
		}
	}
	for d, n := range at {
		list = append(list, p.factor(n).in(p, 1, d).in(p, 2, axis+d).reduced(SumOf))
	}
	return kept(list)
}

// gatherElementsFactors: along the axis the indices can be cut; along other dims all operands where they
// are equally long there.
func gatherElementsFactors(p *Pieces) []Factor {
	x, at := p.in(0), p.in(1)
	axis, ok := p.axis("axis", 0, len(x))
	if !ok || len(at) != len(x) {
		return nil
	}
	var list []*Factor
	for d, n := range at {
		f := p.factor(n).in(p, 1, d).out(p, 0, d)
		if d != axis {
			f.in(p, 0, d)
		}
		list = append(list, f)
	}
	return kept(list)
}

// gatherElementsGradFactors: of dY, the shape and the indices.
func gatherElementsGradFactors(p *Pieces) []Factor {
	at, x := p.in(2), p.out(0)
	axis, ok := p.axis("axis", 0, len(x))
	if !ok || len(at) != len(x) {
		return nil
	}
	var list []*Factor
	for d, n := range at {
		f := p.factor(n).in(p, 0, d).in(p, 2, d)
		if d == axis {
			f.reduced(SumOf)
		} else {
			f.out(p, 0, d)
		}
		list = append(list, f)
	}
	return kept(list)
}

// gatherNDFactors: the batch dims, and the dims of the indices but the last one, which is an index.
func gatherNDFactors(p *Pieces) []Factor {
	at, batch := p.in(1), int(p.Node.Int("batch_dims", 0))
	var list []*Factor
	for d := range max(len(at)-1, 0) {
		f := p.factor(at[d]).in(p, 1, d).out(p, 0, d)
		if d < batch {
			f.in(p, 0, d)
		}
		list = append(list, f)
	}
	return kept(list)
}

// gatherNDGradFactors: of the shape, the indices and dY.
func gatherNDGradFactors(p *Pieces) []Factor {
	at, batch := p.in(1), int(p.Node.Int("batch_dims", 0))
	var list []*Factor
	for d := range max(len(at)-1, 0) {
		f := p.factor(at[d]).in(p, 1, d).in(p, 2, d)
		if d < batch {
			f.out(p, 0, d)
		} else {
			f.reduced(SumOf)
		}
		list = append(list, f)
	}
	return kept(list)
}

// scatterElementsFactors: the dims but the axis, where all operands are equally long.
func scatterElementsFactors(p *Pieces) []Factor {
	axis, ok := p.axis("axis", 0, len(p.in(0)))
	if !ok {
		return nil
	}
	return kept(p.allBut(axis))
}

// oneHotFactors: the dims of the indices.
func oneHotFactors(p *Pieces) []Factor {
	at := p.in(0)
	axis, ok := p.axis("axis", -1, len(at)+1)
	if !ok {
		return nil
	}
	var list []*Factor
	for d, n := range at {
		to := d
		if d >= axis {
			to++
		}
		list = append(list, p.factor(n).in(p, 0, d).out(p, 0, to))
	}
	return kept(list)
}

// reverseSequenceFactors: the batch, whose entries each have a length, and the dims that are neither
// batch nor time.
func reverseSequenceFactors(p *Pieces) []Factor {
	x := p.in(0)
	batch, time := int(p.Node.Int("batch_axis", 1)), int(p.Node.Int("time_axis", 0))
	var list []*Factor
	for d, n := range x {
		f := p.factor(n).in(p, 0, d).out(p, 0, d)
		switch d {
		case time:
			continue
		case batch:
			f.in(p, 1, 0)
		}
		list = append(list, f)
	}
	return kept(list)
}

// concatTrainingFactors: as those of Concat, where the lengths of the inputs are not asked for.
func concatTrainingFactors(p *Pieces) []Factor {
	if p.hasOut(1) {
		return nil
	}
	return joinFactors(0)(p)
}
