package remat

import (
	"context"
	"math"
)

// Values may also move to another memory and back. A link carries so many bytes per unit of cost, and it
// has carried no more than that by the first run of a task t in the time before it. With E the cost of the
// first runs before t, y the further time before it (extra runs, or waiting), and z the cost of the tasks
// recomputed behind it, the values held over t take at most budget + rate*(E+y) bytes, and the schedule
// takes y+z longer than the first runs. A price per byte of at most 1/rate makes y cost at least the
// worth of the bytes that it moves, so y = 0 is the best: the cut with that price, less the price of budget +
// rate*E bytes, is a bound on y+z.
//
// The runtime of copies back is left out, and so is latency: a bound without them is lower and holds.

// carried is a link as bounds see it.
type carried struct {
	rate   float64 // bytes per unit of cost
	before []int64 // by moment: the cost of the runs before it
}

// newCarried is a link on a graph; nil where it carries no bytes.
func newCarried(g *Graph, rate float64) *carried {
	if rate <= 0 {
		return nil
	}
	c := &carried{rate: rate, before: make([]int64, len(g.Tasks))}
	sum := int64(0)
	for t := range g.Tasks {
		c.before[t] = sum
		sum += g.Tasks[t].Cost
	}
	return c
}

// bytes is the most that the link may have carried before the first run of t: at most maxTotal, rounded up.
func (c *carried) bytes(t int) int64 {
	return int64(math.Ceil(min(maxTotal, c.rate*float64(c.before[t])*(1+1e-12))))
}

// budgetAt is the bytes that may be held over the first run of t, those that have moved included.
func (b *bounder) budgetAt(t int) int64 {
	if b.link == nil {
		return b.budget
	}
	return b.budget + b.link.bytes(t)
}

// mostPrice is the highest price of a byte.
func (b *bounder) mostPrice() float64 {
	if b.link == nil {
		return math.Inf(1)
	}
	return (1 - 1e-9) / b.link.rate
}

// MovedBound returns a lower bound on the time that a schedule within the budget takes beyond the first
// runs, in units of cost, where values may move over a link of so many bytes per unit each way; it is
// CostBound for a rate of 0. Tasks keep their order. carried is the bytes that the link may have moved
// before the moment that proves most, or takes most where no moment proves anything.
func (g *Graph) MovedBound(ctx context.Context, budget int64, rate float64, work int64) (bound, carried int64) {
	bound, carried, _ = g.movedProof(ctx, budget, rate, work)
	return bound, carried
}

// MovedCut is MovedBound with the task and the price of a byte, in units of cost, at which one cut proves most of it;
// -1 where no cut proves any.
func (g *Graph) MovedCut(ctx context.Context, budget int64, rate float64, work int64) (
	bound, carried int64, task int32, price float64) {
	bound, carried, alone := g.movedProof(ctx, budget, rate, work)
	if alone.extra <= 0 {
		return bound, carried, -1, 0
	}
	return bound, carried, alone.t, alone.price
}

// movedProof is MovedBound with the best proof of one moment.
func (g *Graph) movedProof(
	ctx context.Context, budget int64, rate float64, work int64,
) (bound, carried int64, alone proof) {
	if rate <= 0 {
		bound, alone = g.costProof(ctx, budget, work)
		return bound, 0, alone
	}
	b := newBounder(ctx, newMoments(g), budget, work)
	b.link, b.cut.move = newCarried(g, rate), true
	b.run()
	at := int(b.at)
	if b.best == 0 {
		at = b.largest()
	}
	return b.best, b.budgetAt(at) - budget, b.alone
}

// largest is the moment with the most bytes where no task is recomputed.
func (b *bounder) largest() (t int) {
	clear(b.again)
	b.judge(b.again)
	for s, bytes := range b.bytes {
		if bytes > b.bytes[t] {
			t = s
		}
	}
	return t
}

