package remat

import (
	"context"
	"math"
)

// A bound on the cost comes from one moment, the first run of some task t. A value made before t and
// read behind it is either held over t, where its bytes count, or recomputed behind t, which costs a
// run of its task; and a recomputed task needs each of its inputs held or recomputed too. The cheapest
// choice within the bytes that t leaves free costs no more than any list of extra runs.
//
// Without the limit on the bytes that choice is a minimum cut (see momentCut), as in the min-cut
// partitioner of PyTorch (torch/_functorch/partitioners.py). The limit is priced: with a price on each
// byte, less the price of all bytes that are free, the value of the cut is still a bound (Lagrangian
// relaxation: Fisher, "The Lagrangian relaxation method for solving integer programming problems",
// 1981). The best price gives the bound of the moment, the best moment the bound of the graph.
//
// Each cut is a set of recomputed tasks, and this choice can be judged at all moments in one walk (see
// profile). So every moment has a few known choices, each a line of cost over price; their lower
// envelope bounds from above the cost that a cut at that moment can still prove. The search takes the
// moment with the highest envelope, finds the best cut for the price there, which lowers the envelope,
// and ends when no moment promises more than the proved bound.

// choice is the outcome of a set of tasks that run again behind a moment.
type choice struct {
	bytes int64 // live during the first run
	cost  int64 // of the tasks
}

// outlook is the state of one moment: a choice that is too large, one that fits, and an upper bound on
// the provable cost (promise). Without a choice that fits and a limit on prices, promise is +Inf.
type outlook struct {
	large, fits choice
	found       bool // fits is known
	promise     float64
	most        float64 // no price is higher; see carried
}

// bounder searches for the best moment. The graph must be valid, with costs and bytes that add up
// to no more than maxTotal.
type bounder struct {
	*moments
	ctx    context.Context
	budget int64
	limit  int64 // of the work
	work   int64
	views  []outlook
	cut    *momentCut
	bytes  []int64 // of a choice, by moment
	costs  []int64
	again  []bool
	before []int64  // by moment: proved of the extra runs before it; never falls (see runWindows)
	link   *carried // nil: no value moves

	better  func() // if not nil, called when the cut just found proves more
	enough  int64  // a bound that is good enough to stop
	fitting []bool // the cheapest choice that fits of the moment tightened last, or nil
	best    int64  // proved
	at      int32  // the moment that proves it
	alone   proof  // the best of one moment and one price
}

// proof is a lower bound on the cost of extra runs that anyone can check: a minimum cut at one moment.
type proof struct {
	t     int32   // the moment
	price float64 // of a byte
	extra int64   // the cost that it proves
}

// CostBound returns a lower bound on the cost of the extra runs that bring the graph within the budget
// (bytes), 0 if it needs no extra runs, and math.MaxInt64 if the budget is proved infeasible. The
// search for a better bound ends after so much counted work (arcs and edges looked at; 0 means no
// limit) or with the context.
func (g *Graph) CostBound(ctx context.Context, budget, work int64) int64 {
	bound, _ := g.costProof(ctx, budget, work)
	return bound
}

// costProof is CostBound with the best proof of one moment, which may prove less.
func (g *Graph) costProof(ctx context.Context, budget, work int64) (int64, proof) {
	b := newBounder(ctx, newMoments(g), budget, work)
	b.runWindows()
	return b.best, b.alone
}

// CutExtras returns the tasks that run again behind the first run of task t, the moment that proves
// most by itself, in the cheapest cut that fits there; nil where no extra runs are needed or known
// to fit. See FromCut.
func (g *Graph) CutExtras(ctx context.Context, budget, work int64) (tasks []int32, t int32) {
	b := newBounder(ctx, newMoments(g), budget, work)
	b.run()
	return b.suggestion(), b.at
}

// fittingCut is CutExtras with a choice found by branching, which uses up the bytes that are free where
// prices leave some.
func (g *Graph) fittingCut(ctx context.Context, budget, work int64) (tasks []int32, t int32) {
	b := newBounder(ctx, newMoments(g), budget, work)
	if b.run(); b.best == 0 || b.best == math.MaxInt64 {
		return nil, b.at
	}
	b.tighten(0, work)
	return listed(b.fitting), b.at
}

func newBounder(ctx context.Context, m *moments, budget, work int64) *bounder {
	if work <= 0 {
		work = math.MaxInt64
	}
	return &bounder{
		moments: m, ctx: ctx, budget: budget, limit: work, cut: newMomentCut(m),
		bytes: make([]int64, m.n), costs: make([]int64, m.n), views: make([]outlook, m.n), enough: math.MaxInt64,
		again: make([]bool, m.n), before: make([]int64, m.n),
	}
}

// run looks for the best bound on the extra runs of the first n tasks.
func (b *bounder) run() {
	b.best, b.at = 0, 0
	if b.n > 0 {
		b.best = b.before[b.n-1]
	}
	if !b.start() {
		return
	}
	for b.ctx.Err() == nil && b.work+b.cut.work() < b.limit {
		t := b.promising()
		if t < 0 || !b.improve(t) {
			return
		}
	}
}

