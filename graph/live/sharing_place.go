package live

import (
	"slices"

	"memopt/graph"
)

// cut returns the value that output slot of a step is a partial view of, and the first byte of the
// output there; NoValue if it is no such view.
func (s *simulation) cut(step *Step, slot int) (src graph.ValueID, at int64) {
	q := &s.share
	if !q.on || step.Slices == nil || step.Memory != AsKind || step.Slices.Join || slot >= len(step.Slices.At) {
		return graph.NoValue, 0
	}
	src, out, at := step.Input(0), step.Out[slot], step.Slices.At[slot]
	if at < 0 || src == graph.NoValue || out == graph.NoValue || q.declined[out]&asCut != 0 ||
		!q.mayCut(s.p, step, slot) || q.states[q.shown[src]] && s.pinned[out] {
		return graph.NoValue, 0
	}
	return src, at
}

// keepCut lets the parts of a step's input 0 keep it alive.
func (s *simulation) keepCut(step *Step) {
	for slot, out := range step.Out {
		if src, _ := s.cut(step, slot); src != graph.NoValue {
			s.keep[src] = max(s.keep[src], s.keep[out])
			s.pinned[src] = s.pinned[src] || s.pinned[out]
		}
	}
}

// join marks the values that are written into the buffer of another value, from the last step back.
// A part with a longer lifetime than the whole is not marked: it would keep all of it alive.
func (s *simulation) join() {
	q, p := &s.share, s.p
	n := len(p.Bytes)
	q.into, q.intoAt = zeroed(q.into, n), zeroed(q.intoAt, n)
	q.first, q.next, q.parted = zeroed(q.first, n), zeroed(q.next, n), zeroed(q.parted, n)
	q.stamp, q.shared = zeroed(q.stamp, n), 0
	for i := len(p.Steps) - 1; i >= 0; i-- {
		step := &p.Steps[i]
		eachPart(step, func(slot int, part, whole graph.ValueID) {
			v := q.shown[part]
			if s.same(v, part) && q.mayJoin(p, step, slot) && s.free(v) && s.keep[v] <= s.keep[whole] {
				q.into[v], q.intoAt[v] = whole+1, step.Slices.At[slot]
			}
		})
		s.bequeathPlace(int32(i), step)
	}
}

// free reports whether a value's place is not settled yet.
func (s *simulation) free(v graph.ValueID) bool {
	q := &s.share
	if q.into[v] != 0 || q.declined[v]&asPart != 0 {
		return false
	}
	maker := &s.p.Steps[q.maker[v]-1]
	src, _ := s.cut(maker, slices.Index(maker.Out, v))
	return src == graph.NoValue
}

// bequeathPlace lets an input lie at the place of the output that a step writes over it.
func (s *simulation) bequeathPlace(at int32, step *Step) {
	q, out := &s.share, step.Output0()
	if out == graph.NoValue || q.into[out] == 0 {
		return
	}
	for _, slot := range step.inPlace() {
		in := step.Input(slot)
		if in == graph.NoValue || !s.same(in, out) {
			continue
		}
		if v := q.shown[in]; s.same(v, in) && q.mayLie(s.p, v, s.p.Bytes[in]) && s.free(v) && s.keep[v] == at+1 {
			q.into[v], q.intoAt[v] = q.into[out], q.intoAt[out]
			return
		}
	}
}

// part gives output slot of a step its place in another value's buffer, if it is a part.
func (s *simulation) part(at int32, step *Step, slot int, id graph.ValueID) bool {
	q := &s.share
	if src, offset := s.cut(step, slot); src != graph.NoValue {
		q.shared++
		s.t.Root[id] = s.t.Root[src]
		s.state.view(id, src)
		s.t.Start[id] = s.t.Start[src] + offset
		if root := s.t.Root[id]; root != graph.NoValue {
			q.parted[root] = true
			s.list(id)
		}
		return true
	}
	if s.t.Root[id] != graph.NoValue {
		return true // its buffer is there since the first part was made
	}
	if q.into[id] == 0 {
		return false
	}
	q.shared++
	s.open(at, id)
	return true
}

// open gives a value its place, and before it those that it lies in.
func (s *simulation) open(at int32, id graph.ValueID) {
	q := &s.share
	var path []graph.ValueID
	for s.t.Root[id] == graph.NoValue {
		path = append(path, id)
		if q.into[id] == 0 {
			break
		}
		id = q.into[id] - 1
	}
	for _, v := range slices.Backward(path) {
		if q.into[v] == 0 {
			s.t.Root[v], s.t.Ranges[v] = v, Range{at, s.keep[v]}
			q.parted[v] = true
		} else {
			whole := q.into[v] - 1
			s.t.Root[v], s.t.Start[v] = s.t.Root[whole], s.t.Start[whole]+q.intoAt[v]
		}
		s.list(v)
	}
}

// list notes that a value lies in its root.
func (s *simulation) list(v graph.ValueID) {
	q, root := &s.share, s.t.Root[v]
	q.next[v], q.first[root] = q.first[root], v+1
}

// vacant reports whether the bytes of a value, which lies in a root with parts, are free after a
// step.
func (s *simulation) vacant(at int32, v graph.ValueID) bool {
	q, t := &s.share, &s.t
	if s.log != nil {
		s.log.Placed = true
	}
	lo, hi := t.Start[v], t.Start[v]+s.p.Bytes[v]
	for w := q.first[t.Root[v]]; w != 0; w = q.next[w-1] {
		if m := w - 1; t.Start[m] < hi && lo < t.Start[m]+s.size(m) && (s.lastUse[m] > at+1 || s.pinned[m]) {
			return false
		}
	}
	return true
}
