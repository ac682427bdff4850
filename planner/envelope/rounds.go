package envelope

import (
	"slices"

	"memopt/graph/live"
	"memopt/symbolic"
)

// race is the doubt whether one of some loads is always the first of the largest.
type race struct {
	loads []Load
	first int // the place of that load in the list
}

func (r race) open(in *region) (question, bool) {
	c := newContest(in, r.loads)
	for i := range r.loads {
		if i == r.first {
			continue
		}
		q := question{of: c.loads[r.first].Sub(c.loads[i])}
		if r.loads[i].Step < r.loads[r.first].Step {
			q.of = q.of.Sub(symbolic.Const(1))
		}
		if _, open := q.open(in); open {
			return q, true
		}
	}
	return question{}, false
}

// roundDoubts are the doubts about the peaks of the executions that simulate a program with parts:
// the peak step of each, which decides about the copies of the next, and the lowest execution.
func (b *builder) roundDoubts(out *Sample, log *live.Decisions, env symbolic.Env) error {
	var peaks []Load
	for _, t := range log.Rounds {
		loads, err := b.loads(t, everyStep)
		if err != nil {
			return err
		}
		first, most := 0, int64(-1)
		for i, l := range loads { // of equal loads the first is kept, and it is the first that peaks
			if n, err := l.Bytes.Eval(env); err == nil && l.Step == t.Peak.Step && n > most {
				first, most = i, n
			}
		}
		out.doubts = append(out.doubts, race{loads, first})
		peaks = append(peaks, loads[first])
	}
	for i := range peaks {
		for k := range i {
			out.doubts = append(out.doubts, question{of: peaks[i].Bytes.Sub(peaks[k].Bytes), equal: true})
		}
	}
	return nil
}

// duel is the doubt whether the peak of some loads is at most that of others.
type duel struct{ loads, others []Load }

// AskPeaks notes that the sample depends on whether the peak of some loads is at most that of others.
func (s *Sample) AskPeaks(loads, others []Load) { s.doubts = append(s.doubts, duel{loads, others}) }

// Adopt adds the dependencies of another sample to this one.
func (s *Sample) Adopt(other *Sample) {
	s.doubts, s.work = append(s.doubts, other.doubts...), s.work+other.work
}

func (d duel) open(r *region) (question, bool) {
	x, y := worst(r, d.loads), worst(r, d.others)
	least := func(l, m Load, gap int64) bool { // m is at least l and the gap
		return r.notNegative(m.Bytes.Sub(l.Bytes).Sub(symbolic.Const(gap)).Bind(r.fixed))
	}
	if all(x, func(l Load) bool { return slices.ContainsFunc(y, func(m Load) bool { return least(l, m, 0) }) }) ||
		slices.ContainsFunc(x, func(l Load) bool { return all(y, func(m Load) bool { return least(m, l, 1) }) }) {
		return question{}, false
	}
	return question{of: y[0].Bytes.Sub(x[0].Bytes).Bind(r.fixed)}, true
}

func all(list []Load, f func(Load) bool) bool {
	return !slices.ContainsFunc(list, func(l Load) bool { return !f(l) })
}

func (r race) bind(env symbolic.Env) doubt { return race{bound(r.loads, env), r.first} }

func (d duel) bind(env symbolic.Env) doubt { return duel{bound(d.loads, env), bound(d.others, env)} }

func bound(loads []Load, env symbolic.Env) []Load {
	out := slices.Clone(loads)
	for i := range out {
		out[i].Bytes = out[i].Bytes.Bind(env)
	}
	return out
}
