package remat

import (
	"cmp"
	"container/heap"
	"slices"
)

// exactNodes is the size up to which all states are searched: there are at most exactNodes * 2^exactNodes.
const exactNodes = 12

// moment is a state of a schedule: the live nodes, and how many have been computed for the first time.
type moment struct {
	live uint32
	done int32
}

// path is the cheapest way known to a moment: what was computed last, and where it came from.
type path struct {
	moment
	cost   int64
	parent int32 // index of the path before; -1: none
	node   int32 // computed last; -1: a node was freed
}

// frontier orders paths by cost, and equal ones by age, so that the outcome is always the same.
type frontier struct {
	paths []path
	order []int32
}

func (f *frontier) Len() int { return len(f.order) }
func (f *frontier) Less(i, j int) bool {
	a, b := f.order[i], f.order[j]
	return cmp.Or(cmp.Compare(f.paths[a].cost, f.paths[b].cost), cmp.Compare(a, b)) < 0
}
func (f *frontier) Swap(i, j int) { f.order[i], f.order[j] = f.order[j], f.order[i] }
func (f *frontier) Push(x any)    { f.order = append(f.order, x.(int32)) }
func (f *frontier) Pop() any {
	last := f.order[len(f.order)-1]
	f.order = f.order[:len(f.order)-1]
	return last
}

func (f *frontier) add(p path) {
	f.paths = append(f.paths, p)
	heap.Push(f, int32(len(f.paths)-1))
}

// runExact searches all states of a small instance by Dijkstra's algorithm. What it finds is
// the cheapest schedule in the given order.
func (s *solver) runExact() {
	s.stage = "exact"
	f := &frontier{}
	f.add(path{parent: -1, node: -1})
	seen := map[moment]bool{}
	for f.Len() > 0 {
		at := heap.Pop(f).(int32)
		p := f.paths[at]
		if int(p.done) == s.n {
			s.offer(f.sequence(at))
			s.bound = max(s.bound, p.cost)
			return
		}
		if seen[p.moment] {
			continue
		}
		seen[p.moment] = true
		for v := range int32(s.n) {
			if next, ok := s.move(p, v); ok && !seen[next.moment] {
				next.parent = at
				f.add(next)
			}
		}
	}
}

// move frees v where it is live, else computes it.
func (s *solver) move(p path, v int32) (path, bool) {
	bit := uint32(1) << v
	if p.live&bit != 0 {
		if s.keep[v] || slices.ContainsFunc(s.sharers[v], func(w int32) bool { return p.live>>w&1 != 0 }) {
			return p, false
		}
		p.live, p.node = p.live&^bit, -1
		return p, true
	}
	if v > p.done || slices.ContainsFunc(s.uses[v], func(u int32) bool { return p.live>>u&1 == 0 }) {
		return p, false
	}
	p.live |= bit
	bytes := s.problem.work[v]
	for w := range s.n {
		if p.live>>w&1 != 0 {
			bytes += s.size[w]
		}
	}
	p.done, p.node = max(p.done, v+1), v
	p.cost += s.problem.cost[v]
	return p, bytes <= s.budget
}

// sequence returns the computes on the way to a path.
func (f *frontier) sequence(at int32) []int32 {
	var seq []int32
	for ; at >= 0; at = f.paths[at].parent {
		if v := f.paths[at].node; v >= 0 {
			seq = append(seq, v)
		}
	}
	slices.Reverse(seq)
	return seq
}
