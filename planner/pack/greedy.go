package pack

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
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

// greedyWork is the number of slots that one greedy order may look at before it only stacks.
const greedyWork = 1 << 27

// Greedy is the fast first answer alone: the best of several greedy orders, near-linear in the
// number of buffers. A context that is done ends it with a poorer one. Buffers must be valid; Solve
// reports those that are not.
func Greedy(ctx context.Context, buffers []Buffer) *Result {
	r := &Result{Offsets: make([]int64, len(buffers)), Optimal: true}
	groups := split(buffers)
	for _, p := range groups {
		r.LowerBound = max(r.LowerBound, p.bound*p.unit)
	}
	for _, p := range groups {
		a := p.greedy(r.LowerBound/p.unit, greedyWork, func() bool { return ctx.Err() != nil })
		r.take(p, a)
	}
	r.Optimal = r.Height == r.LowerBound
	return r
}

// take copies the answer of one problem into the result.
func (r *Result) take(p *problem, a answer) {
	for i, id := range p.ids {
		r.Offsets[id] = a.offsets[i] * p.unit
	}
	if top := a.height * p.unit; top > r.Height {
		r.Height, r.Method = top, a.method
	}
}

// greedyOrders are the orders in which jobs may choose their places, by name.
var greedyOrders = []struct {
	name    string
	compare func(a, b job) int
}{
	{"greedy by area", func(a, b job) int { return compareProduct(b, a) }},
	{"greedy by size", func(a, b job) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.hi-b.lo, a.hi-a.lo))
	}},
	{"greedy by lifetime", func(a, b job) int {
		return cmp.Or(cmp.Compare(b.hi-b.lo, a.hi-a.lo), cmp.Compare(b.size, a.size))
	}},
	{"greedy by start", func(a, b job) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi), cmp.Compare(b.size, a.size))
	}},
	{"greedy by end", func(a, b job) int {
		return cmp.Or(cmp.Compare(b.hi, a.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(b.size, a.size))
	}},
}

// compareProduct orders by lifetime times size, which may need 128 bits.
func compareProduct(a, b job) int {
	ah, al := bits.Mul64(uint64(a.hi-a.lo), uint64(a.size))
	bh, bl := bits.Mul64(uint64(b.hi-b.lo), uint64(b.size))
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl))
}

// greedy tries the orders until one reaches the goal, each with a budget of work, or until it is
// halted. Then the first answer may be poor, but there always is one.
func (p *problem) greedy(goal, work int64, halt func() bool) answer {
	best := p.inTime(halt)
	for _, o := range greedyOrders {
		if best.height <= goal || halt() {
			break
		}
		best = best.better(p.inOrder(p.sorted(o.compare), work, o.name, halt))
	}
	return best
}

// sorted returns the jobs in an order.
func (p *problem) sorted(compare func(a, b job) int) []int32 {
	order := make([]int32, len(p.jobs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(compare(p.jobs[a], p.jobs[b]), cmp.Compare(a, b))
	})
	return order
}

// orderPause is the number of slots that are looked at between two questions whether the search
// must end.
const orderPause = 1 << 18

// inOrder gives each job in turn the lowest gap that holds it. Halted, it has no answer.
func (p *problem) inOrder(order []int32, work int64, method string, halt func() bool) answer {
	a := answer{offsets: make([]int64, len(p.jobs)), method: method}
	placed := newShelves(p.sections, work)
	asked := work // what was left when halt was asked last
	for n, i := range order {
		if n%1024 == 1023 || asked-placed.budget > orderPause {
			if asked = placed.budget; halt() {
				return answer{}
			}
		}
		a.offsets[i] = placed.place(p.jobs[i])
		a.height = max(a.height, a.offsets[i]+p.jobs[i].size)
	}
	return a
}
