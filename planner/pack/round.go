package pack

import (
	"math/bits"
	"math/rand"
)

// roundNodes is the cost limit of an exact search in the first round, beyond the node per job that
// it needs to get to the end at all.
const roundNodes = 150

// exactRuns are the rules of the exact search in the order of their trials. Each of them solves in
// a few hundred nodes problems that others do not solve in a million, so a round gives each a short
// run instead of giving the best a long one.
var exactRuns = []struct {
	by    picker
	order int // in exactOrders
	name  string
}{
	{pickLowest, 4, "lowest floor, by size"},
	{pickLowest, 1, "lowest floor, by width"},
	{pickFewest, 1, "fewest candidates, by width"},
	{pickLowest, 2, "lowest floor, by total"},
	{pickFewest, 4, "fewest candidates, by size"},
	{pickFewest, 2, "fewest candidates, by total"},
	{pickLowest, 0, "lowest floor, by area"},
	{pickWeighted, 1, "dead ends, by width"},
	{pickFewest, 0, "fewest candidates, by area"},
	{pickTightest, 1, "least slack, by width"},
	{pickWeighted, 4, "dead ends, by size"},
	{pickWeighted, 2, "dead ends, by total"},
}

// runNodes is the limit of a run in a round: most rounds are short, since another order of the jobs
// is more likely to help than more nodes, but now and then one is twice as long as any before
// (Luby, Sinclair and Zuckerman, "Optimal speedup of Las Vegas algorithms").
func runNodes(jobs, round int) int64 { return int64(jobs) + roundNodes*luby(round+1) }

// luby is the i-th number, from 1, of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...
func luby(i int) int64 {
	for {
		k := bits.Len(uint(i))
		if i == 1<<k-1 {
			return 1 << (k - 1)
		}
		i -= 1<<(k-1) - 1
	}
}

// round works on a group once. With a capacity, every rule tries to reach it. Without one, the
// greedy orders are shaken, then every rule tries the lower bound and then bisects the remaining
// range, until no lower packing is found.
func (s *solver) round(g *group) {
	if g.round == 0 {
		g.exact = newExact(g.problem)
		g.shake = newShaker(g.problem, g.best, s.opts.Seed)
		if g.exact != nil {
			for _, name := range exactOrders {
				g.ranks = append(g.ranks, rankOf(g.byLetters(name)))
			}
		}
	}
	round := g.round
	g.round++
	if g.exact == nil || s.opts.Capacity <= 0 && round > 0 {
		s.shakeUp(g)
	}
	if g.exact == nil {
		return
	}
	rng := rand.New(rand.NewSource(s.opts.Seed + int64(round)<<32))
	for _, r := range exactRuns {
		rank := g.ranks[r.order]
		if round > 0 {
			rank = shuffled(rank, noise(round), rng)
		}
		s.method = "exact search: " + r.name
		goal := s.goal() / g.unit
		if s.opts.Capacity > 0 {
			s.try(g, goal, runNodes(len(g.jobs), round), rank, r.by)
		} else {
			s.descend(g, goal, runNodes(len(g.jobs), round), rank, r.by)
		}
		if s.done() || g.best.height <= s.goal()/g.unit {
			return
		}
	}
}

// descend looks for lower packings by one rule, down to the goal.
func (s *solver) descend(g *group, goal, limit int64, rank []int32, by picker) {
	low := max(goal, g.low)
	target := low
	for low < g.best.height && !s.ended() {
		switch s.try(g, target, limit, rank, by) {
		case failed:
			low = max(low, g.low)
		case limited:
			low = target + 1
		}
		target = low + (g.best.height-low)/2
	}
}

// try looks for a packing of a group not higher than the target.
func (s *solver) try(g *group, target, limit int64, rank []int32, by picker) outcome {
	if s.opts.Nodes > 0 {
		limit = min(limit, s.opts.Nodes-s.nodes)
	}
	x := g.exact
	before := s.nodes
	x.halt = func() bool {
		s.nodes = before + x.nodes
		s.report()
		return haltAt(s.ctx)(haltWork / scanned)
	}
	o := x.run(target, limit, rank, by)
	s.nodes = before + x.nodes
	switch o {
	case found:
		g.best = x.answer(s.method)
	case failed:
		g.low = max(g.low, target+1)
	}
	s.report()
	return o
}

// noise is how far a round moves the ranks: a little and a lot in turn.
func noise(round int) float64 { return []float64{0.3, 0.03, 0.1, 0.05, 0.2}[round%5] }

// answer is the packing that a run found.
func (x *exact) answer(method string) answer {
	a := answer{offsets: make([]int64, len(x.jobs)), method: method}
	copy(a.offsets, x.offset)
	for i, j := range x.jobs {
		a.height = max(a.height, x.offset[i]+j.size)
	}
	return a
}
