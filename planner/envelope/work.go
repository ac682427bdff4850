package envelope

import "memopt/symbolic"

// Work is how much may still be done to find formulas. It is counted, so that the same input gives the
// same answer on every machine: a unit is about the work of looking at one term of an expression.
type Work struct{ left int64 }

// NewWork allows so many units.
func NewWork(units int64) *Work { return &Work{units} }

// stepWork is the units of one simulated step, with the sizes that it needs.
const stepWork = 100

func (w *Work) spend(units int) { w.left -= int64(units) }

func (w *Work) done() bool { return w.left <= 0 }

// region is a box with the ranges that proofs in it need.
type region struct {
	Box
	bounds symbolic.Bounds
	fixed  symbolic.Env
	wide   []Axis // the axes with more than one value
	low    symbolic.Env
	high   symbolic.Env
	work   *Work
}

func newRegion(b Box, w *Work) *region {
	r := &region{Box: b, bounds: b.bounds(), fixed: b.fixed(), low: b.Low(), high: b.High(), work: w}
	for _, a := range b {
		if a.Lo != a.Hi {
			r.wide = append(r.wide, a)
		}
	}
	return r
}
