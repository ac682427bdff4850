package remat

import "math/bits"

// nodeSet is a set of nodes below exactNodes.
type nodeSet [exactNodes / 64]uint64

func (s *nodeSet) has(v int32) bool { return s[v>>6]>>(v&63)&1 != 0 }
func (s *nodeSet) add(v int32)      { s[v>>6] |= 1 << (v & 63) }
func (s *nodeSet) remove(v int32)   { s[v>>6] &^= 1 << (v & 63) }

func (s *nodeSet) meets(t *nodeSet) bool {
	for i := range s {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

// within tells whether all of s is in t.
func (s *nodeSet) within(t *nodeSet) bool {
	for i := range s {
		if s[i]&^t[i] != 0 {
			return false
		}
	}
	return true
}

func (s *nodeSet) union(t *nodeSet) nodeSet {
	var u nodeSet
	for i := range s {
		u[i] = s[i] | t[i]
	}
	return u
}

// each calls do with the nodes of the set in ascending order.
func (s *nodeSet) each(do func(v int32)) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			do(int32(i<<6 + bits.TrailingZeros64(word)))
		}
	}
}

// exactState is a moment of a schedule seen from its end. The runs behind it are settled, before it
// stand the first runs of the nodes below left.
type exactState struct {
	wanted nodeSet // values that the runs behind need live at the moment
	left   int32
	ran    int32 // the run right behind the moment, or -1 at the end
	behind int32 // the state behind that run
	refine bool  // the bound has been computed for this state by itself
	bytes  int64 // wanted
	cost   int64 // of the extra runs behind
	bound  int64 // of the extra runs before
}

func (s *exactState) total() int64 { return s.cost + s.bound }

// exactTable finds states by wanted and left: a hash table with linear probing.
type exactTable struct {
	states []exactState
	slots  []int32 // number of a state + 1; 0 is free
}

func (t *exactTable) hash(s *exactState) int {
	h := uint64(s.left) * 0x9e3779b97f4a7c15
	for _, w := range s.wanted {
		h = (h ^ w) * 0xbf58476d1ce4e5b9
		h ^= h >> 29
	}
	return int(h & uint64(len(t.slots)-1))
}

// find returns the number of the state with the same wanted and left; one that is not there is
// added.
func (t *exactTable) find(s *exactState) (id int32, added bool) {
	if 2*len(t.states) >= len(t.slots) {
		t.grow()
	}
	at := t.hash(s)
	for ; t.slots[at] != 0; at = (at + 1) & (len(t.slots) - 1) {
		if o := &t.states[t.slots[at]-1]; o.left == s.left && o.wanted == s.wanted {
			return t.slots[at] - 1, false
		}
	}
	t.states = append(t.states, *s)
	t.slots[at] = int32(len(t.states))
	return int32(len(t.states)) - 1, true
}

func (t *exactTable) grow() {
	t.slots = make([]int32, max(1<<10, 2*len(t.slots)))
	for i := range t.states {
		at := t.hash(&t.states[i])
		for t.slots[at] != 0 {
			at = (at + 1) & (len(t.slots) - 1)
		}
		t.slots[at] = int32(i) + 1
	}
}

// exactQueue is a binary heap of states: those with the lowest total first, among these those with
// the fewest first runs left, and among these the newest.
type exactQueue []exactEntry

type exactEntry struct {
	total int64
	left  int32
	id    int32
}

func (a exactEntry) before(b exactEntry) bool {
	if a.total != b.total {
		return a.total < b.total
	}
	if a.left != b.left {
		return a.left < b.left
	}
	return a.id > b.id
}

func (q *exactQueue) push(e exactEntry) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 && e.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = e
	*q = h
}

func (q *exactQueue) pop() exactEntry {
	h := *q
	top, e := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	for i := 0; len(h) > 0; {
		c := 2*i + 1
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if c >= len(h) || !h[c].before(e) {
			h[i] = e
			break
		}
		h[i] = h[c]
		i = c
	}
	return top
}
