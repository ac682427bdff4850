package pack

import (
	"cmp"
	"math"
	"slices"
)

// picker is a rule for the section to decide on next.
type picker int

const (
	pickLowest   picker = iota // the lowest floor, the least slack on a tie
	pickFewest                 // the fewest candidates, the least slack on a tie
	pickWeighted               // the least slack for the number of dead ends found there
	pickTightest               // the least slack
)

// solve places the open jobs of the sections [a, b). Where no open job lives on both sides of a
// border, the sides are independent and are solved one after the other: if one has no solution,
// changing the other does not help.
func (x *exact) solve(a, b int32, depth int) outcome {
	for a < b && x.open[a] == 0 {
		a++
	}
	for a < b && x.open[b-1] == 0 {
		b--
	}
	if a == b {
		return found
	}
	for k := a + 1; k < b; k++ {
		if x.cross[k] == 0 {
			return x.sides(a, b, depth)
		}
	}
	return x.branch(a, b, depth)
}

// side is a range of sections that is independent of the rest.
type side struct {
	a, b  int32
	slack int64
}

// sides solves independent ranges, the shortest first, since that fails soonest.
func (x *exact) sides(a, b int32, depth int) outcome {
	var list []side
	for from, k := a, a+1; k <= b; k++ {
		if k < b && x.cross[k] > 0 {
			continue
		}
		s := side{from, k, math.MaxInt64}
		for i := from; i < k; i++ {
			if x.open[i] > 0 {
				s.slack = min(s.slack, x.slack(i))
			}
		}
		if s.slack < math.MaxInt64 {
			list = append(list, s)
		}
		from = k
	}
	slices.SortStableFunc(list, func(p, q side) int {
		return cmp.Or(cmp.Compare(p.b-p.a, q.b-q.a), cmp.Compare(p.slack, q.slack))
	})
	for _, s := range list {
		if o := x.branch(s.a, s.b, depth); o != found {
			return o
		}
	}
	return found
}

// slack is the room that the open jobs of a section leave above its floor.
func (x *exact) slack(k int32) int64 { return x.capacity - x.floor[k] - x.total[k] }

// branch decides which job of a section rests on the section's floor. A candidate is a job at the
// level of the floor that is not blocked. Either one of them lies there, or all of them are
// blocked. The conflict of a failure is the union of those of the branches; a branch that fails
// without this decision to blame settles the matter.
func (x *exact) branch(a, b int32, depth int) outcome {
	word, bit := x.bit(depth)
	if word >= x.words || x.full() || x.nodes >= x.limit || x.spend(int(b-a)) {
		return limited
	}
	x.nodes++
	for len(x.scratch) <= depth {
		x.scratch = append(x.scratch, nil)
		x.blame = append(x.blame, make([]uint64, x.words))
	}
	k := x.pick(a, b, depth)
	if x.stopped {
		return limited
	}
	list, floor := x.scratch[depth], x.floor[k]
	slices.SortFunc(list, func(p, q int32) int { return cmp.Compare(x.rank[p], x.rank[q]) })
	blame := x.blame[depth]
	clear(blame)
	m := x.mark()
	for n := range len(list) + 1 {
		ok := false
		if n < len(list) {
			ok = x.drop(list[n], floor, depth)
		} else {
			ok = x.block(list, floor, depth)
		}
		o := failed
		if ok {
			o = x.solve(a, b, depth+1)
		}
		if o == found || o == limited {
			return o
		}
		x.undo(m)
		if x.conflict[word]&bit == 0 {
			return failed
		}
		join(blame, x.conflict)
	}
	copy(x.conflict, blame)
	if depth>>x.shift<<x.shift == depth { // else an earlier decision shares the bit
		x.conflict[word] &^= bit
	}
	return failed
}

// block rules out that a job of the list lies at its level.
func (x *exact) block(list []int32, level int64, depth int) bool {
	x.begin()
	for _, i := range list {
		x.raise(i, level+1, true, int32(depth), x.since(i, level))
	}
	return x.settle()
}

// option is a section that pick may choose.
type option struct {
	section int32
	key     float64
	slack   int64
}

// pick returns the section to decide on and leaves its candidates in scratch. It must be one whose
// floor leaves no space for an open job below a candidate; at the lowest floor of all that cannot
// happen. A run that must end picks any section.
func (x *exact) pick(a, b int32, depth int) int32 {
	options := x.options[:0]
	for k := a; k < b; k++ {
		if x.open[k] > 0 && x.choice[k] > 0 {
			options = append(options, option{k, x.key(k), x.slack(k)})
		}
	}
	x.options = options
	for {
		best := 0
		for i, o := range options {
			p := options[best]
			if o.key < p.key || o.key == p.key && (o.slack < p.slack || o.slack == p.slack && o.section < p.section) {
				best = i
			}
		}
		k := options[best].section
		list := x.scratch[depth][:0]
		for _, u := range x.members[k][:x.open[k]] {
			if x.level[u] == x.floor[k] && !x.stuck[u] {
				list = append(list, u)
			}
		}
		x.scratch[depth] = list
		if x.pickBy == pickLowest || x.spend(len(options)+int(x.open[k])) || x.clean(list, x.floor[k]) {
			return k
		}
		options[best] = options[len(options)-1]
		options = options[:len(options)-1]
	}
}

// key is the sort key of sections for the picker.
func (x *exact) key(k int32) float64 {
	switch x.pickBy {
	case pickLowest:
		return float64(x.floor[k])
	case pickWeighted:
		return float64(x.slack(k)+1) / (x.weight[k] + 1)
	case pickFewest:
		return float64(x.choice[k])
	}
	return 0
}

// clean reports whether no open job fits below one of the list at the level.
func (x *exact) clean(list []int32, level int64) bool {
	for _, i := range list {
		if x.spend(len(x.meets[i])) {
			return true
		}
		for _, u := range x.meets[i] {
			if x.offset[u] < 0 && x.level[u] <= level-x.jobs[u].size {
				return false
			}
		}
	}
	return true
}
