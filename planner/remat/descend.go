package remat

import "slices"

const (
	firstWork = 20_000_000 // a call without work gives up after this and
	firstPart = 2000       // so much by task
	// Constructions from the plain order without success before the budget is approached in steps.
	freshTries   = 3
	dearest      = 8          // a construction gives up when its extra runs cost so many times the first runs
	mostBuilding = 50_000_000 // most work that buildingPart divides, besides that of three constructions
	buildingPart = 8          // constructions may take this part of the work once there is an answer
	behindCut    = 2          // or so many times the work of the cut that gave one
	seedWork     = 10_000_000 // of a cut to start from,
	seedPart     = 200        // and so much by task
	cutsByWork   = 8          // pieces of a cut's work that take as long as one of a construction
)

// construct looks for first answers: from the cut that proves most, then by the rules from the plain order or
// a known answer above the budget. It reports whether there is one or the call must end.
func (s *Search) construct(work int64) bool {
	d := s.d
	whole := s.limit
	defer func() { s.limit = whole }()
	for try := -1; !s.stop(); try++ {
		best, most, start := s.within(d.budget), dearest*s.base, d.work
		switch {
		case try < 0:
			if s.took = 0; s.buildCut(most) {
				s.limit = min(whole, d.work+max(work/buildingPart, behindCut*(d.work-start)))
			}
			continue
		case best == nil && try >= freshTries:
			return false
		case best != nil && (try >= 2*len(dropRules) || s.took > work/buildingPart):
			return true
		case best != nil:
			most = min(most, 2*best.Cost)
			work -= buildingPart * s.took
		}
		var from []Extra
		if try%3 == 1 {
			from = s.above(d.budget)
		}
		if s.build(try, from, most) {
			s.took = d.work - start
			work = min(work, mostBuilding+3*buildingPart*s.took)
		}
	}
	return true
}

// buildCut makes constructions from the cheapest mixture of cuts and from the list of CutExtras.
func (s *Search) buildCut(most int64) bool {
	d := s.d
	work := min(seedWork+seedPart*int64(len(s.g.Tasks)), infinite/cutsByWork)
	b := newBounder(s.ctx, newMoments(s.g), d.budget, work)
	b.run()
	start, did := b.spent(), false
	d.work += start / cutsByWork
	if tasks := b.mixed(); tasks != nil {
		did = s.grow(dropRules[0], s.g.FromCut(tasks, b.at), most, "cut")
	}
	if best := s.within(d.budget); best == nil || best.Cost > b.best {
		if tasks := b.suggestion(); tasks != nil {
			did = s.grow(dropRules[0], s.g.FromCut(tasks, b.at), most, "cut") || did
		}
	}
	d.work += (b.spent() - start) / cutsByWork
	return did
}

// build makes one construction by a rule from a list of extra runs, and reports whether it came within the
// budget for no more than most.
func (s *Search) build(try int, from []Extra, most int64) bool {
	rule := randomDropRule(s.rng)
	if try < len(dropRules) {
		rule = dropRules[try]
	}
	return s.grow(rule, from, most, "greedy")
}

// grow makes drops by a rule from a list of extra runs until it is within the budget, and takes out those that
// turn out to be needless.
func (s *Search) grow(rule dropRule, from []Extra, most int64, method string) bool {
	d := s.d
	d.all, d.some, d.cut = dropAll, sampleSize(len(d.runs)), dropCut
	d.patience, d.longest = dropPatience, mostReruns
	d.dropRule = rule
	d.load(from)
	ok := d.lower(most, func() { s.keep(method) }, s.stop)
	d.tidy()
	s.keep(method)
	d.forget()
	return ok
}

// above is the known list of extra runs with the lowest peak above the budget; nil if there is no
// such list: the plain order may be within it, and only its arena not.
func (s *Search) above(budget int64) []Extra {
	i := slices.IndexFunc(s.known, func(a Answer) bool { return a.Peak > budget })
	if i < 0 {
		return nil
	}
	return s.known[i].Extras
}

// Numbers of the descent, in parts of the distance between the lowest peak reached and the lower
// bound on every schedule.
const (
	strideFirst = 1.0 / 16
	strideLast  = 1.0 / 4096
	strideMoves = 400 // moves of the neighbourhood search between two strides, besides one for every eight extra runs
)

// descend looks for answers with lower and lower peaks down to target: each is made from the one
// before, after some search for a cheaper one, which leaves more room. Strides get longer with
// success and shorter with failure.
func (s *Search) descend(target int64) {
	d := s.d
	defer func() { d.budget = s.goal }()
	stride := strideFirst
	for try := 0; stride >= strideLast && !s.stop(); try++ {
		low := s.known[0]
		if low.Peak <= target {
			return
		}
		d.budget = low.Peak
		d.load(low.Extras)
		s.anneal(strideMoves+len(d.extras)/8, lnsWarm)
		if s.stop() {
			return
		}
		d.budget = max(target, low.Peak-max(1, int64(stride*float64(low.Peak-s.need))))
		if s.build(try%(2*len(dropRules)), s.within(low.Peak).Extras, dearest*s.base+2*low.Cost) {
			stride = min(2*stride, 0.5)
		} else {
			stride /= 2
		}
	}
}
