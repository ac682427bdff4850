package remat

import (
	"math"
	"math/bits"
)

// tape is a sequence of computes that is changed step by step, with its cost and its memory profile
// kept up to date. Every node has one entry for its first compute, which never moves, and any
// number of extra ones. With each entry goes the set of values that are needed after it; all that
// an entry needs in memory follows from that set. So a change is taken in by walking from the last
// changed entry towards the front until the sets agree with the old ones again.
//
// Entry v < n is the first compute of node v, entry n is the end. Changes are put on a log: commit
// forgets it, undo reverts the tape.
type tape struct {
	*single
	words      int
	node       []int32
	prev, next []int32
	stage      []int32 // the last first compute at or before an entry
	place      []int32 // of an extra entry in extras
	mem        []int64 // bytes while the entry is computed
	bytes      []int64 // bytes of the values needed after it
	sets       []uint64
	alias      [][]uint64 // by node: the set of its sharers, or nil

	extras []int32
	spare  []int32
	cost   int64
	excess int64 // sum over the entries of the bytes above the budget
	over   int   // entries above the budget

	dirty   []bool
	pending int   // dirty entries that were not walked over yet
	last    int32 // the dirty entry that is furthest to the end, or -1
	log     []change
	saved   []uint64
	cur     []uint64
	walked  int64 // entries walked over and moves made, the measure of work
}

// change is an entry of the log.
type change struct {
	kind       byte // 'i' inserted, 'r' removed, 's' set of an entry rewritten
	e          int32
	mem, bytes int64
}

func newTape(p *single) *tape {
	n := p.n
	t := &tape{single: p, words: max(1, (len(p.size)+63)/64), last: -1, alias: make([][]uint64, n)}
	t.cur = make([]uint64, t.words)
	for v := range p.sharers {
		if p.sharers[v] != nil {
			t.alias[v] = make([]uint64, t.words)
			for _, w := range p.sharers[v] {
				t.alias[v][w/64] |= 1 << (w % 64)
			}
		}
	}
	for v := 0; v <= n; v++ {
		t.grow()
		t.node[v], t.stage[v] = int32(v), int32(v)
		t.prev[v], t.next[v] = int32(v-1), int32(v+1)
	}
	t.next[n] = -1
	end := t.set(int32(n))
	for v, k := range p.keep {
		if k {
			end[v/64] |= 1 << (v % 64)
			t.bytes[n] += p.size[v]
		}
	}
	t.reset()
	return t
}

// reset fills in the sets of a tape whose entries are linked.
func (t *tape) reset() {
	t.cost = 0
	for e := t.prev[t.n]; e >= 0; e = t.prev[e] {
		t.cost += t.single.cost[t.node[e]]
		if !t.dirty[e] {
			t.dirty[e] = true
			t.pending++
		}
	}
	t.last = t.prev[t.n]
	t.settle(math.MaxInt64)
	t.commit()
}

func (t *tape) grow() int32 {
	e := int32(len(t.node))
	t.node, t.prev, t.next = append(t.node, 0), append(t.prev, 0), append(t.next, 0)
	t.stage, t.place = append(t.stage, 0), append(t.place, -1)
	t.mem, t.bytes, t.dirty = append(t.mem, 0), append(t.bytes, 0), append(t.dirty, false)
	t.sets = append(t.sets, t.cur...)
	return e
}

func (t *tape) set(e int32) []uint64 { return t.sets[int(e)*t.words:][:t.words] }

// has tells whether v is needed after entry e.
func (t *tape) has(e, v int32) bool { return t.sets[int(e)*t.words+int(v/64)]>>(v%64)&1 != 0 }

// first tells whether e is a first compute.
func (t *tape) first(e int32) bool { return int(e) < t.n }

// stageBefore is the stage of an entry put before e.
func (t *tape) stageBefore(e int32) int32 {
	if int(e) <= t.n {
		return t.stage[e] - 1
	}
	return t.stage[e]
}

