package remat

import (
	"math"
	"math/rand/v2"
)

// rule orders the values that the greedy evicts. The score of a live value is size^mass ·
// distance^far / cost^dear, where distance is the number of first computes until its next use and
// cost that of computing it again together with its missing inputs.
type rule struct {
	mass, far, dear float64
	noise           float64 // scores are multiplied by e^(noise·normal)
}

// rules are tried in this order before random ones.
var rules = []rule{
	{mass: 1, far: 1, dear: 1},
	{mass: 1, far: 0.5, dear: 1},
	{mass: 0, far: 1, dear: 0},
	{mass: 1, far: 1, dear: 2},
	{mass: 1, far: 0, dear: 1},
	{mass: 0.5, far: 1, dear: 0.5},
}

func randomRule(rng *rand.Rand) rule {
	return rule{
		mass: 1.5 * rng.Float64(), far: 1.5 * rng.Float64(), dear: 2 * rng.Float64(), noise: 0.5 * rng.Float64(),
	}
}

const (
	sampleAll  = 192 // up to so many live values, all are scored for an eviction
	sampleSome = 64  // values scored where there are more
	againNodes = 24  // nodes whose costs are added up for one value that is gone
)

// greedy computes the nodes in the given order. When memory is short it evicts the live value with
// the largest score; a missing input is recomputed, with its own missing inputs in turn.
type greedy struct {
	*single
	rule
	rng    *rand.Rand
	stop   func() bool
	live   []int32 // the live values
	place  []int32 // where a value stands in live, or -1
	lock   []int32 // how often a value is needed by computes under way
	next   []int32 // by node: how many of its users have been computed first
	redo   []int32 // scratch of again
	mark   []int32
	stamp  int32
	now    int32
	bytes  int64
	spent  int64
	limit  int64
	seq    []int32
	failed bool
}

// run returns a sequence of computes within the budget, or nil if the rule does not find one for
// less than limit.
func (p *single) greedy(r rule, rng *rand.Rand, limit int64, stop func() bool) []int32 {
	g := &greedy{
		single: p, rule: r, rng: rng, limit: limit, stop: stop,
		place: make([]int32, p.n), lock: make([]int32, p.n), next: make([]int32, p.n), mark: make([]int32, p.n),
	}
	for v := range g.place {
		g.place[v] = -1
	}
	for v := range int32(p.n) {
		g.now = v
		if g.compute(v); g.failed || v%256 == 0 && stop() {
			return nil
		}
		for _, u := range p.uses[v] {
			g.next[u]++
			g.drop(u)
		}
		g.drop(v)
	}
	return g.seq
}

// compute brings v to life, its inputs before it.
func (g *greedy) compute(v int32) {
	uses := g.uses[v]
	for _, u := range uses {
		g.lock[u]++
	}
	for _, u := range uses {
		if g.place[u] < 0 && !g.failed {
			g.compute(u)
		}
	}
	if !g.failed {
		g.make(v)
	}
	for _, u := range uses {
		g.lock[u]--
	}
}

// make computes v, whose inputs are live, after making room for it.
func (g *greedy) make(v int32) {
	need := g.size[v] + g.work[v]
	for g.bytes+need > g.budget {
		if !g.evict() {
			g.failed = true
			return
		}
	}
	g.spent += g.cost[v]
	if g.failed = g.spent > g.limit; g.failed {
		return
	}
	g.bytes += g.size[v]
	g.place[v] = int32(len(g.live))
	g.live = append(g.live, v)
	g.seq = append(g.seq, v)
}

// drop frees v if no first compute needs it any more.
func (g *greedy) drop(v int32) {
	if g.place[v] >= 0 && g.lock[v] == 0 && !g.keep[v] && int(g.next[v]) == len(g.users[v]) {
		g.free(v)
	}
}

// free takes v and its aliases out of memory.
func (g *greedy) free(v int32) {
	for _, w := range g.sharers[v] {
		if g.place[w] >= 0 {
			g.take(w)
		}
	}
	g.take(v)
}

func (g *greedy) take(v int32) {
	last := g.live[len(g.live)-1]
	g.live[g.place[v]] = last
	g.place[last] = g.place[v]
	g.live = g.live[:len(g.live)-1]
	g.place[v] = -1
	g.bytes -= g.size[v]
}

// evict frees the live value with the largest score, and reports whether there was one.
func (g *greedy) evict() bool {
	best, top := int32(-1), math.Inf(-1)
	try := func(v int32) {
		if g.lock[v] > 0 || g.keep[v] || g.size[v] == 0 || g.shared(v) {
			return
		}
		if s := g.score(v); s > top {
			best, top = v, s
		}
	}
	if len(g.live) > sampleAll {
		for range sampleSome {
			try(g.live[g.rng.IntN(len(g.live))])
		}
	}
	if best < 0 {
		for _, v := range g.live {
			try(v)
		}
	}
	if best < 0 {
		return false
	}
	g.free(best)
	return true
}

// shared tells whether an alias of v is in use right now.
func (g *greedy) shared(v int32) bool {
	for _, w := range g.sharers[v] {
		if g.place[w] >= 0 && (g.lock[w] > 0 || g.keep[w]) {
			return true
		}
	}
	return false
}

func (g *greedy) score(v int32) float64 {
	if int(g.next[v]) == len(g.users[v]) {
		return math.Inf(1)
	}
	distance := float64(g.users[v][g.next[v]] - g.now + 1)
	s := math.Log(float64(g.size[v]))*g.mass + g.far*math.Log(distance) - g.dear*math.Log(float64(g.again(v)))
	if g.noise > 0 {
		s += g.noise * g.rng.NormFloat64()
	}
	return s
}

// again is the cost of computing v again with those inputs that are not live, cut
// off after a few nodes.
func (g *greedy) again(v int32) int64 {
	g.stamp++
	g.redo = append(g.redo[:0], v)
	g.mark[v] = g.stamp
	sum := int64(0)
	for i := 0; i < len(g.redo); i++ {
		sum += g.cost[g.redo[i]]
		for _, u := range g.uses[g.redo[i]] {
			if g.mark[u] != g.stamp && g.place[u] < 0 {
				if len(g.redo) == againNodes {
					return 4 * sum
				}
				g.mark[u] = g.stamp
				g.redo = append(g.redo, u)
			}
		}
	}
	return sum
}
