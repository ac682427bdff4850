package budget

import (
	"errors"
	"math"
	"slices"

	"memopt/planner/offload"
	"memopt/planner/remat"
)

// Lent are bytes that a plan may take beside its budget, since values move to another memory and back. The live bytes
// of such a plan count, not its arena: nothing has moved in it yet.
type Lent struct {
	Link offload.Link // that values move over; the zero value moves none
	Hold int64        // bytes that the other memory holds
}

// A search for a plan whose values move counts on some of the bytes that the link can have carried at each moment, at
// most on a share of the most that it can. Where runs would wait for copies, it counts on less by a value that is
// under way, then on less around them, and searches on. Each list of shares is followed as long as plans get better.
var lentShares = [][]float64{{0.5, 0.7, 1}, {0.4, 0.3, 0.2}, {0.6}}

const (
	lentRounds = 3   // searches with one share
	lentLess   = 0.5 // of the bytes that a wait is worth, by which a moment is lent less
	lentStep   = 0.3 // of what a plan took of them, and no more at once
	moveUnit   = "us"
	lentFirst  = 0.4 // of the work of a search for a plan without moves, for the first search
	lentWork   = 0.2 // and for each other one; the last one has as much as such a search
)

// fitMoved returns the plan found whose step, with its moves, ends first.
func (b *budgeter) fitMoved() (*Answer, error) {
	if err := b.demand(); err != nil {
		return nil, err
	}
	if b.ruledOut = b.need(); b.ruledOut > b.budget {
		return nil, b.impossible()
	}
	f := &lentFit{budgeter: b, units: unitsPerSecond(b.p.Seconds), end: math.Inf(1), lowest: math.MaxInt64}
	if f.units <= 0 {
		return nil, b.infeasible()
	}
	defer b.first()()
	for _, shares := range lentShares {
		for _, share := range shares {
			before := f.end
			if err := f.share(share); err != nil {
				return nil, err
			}
			if f.end >= before || f.best != nil && b.ctx.Err() != nil {
				break
			}
		}
	}
	if f.best != nil && f.ctx.Err() == nil {
		if _, err := f.round(f.lent, max(1, int64(f.opts.Effort*effortWork))); err != nil {
			return nil, err
		}
	}
	if f.best == nil {
		return nil, &InfeasibleError{Budget: b.budget, LowestArena: f.lowest, LowestLive: f.lowest,
			Persistent: b.opts.Persistent, Stopped: b.ctx.Err() != nil}
	}
	pt, err := b.point(f.best)
	if err != nil {
		return nil, err
	}
	a := b.answer(pt)
	if step := b.tasks.stepCost(); step > 0 {
		a.Waits = f.waited * f.units / 1e6 / step
	}
	return a, nil
}

// lentFit is the state of fitMoved.
type lentFit struct {
	*budgeter
	units  float64 // of cost in a second
	known  []*remat.Answer
	best   *remat.Answer
	end    float64 // of its step, in us
	waited float64 // for copies, in us
	lent   []int64 // by place, for the best
	lowest int64   // peak beyond what was lent
}

// share looks for plans that count on a share of the bytes that the link can carry, and at no moment on more than can
// be away where all values are kept.
func (f *lentFit) share(share float64) error {
	g := f.tasks.graph
	most := g.Lend(f.opts.Lent.Link.BytesPerSecond/f.units, math.MaxInt64)
	asIs, err := f.follow(&remat.Answer{})
	if err != nil {
		return err
	}
	room := asIs.line.Room(f.opts.Lent.Link, moveUnit)
	lent := make([]int64, len(room)) // by place
	for t := range lent {
		lent[t] = min(room[t], int64(share*float64(most)), most-g.Beside[t], f.opts.Lent.Hold)
	}
	for round := range lentRounds {
		if f.best != nil && f.ctx.Err() != nil {
			return nil
		}
		m, err := f.round(lent, f.work())
		if err != nil || m == nil {
			return err
		}
		if round == 0 {
			flight := m.inFlight()
			for t := range lent {
				lent[t] = max(0, min(lent[t], room[t]-flight))
			}
		} else {
			m.lessen(lent, f.budget, f.opts.Lent.Link.BytesPerSecond/1e6)
		}
	}
	return nil
}

// round looks for a plan with bytes lent by place, and returns it as moves see it; nil where no run waits for copies,
// or no plan is found.
func (f *lentFit) round(lent []int64, work int64) (*followed, error) {
	a, err := f.search(lent, work)
	if err != nil || a == nil {
		return nil, err
	}
	m, err := f.follow(a)
	if err != nil {
		return nil, err
	}
	moves, end, ok := m.line.Moves(f.opts.Lent.Link, moveUnit, f.budget, f.opts.Lent.Hold)
	if !ok {
		return nil, nil
	}
	m.moves, m.waits = moves, m.line.Waits(moves, f.opts.Lent.Link, moveUnit)
	sum := 0.0
	for _, w := range m.waits {
		sum += w
	}
	if end < f.end {
		f.best, f.end, f.waited, f.lent = a, end, sum, slices.Clone(lent)
	}
	if sum < 1e-9*end {
		return nil, nil
	}
	return m, nil
}

