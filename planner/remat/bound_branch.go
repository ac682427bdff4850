package remat

import (
	"math"
	"slices"
)

// The best price leaves a gap where no choice of a moment uses up the bytes that are free.
// Branching closes it: some task runs again or it does not, each case has a bound of its own, and
// the smaller one is a bound for both. (Land and Doig, "An automatic method of solving discrete
// programming problems", 1960.)

// branch is a case: the tasks that must and must not be recomputed behind the moment.
type branch struct {
	must, mustNot []int32
	bound         int64 // no choice in this case is cheaper
	split         int32 // the task that the next cases should branch on, or -1 if the bound is met
}

// brancher splits the choices of one moment into cases.
type brancher struct {
	*bounder
	t     int32
	force []int32 // by task: an arc from the source to its node, or -1
	limit int64
	best  int64  // cost of the cheapest choice known that fits
	again []bool // that choice, by task; nil before the first
}

// branchWork is the counted work of branching where the caller sets no limit.
const branchWork = 20_000_000

// tighten raises the bound of moment b.at, which needs no less than proved, as far as the work
// allows.
func (b *bounder) tighten(proved, work int64) int64 {
	r := &brancher{bounder: b, t: b.at, limit: b.spent() + work, best: math.MaxInt64}
	r.prepare()
	defer func() { b.cut.t, b.cut.force, b.cut.must, b.cut.mustNot = -1, nil, nil, nil }()
	var open exactQueue
	var cases []*branch
	push := func(c *branch, atLeast int64) {
		if r.solve(c); c.split < 0 {
			r.fits(c.bound, r.cut.again)
			return
		}
		c.bound = max(c.bound, atLeast)
		cases = append(cases, c)
		open.push(exactEntry{total: c.bound, id: int32(len(cases) - 1)})
	}
	push(&branch{}, proved)
	for len(open) > 0 {
		c := cases[open[0].id]
		if c.bound >= r.best || b.spent() >= r.limit || b.ctx.Err() != nil {
			break
		}
		open.pop()
		push(&branch{must: append(slices.Clone(c.must), c.split), mustNot: c.mustNot}, c.bound)
		push(&branch{must: c.must, mustNot: append(slices.Clone(c.mustNot), c.split)}, c.bound)
	}
	b.fitting = r.again
	if len(open) > 0 {
		return min(r.best, open[0].total)
	}
	return r.best
}

// fits takes over a choice that fits if it is the cheapest so far.
func (r *brancher) fits(cost int64, again []bool) {
	if cost < r.best {
		r.best, r.again = cost, slices.Clone(again)
	}
}

// prepare builds the net of the moment, with an arc from the source to each task.
func (r *brancher) prepare() {
	r.cut.t = -1
	r.cut.build(r.t)
	r.force = make([]int32, r.n)
	for _, run := range r.cut.runs {
		r.force[run.task] = r.cut.net.arc(flowSource, 2+run.task)
	}
}

func (r *brancher) left() int64 { return max(0, r.limit-r.spent()) }

// solve finds the bound of a case and the task to split it on. Where all is over the budget the
// bound is math.MaxInt64.
func (r *brancher) solve(c *branch) {
	c.split = -1
	r.cut.must, r.cut.mustNot, r.cut.force = c.must, c.mustNot, r.force
	small, full := r.cut.smallest(r.t, r.left())
	if full && small.bytes > r.budget {
		c.bound = math.MaxInt64
		return
	}
	fits := slices.Clone(r.cut.again)
	_, large, both := r.cut.price(r.t, 0, r.budget, r.left())
	if !full || !both {
		c.split = 0 // any task: the work is used up
		return
	}
	if large.bytes <= r.budget {
		c.bound = large.cost
		return
	}
	view := outlook{large: large, fits: small, found: true, promise: math.Inf(1), most: math.Inf(1)}
	r.narrow(c, view, slices.Clone(r.cut.again), fits)
}

// narrow looks for the best price of a case between two choices, and names the dearest task that
// the last two disagree about.
func (r *brancher) narrow(c *branch, view outlook, over, fits []bool) {
	view.promise = view.envelope(r.budget)
	for view.promise > 0 {
		proved, next, full := r.cut.price(r.t, view.price(), r.budget, r.left())
		c.bound = max(c.bound, proved)
		if !full {
			break
		}
		before := view.promise
		if view.learn(next, r.budget); !(view.promise < before*(1-1e-9)) {
			break
		}
		if next.bytes <= r.budget {
			copy(fits, r.cut.again)
		} else {
			copy(over, r.cut.again)
		}
	}
	r.fits(view.fits.cost, fits)
	cost := int64(-1)
	for x := range fits {
		if fits[x] != over[x] && r.g.Tasks[x].Cost > cost {
			c.split, cost = int32(x), r.g.Tasks[x].Cost
		}
	}
}
