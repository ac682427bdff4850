package cpu

// reducePlan says where the elements are that go to one result. Axes of length 1 are left out and
// neighbours that are both kept, or both folded, are one axis. The elements are then runs
// without gaps: a run belongs to one result (the last axis is folded) or has one element of
// each of inner neighbouring results (the last axis is kept).
type reducePlan struct {
	keptDims, keptSteps []int // outside of the run, innermost first; steps count elements
	foldDims, foldSteps []int
	inner               int  // length of a run
	innerKept           bool // whether the last axis is kept
	outs                int  // product of keptDims
	runs                int  // product of foldDims: runs per result
	count               int  // elements folded into one result
}

// build makes the plan of an input's shape and the axes to fold.
func (p *reducePlan) build(shape []int, folded []bool) {
	p.keptDims, p.keptSteps = p.keptDims[:0], p.keptSteps[:0]
	p.foldDims, p.foldSteps = p.foldDims[:0], p.foldSteps[:0]
	p.inner, p.innerKept, p.outs, p.runs, p.count = 1, true, 1, 1, 1
	step, started, outside := 1, false, false
	var last bool
	for i := len(shape) - 1; i >= 0; i-- {
		d := shape[i]
		if folded[i] {
			p.count *= d
		}
		if d == 1 {
			continue
		}
		switch {
		case !started:
			started, p.inner, p.innerKept = true, d, !folded[i]
		case !outside && folded[i] == last:
			p.inner *= d
		default:
			merge := outside && folded[i] == last
			outside = true
			if folded[i] {
				p.foldDims, p.foldSteps = addOuterDim(p.foldDims, p.foldSteps, d, step, merge)
				p.runs *= d
			} else {
				p.keptDims, p.keptSteps = addOuterDim(p.keptDims, p.keptSteps, d, step, merge)
				p.outs *= d
			}
		}
		last = folded[i]
		step *= d
	}
}

// addOuterDim appends a dim that is outside those in the list, which run outwards.
func addOuterDim(dims, steps []int, d, step int, merge bool) ([]int, []int) {
	if merge {
		dims[len(dims)-1] *= d
		return dims, steps
	}
	return append(dims, d), append(steps, step)
}

// kept returns where the first run of results i begins, fold where run r lies after it.
func (p *reducePlan) kept(i int) int { return planOffset(p.keptDims, p.keptSteps, i) }
func (p *reducePlan) fold(r int) int { return planOffset(p.foldDims, p.foldSteps, r) }

// planOffset splits an index by dims, innermost first. A single dim, the usual case, needs no
// division.
func planOffset(dims, steps []int, i int) int {
	at := 0
	for d := 0; d < len(dims); d++ {
		if d == len(dims)-1 {
			return at + i*steps[d]
		}
		q := i / dims[d]
		at += (i - q*dims[d]) * steps[d]
		i = q
	}
	return at
}