// work is the counted work of the next search: most of it is that of the first one, where all others begin.
func (f *lentFit) work() int64 {
	work := f.opts.Effort * effortWork * lentWork
	if len(f.known) == 0 {
		work = f.opts.Effort * effortWork * lentFirst
	}
	return max(int64(work), 1)
}

// search looks for a plan with bytes lent by place; nil without one.
func (f *lentFit) search(lent []int64, work int64) (a *remat.Answer, err error) {
	g, most := f.tasks.graph, slices.Max(lent)
	g.Beside = make([]int64, len(lent))
	for t := range lent {
		g.Beside[t] = most - lent[t]
	}
	s := f.newSearch()
	for _, k := range f.known {
		if err := s.begin(k.Extras, k.Method); err != nil {
			return nil, err
		}
	}
	target := rounded(f.budget) + most
	if work > 1 && f.chains(work) {
		if err := s.chain(f.ctx, target); err != nil {
			return nil, err
		}
	}
	if a, err = s.Fit(f.ctx, target, work); err != nil {
		if low := (*remat.InfeasibleError)(nil); errors.As(err, &low) {
			f.lowest = min(f.lowest, low.LowestPeak-most)
			return nil, nil
		}
		return nil, err
	}
	if f.known = append(f.known, a); len(f.known) > lentRounds {
		f.known = f.known[1:]
	}
	return a, nil
}

// followed is a list of extra runs as moves see it.
type followed struct {
	line   offload.Timeline
	places []int32 // by run: the first run that it stands before, or is
	moves  []offload.Move
	waits  []float64 // by run, for copies
}

// inFlight is the size of values as copies are under way for most of the time: half of the bytes that move are of
// values up to it. Such a value is on the device, although a part of it has moved.
func (m *followed) inFlight() int64 {
	var sizes []int64
	sum, below := int64(0), int64(0)
	for _, move := range m.moves {
		sizes = append(sizes, m.line.Gaps[move.Gap].Size)
		sum += m.line.Gaps[move.Gap].Size
	}
	slices.Sort(sizes)
	for _, size := range sizes {
		if below += size; 2*below >= sum {
			return size
		}
	}
	return 0
}

// follow makes the timeline of an answer, whose bytes are those on the device before anything moves.
func (f *lentFit) follow(a *remat.Answer) (*followed, error) {
	g := f.tasks.graph
	out, err := g.Simulate(a.Extras)
	if err != nil {
		return nil, err
	}
	m := &followed{line: offload.Timeline{Bytes: out.Live}}
	used, made, life := make([]int32, len(g.Values)), make([]int32, len(g.Values)), make([]int32, len(g.Values))
	lives, place := int32(0), int32(0)
	for i, r := range g.Runs(a.Extras) {
		run, task := int32(i), &g.Tasks[r.Task]
		if !r.Extra {
			place = r.Task
		}
		m.places = append(m.places, place)
		m.line.Bytes[i] -= g.Beside[place]
		if !r.Extra {
			place++
		}
		m.line.Cost = append(m.line.Cost, float64(task.Cost)/f.units*1e6)
		for _, u := range task.Uses {
			if run-used[u] >= 2 && g.Values[u].Size > 0 && !g.Values[u].Keep && !f.tasks.isPart[u] {
				m.line.Gaps = append(m.line.Gaps, offload.Gap{Life: life[u], Size: g.Values[u].Size, Made: made[u],
					After: used[u], Before: run})
			}
			used[u] = run
		}
		for _, v := range task.Makes {
			lives++
			life[v], made[v], used[v] = lives, run, run
		}
	}
	m.line.Sort()
	return m, nil
}

// lessen lends less around runs that wait.
func (m *followed) lessen(lent []int64, budget int64, rate float64) {
	took := make([]int64, len(lent)) // by place: bytes beyond the budget
	for run, bytes := range m.line.Bytes {
		took[m.places[run]] = max(took[m.places[run]], bytes-budget)
	}
	starts, now := make([]float64, len(m.waits)), 0.0
	for run, cost := range m.line.Cost {
		starts[run] = now
		now += cost
	}
	less := make([]float64, len(lent))
	for run, wait := range m.waits {
		if wait <= 0 {
			continue
		}
		from, _ := slices.BinarySearch(starts, starts[run]-wait)
		to, _ := slices.BinarySearch(starts, starts[run]+wait)
		for p := m.places[min(from, run)]; p <= m.places[max(to-1, run)]; p++ {
			less[p] = max(less[p], wait)
		}
	}
	for p, wait := range less {
		if wait > 0 {
			take := lentLess * min(wait*rate, lentStep*float64(max(took[p], 0))+1)
			lent[p] = max(0, min(lent[p], took[p])-int64(math.Ceil(take)))
		}
	}
}
