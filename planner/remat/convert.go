package remat

// searchNodes is the size from which a Search gives the first schedules and works beside the tape.
const searchNodes = 300

// tapeNodes is the size up to which the sets of a tape are affordable.
const tapeNodes = 4096

// sliceWork is the counted work of a Search between two looks at what else is known. It grows from
// slice to slice.
const sliceWork = 400_000

// graph is the problem in its general form. Aliases become values without bytes whose readers read
// the source too, and a source never runs again, so that no alias of it outlives what it points to.
func (p *single) graph() *Graph {
	g := &Graph{Tasks: make([]Task, p.n), Values: make([]Value, p.n)}
	makes := make([]int32, p.n)
	for v := range g.Tasks {
		makes[v] = int32(v)
		g.Tasks[v] = Task{
			Cost: p.cost[v], Workspace: p.work[v], Uses: p.uses[v], Makes: makes[v : v+1 : v+1],
			Once: p.sharers[v] != nil,
		}
		g.Values[v] = Value{Size: p.size[v], Keep: p.keep[v]}
	}
	return g
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
		if answer.Method == "greedy" {
			s.stage = "greedy"
		}
		s.offer(s.search.sequence(answer.Extras))
	} else if len(s.search.known) > 0 {
		s.offer(s.search.sequence(s.search.known[0].Extras)) // for the lowest peak
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
	// A list with a second run of an alias's source is rejected, which is fine: the tape keeps it.
	_ = s.search.Add(extras, "lns")
}
