package remat

import (
	"cmp"
	"math"
	"slices"
)

// At the best price of a byte many cuts of a moment are equally good: where layers repeat, a task of each layer may
// run again or not, for the same cost by the byte. Two cuts beside that price are then far apart, one much too large
// and one that leaves much memory free. The nodes that are on other sides in one of them fall into pieces without arcs
// between them, so each piece may be as in the one cut or as in the other, and bytes and costs of pieces add up.
// Pieces that repeat have equal bytes and costs and are one class: how many of each class run again is a knapsack
// problem with few unknowns, however many layers there are. Belady's rule says which ones ("A study of replacement
// algorithms for a virtual-storage computer", 1966): those whose next readers come last.

// steeps are the prices of the cuts that pieces come from, in units of the best one: a cut that is too large, one that
// fits, and dearer ones, whose pieces use up the last bytes.
var steeps = []float64{1 - 1e-6, 1 + 1e-6, 1.25, 2, 4}

// leastRepeats is how many pieces a class has on average where layers repeat.
const leastRepeats = 3

// piece is a part of the net that is on other sides in a second cut.
type piece struct {
	bytes, cost int64 // that the second cut saves and costs there
	runs, ends  []int32
	next        int32 // the first place behind the moment that needs one of its tasks to run again
}

// pieceClass is pieces of equal bytes and costs, those that are needed last first.
type pieceClass struct {
	bytes, cost int64 // of each
	pieces      []piece
}

// mixed is the tasks that run again in the cheapest mixture of cuts that is found to fit at the moment of the bound;
// nil without one. Where bytes beside the budget differ by moment, values that move decide which plan is good, and
// mixtures know none: plans from one cut waited less for copies, by .9 points of a step of the example transformer.
func (b *bounder) mixed() []int32 {
	if b.best == 0 || b.best == math.MaxInt64 || b.link != nil || b.g.Beside != nil {
		return nil
	}
	first, again, sides := b.cutsAt(steeps[:2])
	if len(sides) < 2 || first.bytes <= b.budget {
		return nil
	}
	classes := classify(nil, b.pieces(sides[0], sides[1]))
	if count(classes) < leastRepeats*len(classes) {
		return nil
	}
	_, _, more := b.cutsAt(steeps[2:])
	further, last := slices.Clone(classes), sides[1]
	for _, side := range more {
		further = classify(further, b.pieces(last, side))
		last = side
	}
	if tasks := b.mixture(first, again, further); tasks != nil {
		return tasks
	}
	return b.mixture(first, again, classes) // bytes of two cuts add up, those of more may not
}

// mixture is the tasks of the cheapest mixture that is found of a cut and pieces of others; nil where it does not fit.
func (b *bounder) mixture(first choice, again []bool, classes []pieceClass) []int32 {
	order(classes)
	counts := cheapestCover(classes, first.bytes-b.budget)
	if counts == nil {
		return nil
	}
	again = slices.Clone(again)
	for i, k := range counts {
		for _, p := range classes[i].pieces[:k] {
			for _, x := range p.runs {
				again[x] = true
			}
			for _, x := range p.ends {
				again[x] = false
			}
		}
	}
	if b.judge(again); b.bytes[b.at] > b.budget {
		return nil
	}
	return listed(again)
}

// cutsAt finds the cuts of some prices, in units of the best one: the choice and the tasks of the first one, and the
// sides of the nodes in each.
func (b *bounder) cutsAt(steeps []float64) (first choice, again []bool, sides [][]int32) {
	price := b.views[b.at].price()
	for i, steep := range steeps {
		_, c, full := b.cut.price(b.at, price*steep, b.budget, math.MaxInt64)
		if !full || b.ctx.Err() != nil {
			break
		}
		if i == 0 {
			first, again = c, slices.Clone(b.cut.again)
		}
		sides = append(sides, slices.Clone(b.cut.net.level))
	}
	return first, again, sides
}

// classify adds the pieces that save bytes to the classes.
func classify(classes []pieceClass, pieces []piece) []pieceClass {
	type kind struct{ bytes, cost int64 }
	at := make(map[kind]int, len(classes))
	for i, c := range classes {
		at[kind{c.bytes, c.cost}] = i
	}
	for _, p := range pieces {
		if p.bytes <= 0 {
			continue
		}
		i, known := at[kind{p.bytes, p.cost}]
		if !known {
			i = len(classes)
			at[kind{p.bytes, p.cost}] = i
			classes = append(classes, pieceClass{bytes: p.bytes, cost: p.cost})
		}
		classes[i].pieces = append(classes[i].pieces, p)
	}
	return classes
}

// count is the number of pieces.
func count(classes []pieceClass) (n int) {
	for i := range classes {
		n += len(classes[i].pieces)
	}
	return n
}

