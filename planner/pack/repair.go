package pack

import (
	"math"
	"math/rand"
	"slices"
)

// skylineRules say how jobs wait and which order decides between those that take part at the same
// height (see byLetters). The first two settle most training graphs.
var skylineRules = []struct {
	eighths int64
	order   string
}{{1, "TWA"}, {0, "AWT"}, {2, "EBS"}, {1, "TAW"}, {2, "TWA"}, {1, "EBS"}}

// repairs is the number of attempts to mend the best packing that the rules have found, unless it
// is within 1/closeEnough of the goal.
const repairs = 64

// below packs below a skyline by all rules until one gives a packing that is low enough, and
// otherwise mends the best. If the problem is too large for that, or the search is halted, there
// may be no packing.
func (p *problem) below(goal, enough int64, halt halt) answer {
	r := p.byRules(goal, enough, halt)
	if r == nil {
		return answer{}
	}
	if !r.done() {
		r.enough = goal + goal/closeEnough
		r.mend()
	}
	return r.best
}

// byRules packs below a skyline by all rules until one gives a packing that is low enough; nil where the
// problem is too large for that.
func (p *problem) byRules(goal, enough int64, halt halt) *repairer {
	s := newSkyline(p, goal)
	if s == nil {
		return nil
	}
	r := &repairer{skyline: s, enough: enough, best: answer{height: math.MaxInt64 - 1}, halt: halt}
	for _, rule := range skylineRules {
		s.waitFor(rule.eighths)
		if r.try(p.byLetters(rule.order)); r.done() {
			break
		}
	}
	return r
}

// repairer keeps the best packing below a skyline.
type repairer struct {
	*skyline
	enough int64 // no packing lower than this is looked for
	halt   halt
	best   answer
	order  []int32 // of the best packing
	wait   []int64
	over   []int32 // of the last packing that missed the goal
}

// done reports whether the best packing is low enough, or the work is used up.
func (r *repairer) done() bool { return r.best.height <= r.enough || r.looks < 0 || r.halt(0) }

// try packs, and keeps the packing if it is no higher than the best.
func (r *repairer) try(order []int32) {
	a, ok := r.pass(order, r.best.height+1, r.halt)
	r.over = append(r.over[:0], r.skyline.over...)
	if ok {
		r.best, r.order, r.wait = a, slices.Clone(order), slices.Clone(r.skyline.wait)
	}
}

// mend lets some of the jobs above the goal go earlier than in the best packing: it moves them forward
// in the order and, every other time, also has them take part as if they rested lower.
func (r *repairer) mend() {
	rng := rand.New(rand.NewSource(1))
	keys := make([]float64, len(r.jobs))
	for n := 0; n < repairs && !r.done(); n++ {
		for rank, i := range r.order {
			keys[i] = float64(rank)
		}
		copy(r.skyline.wait, r.wait)
		for _, i := range r.over {
			if len(r.over) > 2 && rng.Intn(2) == 0 {
				continue
			}
			keys[i] *= rng.Float64()
			if n%2 == 0 {
				by := rng.Float64() * rng.Float64() / 4 * float64(r.goal)
				r.skyline.wait[i] = max(r.skyline.wait[i]-int64(by), -r.goal)
			}
		}
		order := slices.Clone(r.order)
		byKeys(order, keys)
		r.try(order)
	}
}