// start judges the choices to recompute no task and to recompute all, and reports whether some task
// must be recomputed.
func (b *bounder) start() bool {
	again := b.again
	clear(again)
	b.judge(again)
	over := false
	for t := range b.views {
		budget := b.budgetAt(t)
		b.views[t] = outlook{large: choice{b.bytes[t], 0}, promise: math.Inf(1), most: b.mostPrice()}
		if b.bytes[t] <= budget {
			b.views[t].promise = 0
		} else if b.link != nil {
			b.views[t].promise = b.views[t].envelope(budget)
		}
		over = over || b.bytes[t] > budget
	}
	if !over {
		return false
	}
	for x := range again {
		again[x] = !b.g.Tasks[x].Once
	}
	b.judge(again)
	b.learn()
	return true
}

func (b *bounder) judge(again []bool) {
	b.profile(again, b.bytes, b.costs)
	b.work += b.edges
}

// learn improves the outlooks of all moments with the choice judged last.
func (b *bounder) learn() {
	for t := range b.views {
		b.views[t].learn(choice{b.bytes[t], b.costs[t]}, b.budgetAt(t))
	}
}

// learn takes over a choice that lowers the envelope at the budget.
func (o *outlook) learn(c choice, budget int64) {
	if o.promise == 0 {
		return
	}
	next := *o
	if c.bytes <= budget {
		next.fits, next.found = c, true
		if math.IsInf(o.promise, 1) {
			next.promise = next.envelope(budget)
			*o = next
			return
		}
	} else if next.large = c; math.IsInf(o.promise, 1) {
		if c.bytes < o.large.bytes {
			*o = next
		}
		return
	}
	if next.promise = next.envelope(budget); next.promise < o.promise {
		*o = next
	}
}

// envelope is the cost of the mixture of both choices that just fits.
func (o *outlook) envelope(budget int64) float64 {
	return float64(o.large.cost) + o.price()*float64(o.large.bytes-budget)
}

// price is the cost per byte that makes both choices equally good, or the highest allowed.
func (o *outlook) price() float64 {
	if !o.found {
		return o.most
	}
	return min(o.most, max(0, float64(o.fits.cost-o.large.cost)/float64(o.large.bytes-o.fits.bytes)))
}

// promising is the moment that promises most, or -1 if all promise no more than the proved bound.
func (b *bounder) promising() int32 {
	t, most := int32(-1), float64(b.best)*(1+1e-12)+1e-6
	for s := range b.views {
		if p := b.views[s].promise + float64(b.before[s]); p > most {
			t, most = int32(s), p
		}
	}
	return t
}

// improve looks for the best choice of moment t at the price of its outlook, and reports whether
// the search can go on.
func (b *bounder) improve(t int32) bool {
	o := &b.views[t]
	if math.IsInf(o.promise, 1) {
		return b.smallest(t)
	}
	price := o.price()
	proved, c, full := b.cut.price(t, price, b.budgetAt(int(t)), b.limit-b.work)
	if proved > b.alone.extra && proved < math.MaxInt64 {
		b.alone = proof{t, price, proved}
	}
	if proved = min(proved, math.MaxInt64-b.before[t]) + b.before[t]; proved > b.best {
		b.best, b.at = proved, t
		if b.better != nil {
			b.better()
		}
	}
	if !full || b.best >= b.enough {
		return false
	}
	before := o.promise
	o.learn(c, b.budgetAt(int(t)))
	if !(o.promise < before*(1-1e-9)) {
		o.promise = min(o.promise, float64(b.best-b.before[t])) // the price is the best one
	}
	b.judge(b.cut.again)
	b.learn()
	return true
}

// smallest looks for the choice of moment t with the fewest bytes. If that does not fit, the budget is
// infeasible.
func (b *bounder) smallest(t int32) bool {
	c, full := b.cut.smallest(t, b.limit-b.work)
	if !full {
		return false
	}
	if c.bytes > b.budget {
		b.best, b.at = math.MaxInt64, t
		return false
	}
	b.views[t].learn(c, b.budget)
	b.judge(b.cut.again)
	b.learn()
	return true
}

// suggestion is the tasks of the cheapest cut that fits at the moment of the bound. At the best
// price a cut that is too large and one that fits are equally good, so it takes a slightly higher
// one.
func (b *bounder) suggestion() []int32 {
	if b.best == 0 || b.best == math.MaxInt64 {
		return nil
	}
	price := b.views[b.at].price()
	for raise := 1e-6; raise < 1e6; raise *= 10 {
		if _, c, full := b.cut.price(b.at, price*(1+raise), b.budget, math.MaxInt64); full && c.bytes <= b.budget {
			return b.cut.tasks()
		}
	}
	if c, full := b.cut.smallest(b.at, math.MaxInt64); full && c.bytes <= b.budget {
		return b.cut.tasks()
	}
	return nil
}
