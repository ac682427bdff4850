package cuda

// Where the second operand of a fusion group's step comes from: the same numbers as in
// kernels/fusion.h.
const (
	fusionFromAcc = iota
	fusionFromKept0
	fusionFromKept1
	fusionFromPack // from here on: memory
	fusionFromOne
	fusionFromRow
	fusionFromPlaces
)

// placing says where an operand has element i of the result: at i where full holds, else at (i /
// inner) % count.
type placing struct {
	full         bool
	inner, count int
}

// placingOf returns how an operand of shape from is broadcast to a shape, or false where its dims
// other than 1 do not lie side by side.
func placingOf(from, to []int) (placing, bool) {
	skip := len(to) - len(from)
	if skip < 0 {
		return placing{}, false
	}
	p := placing{inner: 1, count: 1}
	inside := false // the dims that the operand has, from the innermost on; then come those that it has not
	ended := false
	for axis := len(to) - 1; axis >= 0; axis-- {
		d := 1
		if axis >= skip {
			d = from[axis-skip]
		}
		switch {
		case to[axis] == 1 && d == 1:
		case d == to[axis] && !ended:
			inside = true
			p.count *= d
		case d != 1:
			return p, false
		case inside:
			ended = true
		default:
			p.inner *= to[axis]
		}
	}
	p.full = p.inner == 1 && !ended
	return p, true
}

// from returns how the interpreter reads an operand, width elements at a time.
func (p placing) from(width int) uint32 {
	switch {
	case p.full:
		return fusionFromPack
	case p.count == 1 || p.inner%width == 0:
		return fusionFromOne
	case p.inner == 1 && p.count%width == 0:
		return fusionFromRow
	}
	return fusionFromPlaces
}