// insert puts a compute of v before entry e. The first compute of v must come earlier.
func (t *tape) insert(v, e int32) int32 {
	var f int32
	if k := len(t.spare); k > 0 {
		f, t.spare = t.spare[k-1], t.spare[:k-1]
	} else {
		f = t.grow()
	}
	t.node[f], t.stage[f] = v, t.stageBefore(e)
	t.mem[f], t.bytes[f] = 0, 0
	copy(t.set(f), t.set(t.prev[e]))
	t.bytes[f] = t.bytes[t.prev[e]]
	t.prev[f], t.next[f] = t.prev[e], e
	t.next[t.prev[e]], t.prev[e] = f, f
	t.place[f] = int32(len(t.extras))
	t.extras = append(t.extras, f)
	t.cost += t.single.cost[v]
	t.log = append(t.log, change{kind: 'i', e: f})
	t.touch(f)
	return f
}

// remove takes the extra entry e out.
func (t *tape) remove(e int32) {
	t.unlink(e)
	t.log = append(t.log, change{kind: 'r', e: e, mem: t.mem[e]})
	t.count(t.mem[e], -1)
	p := t.prev[e]
	if t.last == e {
		t.last = p
	}
	if t.dirty[e] {
		t.dirty[e] = false
		t.pending--
	}
	t.touch(p)
}

func (t *tape) unlink(e int32) {
	t.next[t.prev[e]], t.prev[t.next[e]] = t.next[e], t.prev[e]
	k := len(t.extras) - 1
	other := t.extras[k]
	t.extras[t.place[e]], t.place[other] = other, t.place[e]
	t.extras = t.extras[:k]
	t.place[e] = -1
	t.cost -= t.single.cost[t.node[e]]
}

// touch marks an entry whose set must be made anew.
func (t *tape) touch(e int32) {
	if !t.dirty[e] {
		t.dirty[e] = true
		t.pending++
	}
	if t.last < 0 || t.last != e && t.later(e, t.last) {
		t.last = e
	}
}

// later tells whether a comes after b.
func (t *tape) later(a, b int32) bool {
	if t.stage[a] != t.stage[b] {
		return t.stage[a] > t.stage[b]
	}
	for e := t.next[b]; e >= 0 && t.stage[e] == t.stage[b]; e = t.next[e] {
		if e == a {
			return true
		}
	}
	return false
}

// count adds (by = 1) or takes away (by = -1) an entry with the given need.
func (t *tape) count(mem int64, by int64) {
	if mem > t.budget {
		t.excess += by * (mem - t.budget)
		t.over += int(by)
	}
}

// settle takes in all changes. It gives up and reports false, with the tape half updated,
// if a source would be computed anew while an alias of it is live, or as soon as the entries
// walked over exceed the budget by more than limit in all.
func (t *tape) settle(limit int64) bool {
	if t.last < 0 {
		return true
	}
	e := t.next[t.last]
	bytes, excess := t.bytes[e], int64(0)
	copy(t.cur, t.set(e))
	if int(e) != t.n {
		bytes, _ = t.before(e, bytes)
	}
	for e = t.prev[e]; e >= 0; {
		if t.dirty[e] {
			t.dirty[e] = false
			t.pending--
		} else if t.pending == 0 && t.same(e) {
			break
		}
		t.walked++
		v := t.node[e]
		if !t.first(e) && t.needless(v) {
			t.unlink(e)
			t.log = append(t.log, change{kind: 'r', e: e, mem: t.mem[e]})
			t.count(t.mem[e], -1)
			e = t.prev[e]
			continue
		}
		if t.alias[v] != nil && t.meets(t.alias[v]) {
			t.last = -1
			return false
		}
		t.log = append(t.log, change{kind: 's', e: e, mem: t.mem[e], bytes: t.bytes[e]})
		t.saved = append(t.saved, t.set(e)...)
		t.count(t.mem[e], -1)
		copy(t.set(e), t.cur)
		t.bytes[e] = bytes
		bytes, t.mem[e] = t.before(e, bytes)
		t.count(t.mem[e], 1)
		if excess += max(0, t.mem[e]-t.budget); excess > limit {
			t.last = -1
			return false
		}
		e = t.prev[e]
	}
	t.last = -1
	return true
}

