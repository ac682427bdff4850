package remat

import (
	"math"
	"math/rand/v2"
)

// annealer changes a tape at random. It minimises the cost plus a price for the bytes
// above the budget; changes that make this worse are accepted with a chance that falls with
// the temperature. The price rises while the tape is above the budget and falls while it is within.
type annealer struct {
	*tape
	rng   *rand.Rand
	unit  float64 // cost of a typical node
	price float64 // cost of one byte above the budget at one entry
	low   float64 // the price stays within [low, high]
	high  float64
	found func(seq []int32, cost int64) // called with each schedule within the budget that is the cheapest so far
	best  int64
	moved int64 // moves so far
}

func newAnnealer(p *single, rng *rand.Rand, found func([]int32, int64)) *annealer {
	a := &annealer{tape: newTape(p), rng: rng, found: found, best: math.MaxInt64}
	a.unit = float64(p.base) / float64(max(1, p.n))
	sum := 0.0
	for _, s := range p.size {
		sum += float64(s)
	}
	a.price = a.unit / max(1, sum/float64(max(1, p.n)))
	a.low, a.high = a.price/100, a.price*100
	return a
}

// Numbers of the annealing schedule. Temperatures are in units of the cost of a typical node.
const (
	hot      = 0.5   // first temperature
	warm     = 0.1   // first temperature of a round that starts from a good schedule
	cold     = 0.004 // last temperature
	seeking  = 0.2   // temperature while there is no schedule
	priceGap = 256   // moves between two changes of the price
	redoOdd  = 0.4   // chance that a missing input is computed anew instead of held
)

// seek moves until the tape is within the budget. The price rises all the while; when it is so high
// that no move is accepted any more, it starts from its first value again.
func (a *annealer) seek(stop func() bool) {
	a.note()
	low := a.price
	for i := 1; a.best == math.MaxInt64; i++ {
		if i%priceGap == 0 {
			if a.price *= 1.01; a.price > 1000*low {
				a.price = low
			}
			if stop() {
				break
			}
		}
		a.move(seeking * a.unit)
	}
	a.price = min(a.price, a.high)
}

// anneal does so many moves while the temperature falls.
func (a *annealer) anneal(moves int, from, to float64, stop func() bool) {
	a.note()
	t := from * a.unit
	fall := math.Pow(to/from, priceGap/float64(max(moves, priceGap)))
	inside := 0
	for i := range moves {
		if a.over == 0 {
			inside++
		}
		if i%priceGap == priceGap-1 {
			a.reprice(inside)
			inside = 0
			t *= fall
			if stop() {
				return
			}
		}
		a.move(t)
	}
}

// reprice moves the price so that about half of the time is spent within the budget.
func (a *annealer) reprice(inside int) {
	switch {
	case inside < priceGap/4:
		a.price = min(a.high, a.price*1.05)
	case inside > priceGap*3/4:
		a.price = max(a.low, a.price/1.05)
	}
}

// move tries one change. How much worse it may make the tape is drawn first, so that hopeless
// changes are dropped early.
func (a *annealer) move(t float64) {
	a.walked++
	a.moved++
	cost, room := a.cost, -t*math.Log(1-a.rng.Float64())+a.price*float64(a.excess)
	if !a.change() {
		a.undo()
		return
	}
	room = min((room-float64(a.cost-cost))/a.price, maxTotal)
	if room < 0 || !a.settle(int64(room)) || a.excess > int64(room) {
		a.undo()
		return
	}
	a.commit()
	if a.over == 0 {
		a.note()
	}
}

// note keeps the tape if it is the best so far.
func (a *annealer) note() {
	if a.over == 0 && a.cost < a.best {
		a.best = a.cost
		a.found(a.sequence(), a.cost)
	}
}

// change makes one of the moves and reports whether it did anything.
func (a *annealer) change() bool {
	if len(a.extras) == 0 {
		return a.split(a.spot())
	}
	switch k := a.rng.IntN(16); {
	case k < 5:
		return a.split(a.spot())
	case k < 8:
		a.remove(a.extra())
		return true
	case k < 12:
		return a.shift()
	case k < 14:
		return a.replace()
	case k < 15:
		return a.removeRun()
	}
	return a.shiftRun()
}

func (a *annealer) extra() int32 { return a.extras[a.rng.IntN(len(a.extras))] }

