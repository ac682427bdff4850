package remat

import (
	"context"
	"math"
	"slices"
)

const (
	exactNodes    = 256     // more do not fit into a nodeSet
	exactStates   = 1 << 20 // the most states kept by a search
	exactCompared = 4096    // expanded states that a state is compared with
	exactPrices   = 48      // price cuts that are tried for each new state
)

// exactSearch looks for the cheapest schedule in the given order by A* (Hart, Nilsson and Raphael,
// 1968), from the last run to the first. A moment is described by the values that the runs behind
// it need live and by how many first runs are left before it; the step before is the last of these,
// or an extra run of a wanted task. Seen from the end, frees need no decision: a value is live from
// the run that makes it to its last reader.
//
// The bound on the extra runs before a state is the one of costBound, whose needed values are those
// that are wanted or read by the first runs left. New states take the best of some bounds known
// (see priceCut); a state that is about to be expanded gets a bound of its own.
type exactSearch struct {
	*single
	exactTable
	queue  exactQueue
	below  int64       // schedules with extra runs of this cost or more are not wanted
	reads  [][]nodeSet // by t and left: values read by first runs behind t and below left
	kept   nodeSet
	bound  *bounder
	prices []*priceCut
	found  *priceCut // the price cut of the bound at work
	priced bool      // there is one
	work   int64

	expanded [][]int32 // by left
}

// newExactSearch starts a search. The extra runs of all schedules are known to cost no less than
// low.
func newExactSearch(ctx context.Context, p *single, low int64) *exactSearch {
	e := &exactSearch{
		single: p, below: math.MaxInt64, reads: make([][]nodeSet, p.n+1), expanded: make([][]int32, p.n+1),
	}
	for t := range p.n {
		e.reads[t] = make([]nodeSet, p.n+1)
		for left := t + 2; left <= p.n; left++ {
			e.reads[t][left] = e.reads[t][left-1]
			for _, u := range p.uses[left-1] {
				e.reads[t][left].add(u)
			}
		}
		if p.keep[t] {
			e.kept.add(int32(t))
		}
	}
	m := newMoments(p.relaxation())
	e.bound = newBounder(ctx, m, p.budget, 0)
	e.bound.windows(p.n, math.MaxInt64)
	e.work = e.bound.spent()
	e.bound.better = e.price
	e.offer(&exactState{wanted: e.kept, left: int32(e.n), ran: -1, behind: -1, bytes: e.bytesOf(&e.kept), bound: low})
	return e
}

// price takes down the price cut that proves the bound at work.
func (e *exactSearch) price() {
	if e.found == nil {
		e.found = &priceCut{}
	}
	cut := e.bound.cut
	e.found.t, e.found.scale, e.found.penalty = cut.t, cut.scale, cut.free
	e.found.before = e.bound.before[cut.t]
	e.priced = true
	e.found.paths = cut.takeApart(e.found.paths[:0])
}

// refined is the bound of a state by itself, math.MaxInt64 if no schedule before it fits. The
// search for it ends when it is enough to drop the state.
func (e *exactSearch) refined(s *exactState) int64 {
	b := e.bound
	b.restart(int(s.left))
	b.enough, e.priced = e.below-s.cost, false
	s.wanted.each(func(v int32) { b.last[v] = s.left })
	before := b.work + b.cut.work()
	b.run()
	e.work += b.work + b.cut.work() - before
	return b.best
}

// keepPrice adds the price cut of the last refined bound to those that new states try. The least
// useful one makes room.
func (e *exactSearch) keepPrice() {
	if !e.priced {
		return
	}
	e.prices = append(e.prices, e.found)
	e.found = nil
	if len(e.prices) > exactPrices {
		least := 0
		for i, c := range e.prices[:len(e.prices)-1] {
			if c.hits <= e.prices[least].hits {
				least = i
			}
		}
		e.found = e.prices[least]
		e.prices = slices.Delete(e.prices, least, least+1)
		for _, c := range e.prices {
			c.hits -= c.hits / 8
		}
	}
}

// quick is the best known bound for a state.
func (e *exactSearch) quick(s *exactState) int64 {
	best, by := int64(0), -1
	for i, c := range e.prices {
		if c.t >= s.left {
			continue
		}
		e.work += int64(len(c.paths)) / 4
		if b := c.bound(&s.wanted, &e.reads[c.t][s.left]); b > best {
			best, by = b, i
		}
	}
	if by >= 0 {
		e.prices[by].hits += 16
	}
	return best
}