// before turns cur from the set needed after e into that needed before it, and returns
// its bytes and the need of e.
func (t *tape) before(e int32, bytes int64) (int64, int64) {
	v, need, made := t.node[e], int64(0), int64(0)
	for _, u := range t.makes[v] {
		switch bit := uint64(1) << (u % 64); {
		case t.keep[u] && !t.first(e): // a copy, which counts below
			continue
		case t.cur[u/64]&bit == 0:
			need += t.size[u]
		default:
			t.cur[u/64] &^= bit
			made += t.size[u]
		}
	}
	for _, u := range t.uses[v] {
		if b := uint64(1) << (u % 64); t.cur[u/64]&b == 0 {
			t.cur[u/64] |= b
			bytes += t.size[u]
		}
	}
	if need += bytes + t.single.work[v]; t.copies != nil && !t.first(e) {
		need += t.copies[v]
	}
	return bytes - made, need
}

// needless tells whether no output of a second compute of v is in cur, kept outputs aside.
func (t *tape) needless(v int32) bool {
	for _, u := range t.makes[v] {
		if t.cur[u/64]>>(u%64)&1 != 0 && !t.keep[u] {
			return false
		}
	}
	return true
}

func (t *tape) same(e int32) bool {
	s := t.set(e)
	for i, w := range t.cur {
		if s[i] != w {
			return false
		}
	}
	return true
}

func (t *tape) meets(set []uint64) bool {
	for i, w := range t.cur {
		if set[i]&w != 0 {
			return true
		}
	}
	return false
}

// commit makes the changes final.
func (t *tape) commit() {
	for i := range t.log {
		if t.log[i].kind == 'r' {
			t.spare = append(t.spare, t.log[i].e)
		}
	}
	t.log, t.saved = t.log[:0], t.saved[:0]
}

// undo takes back all changes since the last commit, settled or not.
func (t *tape) undo() {
	for i := len(t.log) - 1; i >= 0; i-- {
		c := &t.log[i]
		e := c.e
		t.dirty[e] = false
		switch c.kind {
		case 's':
			t.count(t.mem[e], -1)
			t.mem[e], t.bytes[e] = c.mem, c.bytes
			t.count(t.mem[e], 1)
			k := len(t.saved) - t.words
			copy(t.set(e), t.saved[k:])
			t.saved = t.saved[:k]
		case 'i':
			t.dirty[t.prev[e]] = false
			t.count(t.mem[e], -1)
			t.unlink(e)
			t.spare = append(t.spare, e)
		case 'r':
			t.dirty[t.prev[e]] = false
			t.next[t.prev[e]], t.prev[t.next[e]] = e, e
			t.place[e] = int32(len(t.extras))
			t.extras = append(t.extras, e)
			t.cost += t.single.cost[t.node[e]]
			t.count(t.mem[e], 1)
		}
	}
	t.log, t.last, t.pending = t.log[:0], -1, 0
}

// sequence is the nodes in the order of the tape.
func (t *tape) sequence() []int32 {
	out := make([]int32, 0, t.n+len(t.extras))
	for e := int32(0); int(e) != t.n; e = t.next[e] {
		out = append(out, t.node[e])
	}
	return out
}

// load makes the tape hold a sequence of computes.
func (t *tape) load(seq []int32) {
	for len(t.extras) > 0 {
		e := t.extras[len(t.extras)-1]
		t.count(t.mem[e], -1)
		t.unlink(e)
		t.spare = append(t.spare, e)
	}
	at := int32(0) // the next first compute
	for _, v := range seq {
		if v == at {
			at++
			continue
		}
		t.insert(v, at)
	}
	t.log = t.log[:0]
	t.reset()
}

// pick returns the k-th live value after e, counted from a random place.
func (t *tape) pick(e int32, from uint32) int32 {
	s := t.set(e)
	start := int(from>>6) % t.words
	if w := s[start] >> (from % 64); w != 0 {
		return int32(start*64) + int32(from%64) + int32(bits.TrailingZeros64(w))
	}
	for i := 1; i <= t.words; i++ {
		k := (start + i) % t.words
		if w := s[k]; w != 0 {
			return int32(k*64 + bits.TrailingZeros64(w))
		}
	}
	return -1
}
