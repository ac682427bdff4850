package parallel

// reshaped is for operators that only change the dims. A divided axis goes with the factors of which
// it is made; of divided features that a reshape cuts, the heads are divided.
func reshaped(v *visit) error {
	c := v.in(0)
	if c.kind == whole {
		return nil
	}
	in, out := v.shape(0), v.dims[v.n.Output(0)]
	i0, i1, o0, o1, ok := groupOf(in, out, c.axis)
	if !ok {
		return v.block("%v does not become %v by cutting or joining axes", in, out)
	}
	outer, size, inner := v.place(c, in, out, i0, i1, o0, o1)
	if size == 0 {
		return v.block("no axis of %v that is made of axis %d of %v can be divided by %d", out, c.axis, in, v.ways)
	}
	before := int64(1)
	for axis := o0; axis < o1; axis++ {
		if d := out[axis]; d > 1 && before <= outer && before*d > outer {
			return v.setFactor(c, axis, outer/before, size, inner, out, o1)
		}
		before *= out[axis]
	}
	return v.block("%v does not become %v", in, out)
}

// setFactor divides the axis of the output in which the divided factor lies.
func (v *visit) setFactor(c cut, axis int, outer, size, inner int64, out []int64, end int) error {
	behind := int64(1)
	for _, d := range out[axis+1 : end] {
		behind *= d
	}
	if inner%behind != 0 || outer*size*(inner/behind) != out[axis] {
		return v.block("the divided part of an axis does not stay in one axis of %v", out)
	}
	c.axis, c.outer, c.inner = axis, outer, inner/behind
	if outer == 1 && c.inner == 1 {
		c = c.loose()
	}
	v.set(0, c, v.from())
	return nil
}

// place says which factor of the group's elements is divided: [outer, size, inner]. size 0: none can
// be.
func (v *visit) place(c cut, in, out []int64, i0, i1, o0, o1 int) (outer, size, inner int64) {
	before, behind := int64(1), int64(1)
	for _, d := range in[i0:c.axis] {
		before *= d
	}
	for _, d := range in[c.axis+1 : i1] {
		behind *= d
	}
	if c.inner > 0 {
		return before * c.outer, in[c.axis] / c.outer / c.inner, c.inner * behind
	}
	factors := v.factors(out, o0, o1, before, in[c.axis])
	if len(factors) <= 1 {
		return before, in[c.axis], behind
	}
	// The features of an axis that is cut into several: all but the last are heads, and before them
	// may be the three that queries, keys and values are. Along a sequence, the batch is before it.
	at := len(factors) - 2
	if c.kind == sequence {
		at = len(factors) - 1
	}
	if factors[at]%v.ways != 0 {
		return 0, 0, 0
	}
	for _, d := range factors[:at] {
		before *= d
	}
	size = factors[at]
	for _, d := range factors[at+1:] {
		behind *= d
	}
	return before, size, behind
}

// factors are the dims of the output, other than 1, that make up a factor of the group: size elements
// behind so many.
func (v *visit) factors(out []int64, o0, o1 int, before, size int64) (list []int64) {
	at, product := int64(1), int64(1)
	for _, d := range out[o0:o1] {
		if at >= before && d > 1 && product < size {
			list = append(list, d)
			product *= d
		}
		at *= d
	}
	if product != size {
		return nil
	}
	return list
}

// groupOf finds the axes of a reshape's input and output that are made of the same elements and
// have the given axis of the input among them: [i0, i1) and [o0, o1).
func groupOf(in, out []int64, axis int) (i0, i1, o0, o1 int, ok bool) {
	i, o := 0, 0
	for i < len(in) || o < len(out) {
		i0, o0 = i, o
		p, q := int64(1), int64(1)
		for first := true; first || p != q; first = false {
			switch {
			case i < len(in) && (p <= q || o >= len(out)):
				p *= in[i]
				i++
			case o < len(out):
				q *= out[o]
				o++
			default:
				return 0, 0, 0, 0, false
			}
		}
		for ; i < len(in) && in[i] == 1; i++ {
		}
		for ; o < len(out) && out[o] == 1; o++ {
		}
		if axis >= i0 && axis < i {
			return i0, i, o0, o, true
		}
	}
	return 0, 0, 0, 0, false
}
