package budget

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"memopt/internal/timelimit"
	"memopt/planner/arena"
	"memopt/planner/remat"
)

// climb searches the rungs that count for the budget. A first plan is found at once; if time runs
// out, the cheapest so far is the answer.
func (b *budgeter) climb() error {
	if bound := b.peakBound(lowestWork); bound > rounded(b.budget) {
		b.ruledOut = max(b.ruledOut, bound-(arena.Alignment-1))
		return nil // the budget is proved infeasible
	}
	first := b.newSearch()
	b.tried = first
	if b.opts.Brief || b.opts.Effort <= 0 || b.opts.Solver == "greedy" || b.huge() {
		return b.searchFirst(first)
	}
	quick, err := b.quickest(first)
	if err == nil && !quick {
		err = b.searchFirst(first)
	}
	if err != nil {
		return err
	}
	defer b.within(b.share)()
	known, total := len(b.points), int64(b.opts.Effort*effortWork)
	if b.opts.At {
		return b.search(first, b.budget, total)
	}
	search := b.blocks
	if len(b.tasks.graph.Tasks) <= ladderTasks {
		search = b.ladder
	}
	if err := search(total); err != nil || b.ctx.Err() != nil {
		return err
	}
	switch {
	case b.cheapestOf(b.points[known:], b.budget) != nil:
		b.points = slices.Delete(b.points, 1, known) // the first plan depends on the budget
	case quick:
		return b.searchFirst(first)
	}
	return nil
}

// searchFirst adds a first plan, if there is one.
func (b *budgeter) searchFirst(s *halves) error {
	defer b.first()()
	return b.search(s, b.budget, b.opts.First)
}

// quickest adds the plan that a limit of 0 would have found, and reports whether there is one, so that more time
// never finds less. Without a deadline, or where all work is done at one budget, it has no effect.
func (b *budgeter) quickest(s *halves) (found bool, err error) {
	if _, ok := b.ctx.Deadline(); !ok || b.opts.At {
		return false, nil
	}
	defer b.first()()
	stopped := b.stopped
	done := b.limited(timelimit.Counted(b.ctx, quickWork(len(b.tasks.graph.Tasks))))
	b.quick = true
	err = b.search(s, b.budget, 0)
	b.quick = false
	done()
	b.stopped = stopped
	return b.cheapest(b.budget) != nil, err
}

// From hugeTasks tasks on, a plan for a budget is the greedy one, and its only bound is that of single runs.
// Improving it, dynamic programming over layers, and cuts keep hundreds of bytes per task for several searches
// at a time, and would not get far.
const hugeTasks = 500_000

func (b *budgeter) huge() bool { return len(b.tasks.graph.Tasks) > hugeTasks }

// peakBound is a lower bound on the peak of rounded sizes, for so much counted work.
func (b *budgeter) peakBound(work int64) int64 { return b.boundOf(b.tasks, work) }

func (b *budgeter) boundOf(t *tasks, work int64) int64 {
	if b.huge() {
		return t.loose.Need()
	}
	return t.loose.PeakBound(b.ctx, work)
}

// ladder searches all rungs up to the budget, from the lowest peak that can be reached on.
func (b *budgeter) ladder(total int64) error {
	s := b.newSearch()
	low, err := s.Lowest(b.ctx, max(total/2, lowestWork))
	if err != nil {
		return err
	}
	if err := b.add(low); err != nil || low.Peak > rounded(b.budget) {
		return err
	}
	for k := 1; k <= b.top() && b.ctx.Err() == nil; k++ {
		if b.rung(k)+arena.Alignment <= low.Peak {
			continue
		}
		if err := b.search(s, b.rung(k), total/(rungs/2)); err != nil {
			return err
		}
	}
	return b.search(s, b.budget, 0) // the range between the last rung and the budget
}

// blocks searches the rungs up to the budget in two blocks.
func (b *budgeter) blocks(total int64) error {
	top := b.top()
	var s *halves
	for k := max(1, (top/blockSize-1)*blockSize); k <= top && b.ctx.Err() == nil; k++ {
		if s == nil || k%blockSize == 0 {
			s = b.newSearch()
		}
		if err := b.search(s, b.rung(k), total/(2*blockSize)); err != nil {
			return err
		}
	}
	return nil
}

// top is the last rung within the budget, 0 if there is no such rung.
func (b *budgeter) top() int {
	top := min(int(float64(b.budget)/float64(b.p.Base.Peak.Bytes)*rungs)+1, rungs)
	for top > 0 && b.rung(top) > b.budget {
		top--
	}
	return top
}