// spot is a random entry, preferably one above the budget.
func (a *annealer) spot() int32 {
	k := a.rng.IntN(a.n + len(a.extras))
	e := int32(k)
	if k >= a.n {
		e = a.extras[k-a.n]
	}
	if a.over == 0 || a.rng.IntN(4) == 0 {
		return e
	}
	for range 64 {
		if a.mem[e] > a.budget {
			return e
		}
		if e = a.next[e]; int(e) == a.n {
			e = 0
		}
	}
	return e
}

// split throws away a value that is held over entry e, and computes it again before its next use.
func (a *annealer) split(e int32) bool {
	x := a.pick(e, a.rng.Uint32())
	if x < 0 || a.keep[x] || a.maker[x] == a.node[e] || a.usedBy(e, x) || a.isOnce(a.maker[x]) {
		return false
	}
	u := a.next[e]
	for int(u) != a.n && !a.usedBy(u, x) {
		u = a.next[u]
	}
	if int(u) == a.n {
		return false
	}
	// A few steps ahead of the use, its inputs may still be there.
	if a.rng.IntN(3) == 0 {
		for k := a.rng.IntN(6); k > 0 && a.prev[u] != e; k-- {
			u = a.prev[u]
		}
	}
	a.again(a.maker[x], u, 0)
	return true
}

func (a *annealer) usedBy(e, x int32) bool {
	for _, u := range a.uses[a.node[e]] {
		if u == x {
			return true
		}
	}
	return false
}

// again puts a compute of x before entry u and, by chance, computes of those inputs of x that are
// not held there. The sets of entries put in before by the same move are those of u.
func (a *annealer) again(x, u int32, depth int) {
	f := a.insert(x, u)
	if depth > 8 {
		return
	}
	for _, y := range a.uses[x] {
		if !a.has(f, y) && !a.keep[y] && !a.isOnce(a.maker[y]) && a.rng.Float64() < redoOdd {
			a.again(a.maker[y], f, depth+1)
		}
	}
}

// shift moves an extra compute a few entries to the front or to the end.
func (a *annealer) shift() bool {
	w := a.extra()
	x, u := a.node[w], a.next[w]
	steps := 1 + a.rng.IntN(8)
	if a.rng.IntN(4) == 0 {
		steps = 1 + a.rng.IntN(40)
	}
	if a.rng.IntN(2) == 0 {
		for ; steps > 0 && a.stageBefore(a.prev[u]) >= x && a.node[a.prev[u]] != x || a.prev[u] == w; steps-- {
			u = a.prev[u]
		}
		if u == w {
			return false
		}
	} else {
		for ; steps > 0 && int(u) != a.n; steps-- {
			u = a.next[u]
		}
	}
	if u == a.next[w] {
		return false
	}
	a.remove(w)
	a.insert(x, u)
	return true
}

// replace takes an extra compute out and splits another value near it.
func (a *annealer) replace() bool {
	w := a.extra()
	e := a.prev[w]
	for k := a.rng.IntN(8); k > 0 && e > 0; k-- {
		e = a.prev[e]
	}
	a.remove(w)
	return a.split(e)
}

// removeRun takes out an extra compute and some of those next to it.
func (a *annealer) removeRun() bool {
	w := a.extra()
	for k := 1 + a.rng.IntN(3); k > 0 && int(w) > a.n; k-- {
		next := a.next[w]
		a.remove(w)
		w = next
	}
	return true
}

// shiftRun moves an extra compute and the run of extra ones before it past the first
// compute in front or behind.
func (a *annealer) shiftRun() bool {
	w := a.extra()
	for int(a.next[w]) > a.n && a.rng.IntN(4) > 0 {
		w = a.next[w]
	}
	var run []int32
	e := w
	for k := 0; k < 8 && int(e) > a.n; k++ {
		run = append(run, e)
		e = a.prev[e]
	}
	target := e // before the entry in front of the run
	if a.rng.IntN(2) == 0 {
		if target = a.next[w]; int(target) == a.n {
			return false
		}
		target = a.next[target]
	}
	for _, r := range run {
		if a.stageBefore(target) < a.node[r] {
			return false
		}
	}
	for _, r := range run {
		x := a.node[r]
		a.remove(r)
		target = a.insert(x, target)
	}
	return true
}
