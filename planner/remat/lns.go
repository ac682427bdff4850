package remat

import "math"

// Numbers of the large neighbourhood search. Temperatures are in units of the mean cost of a task.
const (
	lnsHot   = 0.25
	lnsWarm  = 0.1 // first temperature where there is a good answer
	lnsCold  = 0.01
	lnsRound = 2000 // steps of the first round, from hot to cold; each later one is longer by half
	lnsAll   = 48   // up to so many tasks held over a run, all are scored, for a repair
	lnsSome  = 16   // tasks scored where there are more
	lnsCut   = 0.5  // scores so far below the best do not matter
	lnsWide  = 6    // most extra runs taken out at once, but for stages as a whole
)

// improve changes the cheapest answer known at random until the work is used up, in rounds that get
// longer.
func (s *Search) improve() {
	d := s.d
	for !s.stop() {
		d.load(s.within(d.budget).Extras)
		if s.round == 0 {
			s.round = max(lnsRound, 2*len(d.extras))
		}
		if s.anneal(s.round, lnsHot); d.bare() {
			return
		}
		s.round += s.round / 2
	}
}

// anneal makes so many steps from a list of extra runs within the budget: each takes out some runs
// that have to do with each other and drops other values until the budget holds again (ruin and
// recreate). A worse list is accepted with a chance that falls with the temperature. The cheapest
// lists are kept.
func (s *Search) anneal(steps int, hot float64) {
	d := s.d
	d.all, d.some, d.cut = lnsAll, lnsSome, lnsCut
	d.patience, d.longest = 0, 0
	low, saved := d.cost, d.work
	fall := math.Pow(lnsCold/hot, 1/float64(steps))
	t := hot * float64(s.base) / float64(len(s.g.Tasks))
	for range steps {
		if d.bare() || s.stop() {
			break
		}
		s.step(-t * math.Log(1-s.rng.Float64()))
		if d.cost < low && d.work-saved > int64(len(d.extras)) { // a copy costs as much as a few steps
			low, saved = d.cost, d.work
			s.keep("lns")
		}
		t *= fall
	}
	s.keep("lns")
}

// step makes one change, which may make the list dearer by room.
func (s *Search) step(room float64) {
	d := s.d
	before := d.cost
	d.turn++
	d.dropRule = randomDropRule(s.rng)
	d.dropRule.reruns = 24
	x := d.extras[s.rng.IntN(len(d.extras))]
	stage := x.Before
	if s.rng.IntN(4) == 0 {
		s.force(x)
	} else {
		s.ruin(x)
	}
	most := before + int64(room)
	if !s.repair(most) {
		d.undo(0)
		return
	}
	s.tidyNear(stage)
	if d.cost > most || d.peak() > d.budget {
		d.undo(0)
		return
	}
	d.forget()
}

// ruin takes out x and some extra runs that have to do with it.
func (s *Search) ruin(x Extra) {
	d := s.d
	bar := func(t int32) {
		if s.rng.IntN(2) == 0 {
			d.barred[t] = d.turn
		}
	}
	bar(x.Task)
	d.prune(x)
	switch s.rng.IntN(4) {
	case 0: // other extra runs near there
		for k := 1 + s.rng.IntN(lnsWide); k > 0; k-- {
			if y, ok := s.near(x.Before); ok {
				bar(y.Task)
				d.prune(y)
			}
		}
	case 1: // its other runs
		for k := 1; k < len(d.runs[x.Task]); {
			y := Extra{x.Task, d.runs[x.Task][k]}
			if d.prune(y); d.isFixed(y) {
				k++
			}
		}
	}
}

// near is an extra run of a stage close to the given one.
func (s *Search) near(stage int32) (Extra, bool) {
	d := s.d
	step, n := int32(1), int32(len(d.stages))
	if s.rng.IntN(2) == 0 {
		step = -1
	}
	for k := s.rng.IntN(8); k < 40; k++ {
		if stage += step; stage < 0 || stage >= n {
			break
		}
		if list := d.stages[stage]; len(list) > 1 {
			return Extra{list[s.rng.IntN(len(list)-1)].task, stage}, true
		}
	}
	return Extra{}, false
}

// force drops something at a run near x though there is no need, so that other extra runs may
// become needless.
func (s *Search) force(x Extra) {
	d := s.d
	p := at(x.Before, x.Before)
	d.collect(p, false)
	if len(d.drops) > 0 {
		if _, ok := d.review(d.drops[0], p); ok {
			d.apply()
		}
	}
}

// repair brings the peak back within the budget, and reports whether that worked for no more than
// most.
func (s *Search) repair(most int64) bool {
	d := s.d
	for k := 0; d.peak() > d.budget; k++ {
		if k > 100 || d.cost > most || !d.relieve(d.worst(), s.stop) {
			return false
		}
	}
	return true
}

// tidyNear tries to take out some extra runs around a stage.
func (s *Search) tidyNear(stage int32) {
	for range 4 {
		if y, ok := s.near(stage); ok {
			s.d.tryRemove(y)
		}
	}
}
