package order

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"memopt/graph"
)

const (
	// peakBuffers is how many of the buffers that live at the peak are moved, the largest first.
	peakBuffers = 64
	// smallOrder: in orders of up to so many nodes every single node is tried at every place.
	smallOrder = 64
)

// improve moves nodes in the best orders as long as that helps. Then it goes on from the best by
// iterated local search (Lourenço, Martin and Stützle, "Iterated local search", 2003): it shakes a
// few nodes near the peak, improves the outcome, and starts from that if it is no worse. The random
// numbers are the same in every run.
func (s *search) improve() {
	for _, j := range slices.Clone(s.kept) {
		p := &polisher{s: s, cur: j, stamp: make([]int32, len(j.order))}
		p.polish()
		s.try(p.cur.order)
	}
	if len(s.kept) == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(s.c.start))))
	p := &polisher{s: s, cur: s.kept[0], stamp: make([]int32, len(s.c.start))}
	for idle := 0; idle < idleShakes && !s.done() && p.cur.peak > s.bound; idle++ {
		before := p.cur
		p.shake(rng)
		p.polish()
		if p.cur.better(before) {
			idle = 0
		} else if before.better(p.cur) {
			p.cur = before
		}
	}
	if s.err == nil {
		s.try(p.cur.order)
	}
}

// idleShakes is how often in a row shaking may fail.
const idleShakes = 200

// polisher improves one order.
type polisher struct {
	s     *search
	cur   *judged
	pos   []int32 // by node: its place in cur
	stamp []int32 // by node: the number of the last group that it was in
	group int32
}

// polish makes all moves that help.
func (p *polisher) polish() {
	for !p.s.done() && p.cur.peak > p.s.bound && (p.unload() || p.shift()) {
	}
}

// shakes is the largest number of nodes that are moved at random.
const shakes = 4

// shake moves some nodes near the peak to other places that they may have.
func (p *polisher) shake(rng *rand.Rand) {
	t := p.s.simulate(p.cur.order)
	if t == nil {
		return
	}
	order, c := slices.Clone(p.cur.order), p.s.c
	reach := min(len(order)/8+8, len(order))
	for range 1 + rng.IntN(shakes) {
		from := min(max(t.Peak.Step-reach+rng.IntN(2*reach), 0), len(order)-1)
		id := order[from]
		low, high := from, from
		for low > 0 && c.backward[order[low-1]] == c.backward[id] && !slices.Contains(c.succ.of(order[low-1]), id) {
			low--
		}
		for high+1 < len(order) && c.backward[order[high+1]] == c.backward[id] &&
			!slices.Contains(c.pred.of(order[high+1]), id) {
			high++
		}
		order = rotated(order, from, low+rng.IntN(high-low+1))
	}
	p.s.work -= int64(len(order))
	if j := p.s.judge(order); j != nil {
		p.cur = j
	}
}

// accept takes over an order if it is better.
func (p *polisher) accept(order graph.Order) bool {
	if order == nil {
		return false
	}
	j := p.s.judge(order)
	if j == nil || !j.better(p.cur) {
		return false
	}
	p.cur = j
	return true
}

// unload looks for a move that keeps a buffer from living at the peak: its producer, with its
// dependents, runs after the peak, or its last readers, with their dependencies, run before.
func (p *polisher) unload() bool {
	t := p.s.simulate(p.cur.order)
	if t == nil {
		return false
	}
	p.pos = p.cur.order.Positions()
	at := int32(t.Peak.Step)
	for _, v := range p.crossing(at) {
		for _, far := range []bool{false, true} {
			if p.s.done() {
				return false
			}
			if p.accept(p.sink(v, at, far)) || p.accept(p.hoist(v, at, far)) {
				return true
			}
		}
	}
	return false
}

// crossing returns the buffers that live at a place, the largest first.
func (p *polisher) crossing(at int32) []graph.ValueID {
	b := p.s.buffers
	seen := make([]bool, len(b.size))
	var out []graph.ValueID
	for i := int(at); i < len(p.cur.order); i++ {
		for _, v := range b.reads[p.cur.order[i]] {
			if !seen[v] && b.maker[v] != graph.NoNode && p.pos[b.maker[v]] <= at && b.size[v] > 0 {
				seen[v] = true
				out = append(out, v)
			}
		}
	}
	slices.SortStableFunc(out, func(x, y graph.ValueID) int { return cmp.Compare(b.size[y], b.size[x]) })
	return out[:min(len(out), peakBuffers)]
}

