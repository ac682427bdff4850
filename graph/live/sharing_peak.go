package live

import "memopt/graph"

// decline keeps those parts from sharing that hold unneeded bytes live at the peak. It reports
// whether there are any.
func (s *simulation) decline() bool {
	any := s.declineCuts(int32(s.t.Peak.Step))
	return s.declineParts(int32(s.t.Peak.Step)) || any
}

// declineCuts declines the parts that keep a buffer alive after other parts of it are dead.
func (s *simulation) declineCuts(peak int32) (any bool) {
	q := &s.share
	for i := range s.p.Steps[:peak] {
		step := &s.p.Steps[i]
		if step.Slices == nil || step.Slices.Join {
			continue
		}
		src := step.Input(0)
		if src == graph.NoValue || s.t.Root[src] == graph.NoValue || s.lastUse[src] > peak {
			continue
		}
		var live int64
		for slot, out := range step.Out {
			if whole, _ := s.cut(step, slot); whole != graph.NoValue && s.keep[out] > peak {
				live += s.p.Bytes[out]
			}
		}
		if live == 0 || live >= s.p.Bytes[src] {
			continue
		}
		for slot, out := range step.Out {
			if whole, _ := s.cut(step, slot); whole != graph.NoValue && s.keep[out] > peak {
				q.declined[out] |= asCut
				any = true
			}
		}
	}
	return any
}

// declineParts declines the parts that begin a buffer before all of it is made.
func (s *simulation) declineParts(peak int32) (any bool) {
	q := &s.share
	clear(q.filled)
	made := func(v int) (whole graph.ValueID, ok bool) {
		whole = q.into[v] - 1
		return whole, whole >= 0 && q.maker[v] <= peak+1 && q.maker[whole] > peak+1
	}
	for v := range q.into {
		if whole, ok := made(v); ok && s.keep[v] > peak {
			q.filled[whole] += s.p.Bytes[v]
		}
	}
	for v := range q.into {
		if whole, ok := made(v); ok && q.filled[whole] < s.p.Bytes[whole] {
			q.declined[v] |= asPart
			q.declined[whole] |= asPart
			any = true
		}
	}
	return any
}

// familyNeed is the bytes that a step needs under any sharing: of the values that may lie in one
// buffer, the largest operand.
func (s *simulation) familyNeed(at int32, step *Step) int64 {
	need := addSat(step.Inner, s.largest(at+1, step.In, step.Out))
	out := step.Output0()
	if out == graph.NoValue || step.view() {
		return need
	}
	for _, slot := range step.inPlace() {
		if in := step.Input(slot); in != graph.NoValue && s.p.Bytes[in] == s.p.Bytes[out] {
			return need - min(need, s.size(out))
		}
	}
	return need
}

// largest sums the largest values of each family, without those that are in no arena. stamp is
// another one at every call.
func (s *simulation) largest(stamp int32, lists ...[]graph.ValueID) (total int64) {
	q := &s.share
	for _, list := range lists {
		for _, v := range list {
			if v == graph.NoValue {
				continue
			}
			f := q.of(v)
			if q.fixed[f] {
				continue
			}
			if q.stamp[f] != stamp {
				q.stamp[f], q.most[f] = stamp, 0
			}
			if n := s.size(v); n > q.most[f] {
				total = addSat(total, n-q.most[f])
				q.most[f] = n
			}
		}
	}
	return total
}