// rung is the budget of a rung.
func (b *budgeter) rung(k int) int64 {
	return int64(float64(b.p.Base.Peak.Bytes)*float64(k)/rungs) - rungSlack
}

// rounded is the highest peak of rounded sizes whose arena may be within a budget: the end of the
// highest buffer is not rounded up.
func rounded(budget int64) int64 {
	return min(budget, math.MaxInt64-arena.Alignment) + arena.Alignment - 1
}

// search adds the cheapest plan within a budget that a search finds, if there is one.
func (b *budgeter) search(s *halves, budget, work int64) error {
	target, known, tries := rounded(budget), len(b.points), packTries
	if b.quick {
		tries = quickTries
	}
	for try := range tries {
		if b.chains(work) {
			if err := s.chain(b.ctx, target); err != nil {
				return err
			}
		}
		done := b.counted(fitShare)
		answer, err := s.Fit(b.ctx, target, work)
		done()
		if errors.Is(err, remat.ErrInfeasible) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.add(answer); err != nil {
			return err
		}
		pt := &b.points[len(b.points)-1]
		if pt.arena <= budget {
			return nil
		}
		if try > 0 && b.quick && b.ctx.Err() != nil {
			break // its layout is no measure of a plan's arena
		}
		target = min(target, answer.Peak) - (pt.arena - budget)
	}
	if !b.quick || len(b.points) == known {
		return nil
	}
	return b.repack(slices.MinFunc(b.points[known:], func(p, q point) int { return cmp.Compare(p.arena, q.arena) }))
}

// repack packs a plan that a quick layout has not brought within the budget, with the work that is left.
func (b *budgeter) repack(pt point) error {
	out, err := b.packed(&pt)
	if err != nil || out == &pt {
		return err
	}
	b.points = append(b.points, *out)
	if out.arena <= b.opts.Bytes {
		b.opts.found()
	}
	b.tell()
	return nil
}

// chains tells whether to ask for answers by dynamic programming over layers. In graphs small enough
// for a ladder that takes longer than it saves.
func (b *budgeter) chains(work int64) bool {
	return work > 0 && b.opts.Solver != "lns" && len(b.tasks.graph.Tasks) > ladderTasks
}

// add takes an answer of the search into the set.
func (b *budgeter) add(a *remat.Answer) error {
	pt, err := b.point(a)
	if err != nil {
		return err
	}
	b.points = append(b.points, *pt)
	if !b.runtime && pt.arena <= b.opts.Bytes {
		b.opts.found()
	}
	b.tell()
	return nil
}

// tell reports the progress so far.
func (b *budgeter) tell() {
	if b.opts.Progress == nil {
		return
	}
	p := Progress{LowestArena: b.smallest()}
	if best := b.cheapest(b.opts.Bytes); best != nil && !b.runtime {
		p.Fits = true
		if step := b.tasks.stepCost(); step > 0 {
			p.Overhead = float64(best.cost) / step
		}
	}
	b.opts.Progress(p)
}

// over reports whether a layout is above the budget, and one with more work may not be.
func (b *budgeter) over(l *arena.Layout) bool {
	return l.Bytes > b.budget && l.LowerBound <= rounded(b.budget) && !l.Final
}

// point evaluates an answer of the search by the simulator and packs it.
func (b *budgeter) point(a *remat.Answer) (*point, error) {
	pt := &point{extras: b.withForced(a.Extras), cost: a.Cost, method: a.Method}
	if len(b.forced) > 0 || len(b.tasks.graph.Fixed) > 0 {
		pt.cost = 0
		for _, x := range pt.extras {
			pt.cost += b.tasks.graph.Tasks[x.Task].Cost
		}
	}
	pt.placements = b.tasks.placements(pt.extras)
	e, err := b.p.Evaluator.Simulate(pt.placements)
	if err != nil {
		return nil, err
	}
	if b.quick {
		pt.layout = e.FirstLayout(b.ctx, b.budget)
	} else {
		pt.layout = e.QuickLayout(b.ctx)
	}
	if many := len(pt.layout.Offsets) > ladderTasks; b.over(pt.layout) && !(b.quick && many) {
		done := b.counted(layoutShare)
		pt.layout = e.Layout(b.ctx) // it may fit after all
		done()
	}
	pt.live, pt.arena = e.Peak, pt.layout.Bytes
	return pt, nil
}