// sink returns the order with a buffer's producer and all its dependents up to a place moved behind
// the place: right behind it, or as late as possible. It is nil if they cannot move.
func (p *polisher) sink(v graph.ValueID, at int32, far bool) graph.Order {
	order, c := p.cur.order, p.s.c
	from := p.pos[p.s.buffers.maker[v]]
	if from >= at || c.backward[order[from]] != c.backward[order[at]] {
		return nil
	}
	p.group++
	p.stamp[order[from]] = p.group
	for i := from + 1; i <= at; i++ {
		if p.touches(c.pred.of(order[i])) {
			p.stamp[order[i]] = p.group
		}
	}
	if p.stamp[order[at]] == p.group {
		return nil
	}
	end := at + 1
	for far && int(end) < len(order) && c.backward[order[end]] == c.backward[order[at]] &&
		!p.touches(c.pred.of(order[end])) {
		end++
	}
	return p.moved(from, end, false)
}

// hoist returns the order with the readers of a buffer behind a place and all their dependencies
// moved before the place: right before it, or as early as possible. It is nil if they cannot move.
func (p *polisher) hoist(v graph.ValueID, at int32, far bool) graph.Order {
	order, c, b := p.cur.order, p.s.c, p.s.buffers
	p.group++
	last := at
	for i := at + 1; int(i) < len(order); i++ {
		if slices.Contains(b.reads[order[i]], v) {
			p.stamp[order[i]] = p.group
			last = i
		}
	}
	if last == at || b.pinned[v] || c.backward[order[last]] != c.backward[order[at]] {
		return nil
	}
	for i := last - 1; i >= at; i-- {
		if p.touches(c.succ.of(order[i])) {
			p.stamp[order[i]] = p.group
		}
	}
	if p.stamp[order[at]] == p.group {
		return nil
	}
	begin := at
	for far && begin > 0 && c.backward[order[begin-1]] == c.backward[order[at]] &&
		!p.touches(c.succ.of(order[begin-1])) {
		begin--
	}
	return p.moved(begin, last+1, true)
}

// touches reports whether one of the nodes is in the current group.
func (p *polisher) touches(nodes []graph.NodeID) bool {
	for _, id := range nodes {
		if p.stamp[id] == p.group {
			return true
		}
	}
	return false
}

// moved returns the current order with the current group first or last in a range of places.
func (p *polisher) moved(from, to int32, first bool) graph.Order {
	p.s.work -= int64(len(p.cur.order))
	out := append(make(graph.Order, 0, len(p.cur.order)), p.cur.order[:from]...)
	for _, inGroup := range []bool{first, !first} {
		for _, id := range p.cur.order[from:to] {
			if (p.stamp[id] == p.group) == inGroup {
				out = append(out, id)
			}
		}
	}
	return append(out, p.cur.order[to:]...)
}

// shift tries every node of a small order at every place that it may have.
func (p *polisher) shift() bool {
	order, c := p.cur.order, p.s.c
	if len(order) > smallOrder {
		return false
	}
	for i, id := range order {
		for j := i + 1; j < len(order) && c.backward[order[j]] == c.backward[id] &&
			!slices.Contains(c.pred.of(order[j]), id); j++ {
			if p.s.done() {
				return false
			}
			if p.accept(rotated(order, i, j)) {
				return true
			}
		}
		for j := i - 1; j >= 0 && c.backward[order[j]] == c.backward[id] &&
			!slices.Contains(c.succ.of(order[j]), id); j-- {
			if p.s.done() {
				return false
			}
			if p.accept(rotated(order, i, j)) {
				return true
			}
		}
	}
	return false
}

// rotated returns the order with the node at one place moved to another.
func rotated(order graph.Order, from, to int) graph.Order {
	out := slices.Delete(slices.Clone(order), from, from+1)
	return slices.Insert(out, to, order[from])
}
