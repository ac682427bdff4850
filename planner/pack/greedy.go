package pack

import (
	"context"

	"memopt/internal/timelimit"
)

// answer is a packing of one problem.
type answer struct {
	offsets []int64
	height  int64
	method  string
}

// better keeps the lower of two answers, the first on a tie.
func (a answer) better(b answer) answer {
	if a.offsets == nil || b.offsets != nil && b.height < a.height {
		return b
	}
	return a
}

// greedyWork is the number of slots that one greedy order may look at; after that it only stacks.
const greedyWork = 1 << 27

// Greedy is the fast first answer alone: the best of several greedy orders, near-linear in the
// number of buffers, and, where these leave anything above the bound, of packings below a skyline
// (see skyline), within counted work. A context that is done ends it early with a poorer answer.
// Buffers must be valid; Solve reports those that are not.
func Greedy(ctx context.Context, buffers []Buffer) *Result {
	return each(buffers, func(p *problem, goal int64) answer {
		return p.greedy(goal, p.enough(goal), greedyWork, haltAt(ctx))
	})
}

// First is Greedy with a fraction of its work: the first packing within a capacity, or the best of a few.
func First(ctx context.Context, buffers []Buffer, capacity int64) *Result {
	return each(buffers, func(p *problem, goal int64) answer {
		best, enough := p.inTime(haltAt(ctx)), max(goal, capacity/p.unit)
		if best.height <= enough {
			return best
		}
		if r := p.byRules(goal, enough, haltAt(ctx)); r != nil {
			best = best.better(r.best)
		}
		return best
	})
}

// each packs groups of buffers whose lifetimes do not meet, each to the bound of all of them.
func each(buffers []Buffer, pack func(p *problem, goal int64) answer) *Result {
	r := &Result{Offsets: make([]int64, len(buffers)), Optimal: true}
	groups := split(buffers)
	for _, p := range groups {
		r.LowerBound = max(r.LowerBound, p.bound*p.unit)
	}
	for _, p := range groups {
		r.take(p, pack(p, r.LowerBound/p.unit))
	}
	r.Optimal = r.Height == r.LowerBound
	return r
}

// halt tells of counted work that was done (see timelimit.Counted), and reports whether to end.
type halt func(work int64) bool

// haltAt is the halt of a context.
func haltAt(ctx context.Context) halt {
	return func(work int64) bool {
		timelimit.Spend(ctx, work)
		return ctx.Err() != nil
	}
}

// scanned is the number of slots, holes or steps of the exact search that are looked at in the time of one
// piece of counted work, and looked that of looks at jobs below a skyline.
const (
	scanned = 100
	looked  = 2
)

// take copies the answer of one problem into the result.
func (r *Result) take(p *problem, a answer) {
	for i, id := range p.ids {
		r.Offsets[id] = a.offsets[i] * p.unit
	}
	if top := a.height * p.unit; top > r.Height {
		r.Height, r.Method = top, a.method
	}
}

// greedyOrders are the orders of jobs that choose their places (see byLetters), by name.
var greedyOrders = []struct{ name, letters string }{
	{"greedy by area", "A"},
	{"greedy by size", "SW"},
	{"greedy by lifetime", "WS"},
	{"greedy by start", "BES"},
	{"greedy by end", "EBS"},
}

// From manyJobs jobs on, a packing within 1/closeEnough of the goal is not improved any further.
const (
	manyJobs    = 1000
	closeEnough = 1000
)

// enough is the height that ends greedy if there is no capacity.
func (p *problem) enough(goal int64) int64 {
	if len(p.jobs) > manyJobs {
		return goal + goal/closeEnough
	}
	return goal
}

// greedy tries the orders until one reaches the goal, each with a budget of work, or until it is
// halted. If that does not give a packing that is low enough, it packs below a skyline. If halted,
// the first answer may be poor, but there always is one.
func (p *problem) greedy(goal, enough, work int64, halt halt) answer {
	best := p.inTime(halt)
	for _, o := range greedyOrders {
		if best.height <= goal || halt(int64(len(p.jobs))) {
			return best
		}
		best = best.better(p.inOrder(p.byLetters(o.letters), work, o.name, halt))
	}
	if best.height > enough {
		best = best.better(p.below(goal, enough, halt))
	}
	return best
}

// orderPause is the number of slots that are looked at between two checks whether the search must
// end.
const orderPause = 1 << 18

// inOrder gives each job in turn the lowest gap that holds it. If halted, it has no answer.
func (p *problem) inOrder(order []int32, work int64, method string, halt halt) answer {
	a := answer{offsets: make([]int64, len(p.jobs)), method: method}
	placed := newShelves(p, work)
	asked := work // the remaining work when halt was last asked
	for n, i := range order {
		if seen := asked - placed.budget; n%1024 == 1023 || seen > orderPause {
			if asked = placed.budget; halt(seen / scanned) {
				return answer{}
			}
		}
		a.offsets[i] = placed.place(p.jobs[i])
		a.height = max(a.height, a.offsets[i]+p.jobs[i].size)
	}
	return a
}