// anyMoved is MovedBound with first runs in any order: before t are all tasks that do not depend on it.
func (k *kinship) anyMoved(ctx context.Context, budget int64, rate float64, work int64) (best, carried int64) {
	if rate <= 0 {
		return k.anyCost(ctx, budget, work, 0, false), 0
	}
	tasks, _ := k.ranked(ctx, anyMoments)
	for _, t := range tasks {
		if ctx.Err() != nil || work <= 0 {
			break
		}
		g, at := k.moment(t)
		before := int64(0)
		for x := range k.g.Tasks {
			if int32(x) != t && k.side[x] != later {
				before += k.g.Tasks[x].Cost
			}
		}
		b := newBounder(ctx, newMoments(g), budget, work)
		b.link, b.cut.move = newCarried(g, rate), true
		b.link.before[at] = before
		b.best = best
		b.only(at, false)
		if b.best > best || carried == 0 {
			best, carried = b.best, b.budgetAt(int(at))-budget
		}
		k.learn(b, t, at)
		work -= b.spent()
	}
	return best, carried
}

// Moved is a lower bound for schedules whose values may move; see Problem.MovedBound.
type Moved struct {
	Makespan float64 // no schedule ends sooner
	AnyOrder bool    // in any order of first computes, else in the given one
	Peak     int64   // no schedule has a lower peak: the bytes that one computation needs
	Carried  int64   // bytes that the link may have moved before the moment that proves the bound

	// Certificate is why Makespan holds; nil where no cut proves that it exceeds the cost of computing every node once.
	// Its budget is the one on the device.
	Certificate *Certificate
}

// MovedBound returns bounds on schedules within the budget whose values may move over a link of so many
// bytes per unit of cost each way; see Graph.MovedBound. Values that are kept stay on the device.
func (p *Problem) MovedBound(ctx context.Context, rate float64) Moved {
	// Waits are no whole numbers, even where all costs are: so the bound must not be rounded up to one.
	s := &problemSolver{folded: foldTo(p, fineScale(p.BaseCost())), ctx: ctx}
	s.arrange(s.real)
	g, extra, budget := s.relaxed(), int64(0), p.Budget-p.Resident
	m := Moved{Makespan: p.BaseCost()}
	if p.InOrder {
		m.Peak = g.keptNeed()
	} else {
		s.kin = newKinship(g, s.eachEdge)
		m.Peak = max(s.kin.lastPeak(), s.kin.ownPeak())
	}
	if m.Peak += p.Resident; m.Peak > p.Budget {
		return m
	}
	for v := range p.Nodes {
		if p.Nodes[v].View { // it may be computed at any time, while the link carries further bytes
			budget = min(budget, maxTotal) + int64(math.Ceil(min(maxTotal, rate*p.Nodes[v].Cost)))
		}
	}
	if p.InOrder {
		extra, m.Carried, s.alone = g.movedProof(ctx, budget, rate/s.scale, boundWork)
	} else {
		extra, m.Carried = s.kin.anyMoved(ctx, budget, rate/s.scale, boundWork)
		m.AnyOrder, s.alone = true, s.kin.alone
	}
	sum := int64(0)
	if p.InOrder && extra > 0 {
		sum = g.MovedSum(ctx, budget, rate/s.scale, boundWork)
	}
	if s.scale != 1 {
		extra -= int64(len(s.real)) // a unit by node for the rounding
		sum -= mostMoments * int64(len(s.real))
	}
	extra = max(extra, sum)
	m.Certificate = s.certificate(m.Makespan)
	m.Makespan += max(0, float64(extra)) / s.scale
	m.AnyOrder = m.AnyOrder || extra <= 0
	return m
}

// keptNeed is the most that the first run of a task needs with the values kept before it.
func (g *Graph) keptNeed() int64 {
	m, kept, most := newMoments(g), int64(0), int64(0)
	for t := range g.Tasks {
		need := m.need[t]
		for _, u := range g.Tasks[t].Uses {
			if g.Values[u].Keep {
				need -= g.Values[u].Size
			}
		}
		most = max(most, kept+need)
		for _, v := range g.Tasks[t].Makes {
			if g.Values[v].Keep {
				kept += g.Values[v].Size
			}
		}
	}
	return most
}
