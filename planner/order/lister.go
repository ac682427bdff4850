package order

import (
	"slices"

	"memopt/graph"
)

// lister builds an order node by node. Its choice follows the theory of orders of trees (Liu, "An
// application of generalized tree pebbling to sparse matrix factorization", 1987): a node with its
// possible successors rises to a hill and then falls to a valley; those that end lower than they
// began come first, the lowest hill before the others, then those that end higher, the deepest fall
// from the hill first.
type lister struct {
	c      *constraints
	b      *buffers
	rule   listRule
	from   *edgeLists     // the edges that a node waits for
	to     *edgeLists     // and those that wait for it
	waits  []int32        // by node
	left   []int32        // by buffer: its readers that are not placed; in reverse, those that are
	ready  []graph.NodeID // of the half in turn
	later  []graph.NodeID // of the other half
	half   bool           // backward nodes are in turn
	inHalf int            // nodes of this half that are not placed
	order  graph.Order
	freed  []graph.NodeID // nodes that became ready by placing a node, or a trial
	trial  []graph.NodeID // nodes that are placed to see the effect
}

// slope is the change of live bytes while some nodes run, relative to those before.
type slope struct{ hill, valley int64 }

// before reports whether nodes with one slope should run before nodes with another.
func (x slope) before(y slope) bool {
	if falls := x.valley <= 0; falls != (y.valley <= 0) {
		return falls
	} else if falls {
		return x.hill < y.hill || x.hill == y.hill && x.valley < y.valley
	}
	if dx, dy := x.hill-x.valley, y.hill-y.valley; dx != dy {
		return dx > dy
	}
	return x.hill < y.hill
}

func newLister(c *constraints, b *buffers, rule listRule) *lister {
	l := &lister{c: c, b: b, rule: rule, from: &c.pred, to: &c.succ, half: rule.reverse,
		waits: make([]int32, len(c.start)), left: make([]int32, len(b.readers)),
		order: make(graph.Order, 0, len(c.start))}
	start := c.start
	if rule.reverse {
		l.from, l.to = l.to, l.from
		start = slices.Clone(start)
		slices.Reverse(start)
	} else {
		copy(l.left, b.readers)
	}
	l.inHalf = l.count()
	for _, id := range start {
		if l.waits[id] = int32(len(l.from.of(id))); l.waits[id] == 0 {
			l.enqueue(id)
		}
	}
	return l
}

// count returns the number of nodes of the half in turn.
func (l *lister) count() int {
	n := 0
	for _, backward := range l.c.backward {
		if backward == l.half {
			n++
		}
	}
	return n
}

func (l *lister) enqueue(id graph.NodeID) {
	if l.c.backward[id] == l.half {
		l.ready = append(l.ready, id)
	} else {
		l.later = append(l.later, id)
	}
}

// run returns the order. It takes off work one for every node that it looks at.
func (l *lister) run(work *int64) graph.Order {
	for len(l.order) < len(l.c.start) {
		if l.inHalf == 0 {
			l.half = !l.half
			l.inHalf = l.count()
			l.ready, l.later = l.later, nil
		}
		i := l.choose(work)
		id := l.ready[i]
		l.ready = without(l.ready, i)
		l.freed = l.freed[:0]
		l.place(id)
		for _, next := range l.freed {
			l.enqueue(next)
		}
		l.order = append(l.order, id)
		l.inHalf--
	}
	if l.rule.reverse {
		slices.Reverse(l.order)
	}
	return l.order
}

// without takes element i out of a list that need not stay where it is: the shorter of both sides
// moves.
func without(list []graph.NodeID, i int) []graph.NodeID {
	if i >= len(list)/2 {
		return slices.Delete(list, i, i+1)
	}
	copy(list[1:i+1], list[:i])
	return list[1:]
}

// choose returns the place in ready of the node to run next.
func (l *lister) choose(work *int64) int {
	best, bestSlope := -1, slope{}
	for i := range l.ready {
		if i >= readyWindow && i < len(l.ready)-readyWindow {
			continue
		}
		x := l.look(l.ready[i], work)
		if best < 0 || x.before(bestSlope) || l.rule.recent && !bestSlope.before(x) {
			best, bestSlope = i, x
		}
	}
	return best
}

// look returns the slope of a node with its possible successors, up to the deepest valley within
// sight.
func (l *lister) look(id graph.NodeID, work *int64) slope {
	first := l.effect(id)
	*work--
	if first.valley <= 0 || l.rule.ahead <= 1 {
		return first
	}
	best := first
	var live, hill int64
	l.freed, l.trial = l.freed[:0], l.trial[:0]
	for id != graph.NoNode {
		x := l.effect(id)
		hill = max(hill, live+x.hill)
		live += x.valley
		if live < best.valley {
			best = slope{hill, live}
		}
		if best.valley <= 0 || len(l.trial)+1 == l.rule.ahead {
			break
		}
		l.place(id)
		l.trial = append(l.trial, id)
		id = l.takeFreed(work)
	}
	for _, placed := range slices.Backward(l.trial) {
		l.unplace(placed)
	}
	return best
}

// takeFreed removes the node of this half from freed that comes before the others, or returns
// NoNode.
func (l *lister) takeFreed(work *int64) graph.NodeID {
	best, bestSlope := -1, slope{}
	for i, id := range l.freed {
		if l.c.backward[id] != l.half || i >= readyWindow && i < len(l.freed)-readyWindow {
			continue
		}
		*work--
		if x := l.effect(id); best < 0 || x.before(bestSlope) {
			best, bestSlope = i, x
		}
	}
	if best < 0 {
		return graph.NoNode
	}
	id := l.freed[best]
	l.freed = without(l.freed, best)
	return id
}

// effect returns the slope of one node. In reverse, its operands become live and its outputs die.
func (l *lister) effect(id graph.NodeID) slope {
	var made, read, place int64
	last := int32(1) // the count in left for a buffer that the node frees, or in reverse makes live
	if l.rule.reverse {
		last = 0
	}
	for _, v := range l.b.makes[id] {
		made += l.b.size[v]
	}
	for _, v := range l.b.reads[id] {
		if l.left[v] == last && !l.b.pinned[v] {
			read += l.b.size[v]
		}
	}
	for _, v := range l.b.inPlace[id] {
		if l.left[v] == last {
			place = l.b.size[v]
			break
		}
	}
	if l.rule.reverse {
		return slope{read - place, read - made}
	}
	return slope{made - place, made - read}
}

// place counts a node as placed and appends nodes that become ready by it to freed.
func (l *lister) place(id graph.NodeID) {
	l.move(id, -1)
	for _, next := range l.to.of(id) {
		if l.waits[next]--; l.waits[next] == 0 {
			l.freed = append(l.freed, next)
		}
	}
}

// unplace takes back the last place.
func (l *lister) unplace(id graph.NodeID) {
	l.move(id, 1)
	for _, next := range l.to.of(id) {
		l.waits[next]++
	}
}

func (l *lister) move(id graph.NodeID, by int32) {
	if l.rule.reverse {
		by = -by
	}
	for _, v := range l.b.reads[id] {
		l.left[v] += by
	}
}