// order puts the classes that are cheapest by the byte first, and the pieces that are needed last.
func order(classes []pieceClass) {
	for i := range classes {
		slices.SortStableFunc(classes[i].pieces, func(p, q piece) int { return cmp.Compare(q.next, p.next) })
	}
	slices.SortStableFunc(classes, func(p, q pieceClass) int {
		return cmp.Or(cmp.Compare(p.ratio(), q.ratio()), cmp.Compare(q.bytes, p.bytes))
	})
}

// ratio is the cost of a byte.
func (c *pieceClass) ratio() float64 { return float64(c.cost) / float64(c.bytes) }

// pieces are the connected parts of the nodes of the net that are on different sides of two cuts.
func (b *bounder) pieces(one, other []int32) []piece {
	c, net := b.cut, b.cut.net
	s := newSets(len(one))
	differs := func(v int32) bool { return one[v] != other[v] }
	for a := 0; a < len(net.to); a += 2 {
		if from, to := net.to[a+1], net.to[a]; differs(from) && differs(to) {
			s.join(from, to)
		}
	}
	before := b.g.rerunPlaces(b.either(one, other), b.at)
	var list []piece
	number := make([]int32, len(one)) // of the piece of a root, from 1 on
	of := func(v int32) *piece {
		r := s.root(v)
		if number[r] == 0 {
			list = append(list, piece{next: math.MaxInt32})
			number[r] = int32(len(list))
		}
		return &list[number[r]-1]
	}
	for _, r := range c.runs {
		switch v := c.base + r.task; {
		case !differs(v):
		case other[v] == 1:
			p := of(v)
			p.runs, p.cost, p.next = append(p.runs, r.task), p.cost+b.g.Tasks[r.task].Cost, min(p.next, before[r.task])
		default:
			p := of(v)
			p.ends, p.cost, p.next = append(p.ends, r.task), p.cost-b.g.Tasks[r.task].Cost, min(p.next, before[r.task])
		}
	}
	for _, h := range c.held {
		at := net.to[h.arc^1]
		if !differs(at) {
			at = net.to[h.arc]
		}
		if differs(at) {
			of(at).bytes += c.holds(h, one) - c.holds(h, other)
		}
	}
	return list
}

// holds is the bytes of an arc that a cut goes through.
func (c *momentCut) holds(h heldArc, side []int32) int64 {
	if side[c.net.to[h.arc^1]] == 1 && side[c.net.to[h.arc]] == 0 {
		return h.size
	}
	return 0
}

// either is the tasks that run again in one of two cuts or in both.
func (b *bounder) either(one, other []int32) []int32 {
	again := make([]bool, b.at)
	for _, r := range b.cut.runs {
		v := b.cut.base + r.task
		again[r.task] = one[v] == 1 || other[v] == 1
	}
	return listed(again)
}

// sets are disjoint sets of nodes.
type sets []int32

func newSets(n int) sets {
	s := make(sets, n)
	for v := range s {
		s[v] = int32(v)
	}
	return s
}

// root is the node that stands for the set of v.
func (s sets) root(v int32) int32 {
	for s[v] != v {
		s[v] = s[s[v]]
		v = s[v]
	}
	return v
}

func (s sets) join(u, v int32) {
	u, v = s.root(u), s.root(v)
	s[max(u, v)] = min(u, v)
}

// coverSteps bounds the states that cheapestCover looks at.
const coverSteps = 100_000

// cheapestCover is how many pieces of each class save so many bytes for the least cost that is found; nil where all
// pieces together save less. Classes come in ascending order of their cost by the byte.
func cheapestCover(classes []pieceClass, bytes int64) []int {
	c := coverer{classes: classes, best: math.MaxInt64, counts: make([]int, len(classes)), steps: coverSteps}
	c.visit(0, bytes, 0)
	return c.found
}

// coverer is the state of cheapestCover.
type coverer struct {
	classes       []pieceClass
	counts, found []int
	best          int64 // cost of found
	steps         int   // that are left
}

// visit tries counts of the classes from i on, which have to save so many bytes beside those before, which cost so
// much: high counts first.
func (c *coverer) visit(i int, bytes, cost int64) {
	c.steps--
	if bytes <= 0 {
		if cost < c.best {
			c.best, c.found = cost, slices.Clone(c.counts)
		}
		return
	}
	if i == len(c.classes) {
		return
	}
	class := &c.classes[i]
	if float64(cost)+class.ratio()*float64(bytes)*(1-1e-12) > float64(c.best-1) {
		return
	}
	for k := min(int64(len(class.pieces)), (bytes-1)/class.bytes+1); k >= 0 && c.steps > 0; k-- {
		c.counts[i] = int(k)
		c.visit(i+1, bytes-k*class.bytes, cost+k*class.cost)
	}
	c.counts[i] = 0
}
