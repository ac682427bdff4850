package remat

import "slices"

// From searchNodes nodes on, a Search gives the first schedules and works beside the tape.
const searchNodes = 300

// Up to tapeNodes nodes, the sets of a tape are affordable.
const tapeNodes = 4096

// sliceWork is the counted work of a Search between two looks at the results of others. It grows
// from slice to slice.
const sliceWork = 400_000

// graph is the problem in its general form. Aliases become values without bytes whose readers read
// the source too. There an alias outlives the memory that it points to; see withAliases. Where an
// alias reads more than its source, which may be gone by then, the source never runs again.
func (p *single) graph() *Graph {
	g := &Graph{Tasks: make([]Task, p.n), Values: make([]Value, p.n)}
	makes := make([]int32, p.n)
	for v := range g.Tasks {
		makes[v] = int32(v)
		g.Tasks[v] = Task{Cost: p.cost[v], Workspace: p.work[v], Uses: p.uses[v], Makes: makes[v : v+1 : v+1],
			Once: p.needy(int32(v))}
		g.Values[v] = Value{Size: p.size[v], Keep: p.keep[v]}
	}
	return g
}

// needy tells whether an alias of v reads other values that are no views of it.
func (p *single) needy(v int32) bool {
	return slices.ContainsFunc(p.sharers[v], func(w int32) bool {
		return slices.ContainsFunc(p.uses[w], func(u int32) bool {
			return u != v && !slices.Contains(p.sharers[v], u) && !slices.Contains(p.sharers[u], v)
		})
	})
}

// runSearch has a Search look for schedules for so much counted work.
func (s *solver) runSearch(work int64) {
	if s.search == nil {
		s.search = NewSearch(s.single.graph(), s.opts.Seed)
	}
	before := s.search.d.work
	s.stage = "lns"
	answer, err := s.search.Fit(s.ctx, s.budget, work)
	if err == nil {
		s.stage = answer.Method
		s.offer(s.withAliases(s.search.sequence(answer.Extras)))
	} else if len(s.search.known) > 0 {
		s.offer(s.withAliases(s.search.sequence(s.search.known[0].Extras))) // for the lowest peak
	}
	s.work += s.search.d.work - before
}

// sequence is the tasks of all runs in order.
func (s *Search) sequence(extras []Extra) []int32 {
	runs := s.g.Runs(extras)
	seq := make([]int32, len(runs))
	for i, r := range runs {
		seq[i] = r.Task
	}
	return seq
}

// share tells the Search of the best schedule, as far as its form allows: in it, extra runs between
// two first ones are sorted.
func (s *solver) share() {
	if s.search == nil || s.best == nil {
		return
	}
	var extras []Extra
	next := int32(0)
	for _, v := range s.best {
		if v == next {
			next++
		} else {
			extras = append(extras, Extra{v, next})
		}
	}
	_ = s.search.Add(extras, "lns")
}

// withAliases puts in a compute of each alias that is read after its source was computed anew, right
// before it is read. Its other inputs must be live there; peak tells.
func (p *single) withAliases(seq []int32) []int32 {
	if p.sources == nil {
		return seq
	}
	made := make([]int, p.n) // by node: the place of its newest compute, in out
	out := make([]int32, 0, len(seq))
	var renew func(v int32)
	renew = func(v int32) {
		s := p.sources[v]
		if s < 0 {
			return
		}
		if renew(s); made[s] > made[v] {
			made[v] = len(out) + 1
			out = append(out, v)
		}
	}
	for _, v := range seq {
		for _, u := range p.uses[v] {
			renew(u)
		}
		out = append(out, v)
		made[v] = len(out)
	}
	return out
}
