package remat

import "math"

// Extra runs before the first run of t and behind it are different ones. So a bound on those before
// t, with only the needs of first runs up to t, and a bound on those behind t add up. The bounds on
// the extra runs before are found from the first task to the last, each from those before it and
// one cut: a row of windows, each with the moment at its start that proves most. Windows help if
// the budget is tight all the time, as in graphs without much structure; in a training graph with
// one high point there is one window.

// windowWork is the counted work of all windows together where the caller sets no limit.
const windowWork = 40_000_000

// runWindows looks for the best bound of the whole graph: with one window first, and then, as far
// as the work allows, with many.
func (b *bounder) runWindows() {
	n := b.n
	b.run()
	if b.best == 0 || n == 0 {
		return
	}
	if b.best == math.MaxInt64 {
		return
	}
	spent, one, at := b.spent(), b.best, b.at
	b.windows(int(min(int64(n), 1+min(windowWork, b.limit-spent)/(1+spent)/2)), b.limit/2)
	b.restart(n)
	b.run()
	if b.best < one {
		b.best = one // the work was not enough
	}
	if b.at == 0 {
		b.at = at // the best row of windows ends before the last moment that proves anything
	}
	if left := b.limit - b.spent(); left > 0 && b.best < math.MaxInt64 {
		before := b.before[b.at]
		b.best = max(b.best, before+b.tighten(0, min(branchWork, left)))
	}
}

func (b *bounder) spent() int64 { return b.work + b.cut.work() }

// restart restricts the bounder to the first n tasks and their reads.
func (b *bounder) restart(n int) {
	b.n, b.cut.t = n, -1
	b.views, b.bytes, b.costs = b.views[:n], b.bytes[:n], b.costs[:n]
	for v := range b.last {
		b.last[v] = -1
	}
	for t := range int32(n) {
		for _, u := range b.g.Tasks[t].Uses {
			b.last[u] = t
		}
	}
	b.work += b.edges
}

// windows computes the bounds on the extra runs before at most so many tasks, spread evenly, and
// takes them over for the tasks behind these.
func (b *bounder) windows(many int, limit int64) {
	n := len(b.before)
	from := max(int(b.g.From), b.firstOver()) + 1
	many = min(many, n-from)
	b.best = 0
	for i := range many {
		k, next := from+(n-from)*i/many, from+(n-from)*(i+1)/many
		if b.spent() > limit || b.ctx.Err() != nil {
			next = n
		} else {
			b.restart(k)
			for _, u := range b.g.Tasks[k].Uses {
				b.last[u] = int32(k)
			}
			b.run()
		}
		for t := k; t < next; t++ {
			b.before[t] = min(b.best, maxTotal) // capped, since best may be infinite for an infeasible budget
		}
		if next == n {
			return
		}
	}
}

// firstOver is the first task that is above the budget without recomputation, or the number of
// tasks.
func (b *bounder) firstOver() int {
	clear(b.again)
	b.judge(b.again)
	for t, bytes := range b.bytes {
		if bytes > b.budget {
			return t
		}
	}
	return b.n
}
