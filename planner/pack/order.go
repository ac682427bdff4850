package pack

import (
	"cmp"
	"slices"
)

// ranked turns keys into ranks: the smallest key gets 0.
func ranked[K cmp.Ordered](keys []K) []int32 {
	order := make([]int32, len(keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
	rank := make([]int32, len(keys))
	for at, i := range order {
		rank[i] = int32(at)
	}
	return rank
}

// exactOrders are the orders in which the exact search tries candidates: by width in sections (W),
// area (A), the largest sum of sizes in a section of the job (T) or size (S), largest first, later
// letters deciding ties.
var exactOrders = []string{"AWT", "WAT", "TAW", "TWA", "SWT"}

// ranks computes an order of exactOrders.
func (x *exact) ranks(name string) []int32 {
	crowd := make([]int64, len(x.jobs))
	sum := make([]int64, x.sections)
	for _, j := range x.jobs {
		for k := j.lo; k < j.hi; k++ {
			sum[k] += j.size
		}
	}
	for i, j := range x.jobs {
		crowd[i] = slices.Max(sum[j.lo:j.hi])
	}
	order := make([]int32, len(x.jobs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(p, q int32) int {
		a, b := x.jobs[p], x.jobs[q]
		for _, letter := range name {
			c := 0
			switch letter {
			case 'W':
				c = cmp.Compare(b.hi-b.lo, a.hi-a.lo)
			case 'A':
				c = compareProduct(b, a)
			case 'T':
				c = cmp.Compare(crowd[q], crowd[p])
			case 'S':
				c = cmp.Compare(b.size, a.size)
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	rank := make([]int32, len(order))
	for at, i := range order {
		rank[i] = int32(at)
	}
	return rank
}
