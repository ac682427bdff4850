package remat

import "math"

// FromCut turns tasks recomputed behind the first run of task t (see CutExtras) into extra runs:
// each task once, right before the first reader of its outputs behind t, recomputed tasks included.
// Tasks that are not needed behind t are left out. The answer is valid, but it may be above the
// budget elsewhere.
func (g *Graph) FromCut(tasks []int32, t int32) []Extra {
	before := g.rerunPlaces(tasks, t)
	var extras []Extra
	for _, x := range tasks {
		if x < t && !g.Tasks[x].Once && int(before[x]) < len(g.Tasks) && before[x] > x && before[x] >= g.From {
			extras = append(extras, Extra{Task: x, Before: before[x]})
		}
	}
	return SortExtras(extras)
}

// rerunPlaces returns by task the first place behind t that needs it to be recomputed, or the number of
// tasks.
func (g *Graph) rerunPlaces(tasks []int32, t int32) []int32 {
	n := len(g.Tasks)
	again := make([]bool, n)
	for _, x := range tasks {
		again[x] = x < t
	}
	first := make([]int32, len(g.Values)) // by value: its first reader behind t
	for v := range first {
		first[v] = int32(n)
	}
	from := max(t+1, g.From)
	for r := int32(n) - 1; r >= from; r-- {
		for _, u := range g.Tasks[r].Uses {
			first[u] = r
		}
	}
	before := make([]int32, n)
	for x := min(int32(n), t) - 1; x >= 0; x-- {
		before[x] = int32(n)
		if !again[x] {
			continue
		}
		for _, v := range g.Tasks[x].Makes {
			before[x] = min(before[x], first[v])
		}
		if before[x] < int32(n) {
			before[x] = g.latest(x, before[x])
		}
		for _, u := range g.Tasks[x].Uses {
			first[u] = min(first[u], before[x])
		}
	}
	return before
}

// CutAt returns the tasks to recompute behind the first run of task t in a cheap cut that holds no
// more than some bytes there, the needs of t itself included: the cheapest one at the least price
// of a byte that makes it fit. ok is false if no cut fits; then the tasks are those of the cut that
// holds the least. See FromCut.
func (g *Graph) CutAt(t int32, bytes int64) (tasks []int32, ok bool) {
	c := newMomentCut(newMoments(g))
	least, _ := c.smallest(t, math.MaxInt64)
	if tasks = c.tasks(); least.bytes > bytes {
		return tasks, false
	}
	fits := func(price float64) bool {
		_, got, full := c.price(t, price, bytes, math.MaxInt64)
		return full && got.bytes <= bytes
	}
	// The price is looked for by bisection of its exponent: cuts change at finitely many prices.
	low, high := -60.0, 60.0
	for range 48 {
		middle := (low + high) / 2
		if !fits(math.Exp2(middle)) {
			low = middle
			continue
		}
		high, tasks = middle, c.tasks()
	}
	return tasks, true
}
