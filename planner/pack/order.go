package pack

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// ranked turns keys into ranks: the smallest key gets 0.
func ranked[K cmp.Ordered](keys []K) []int32 {
	order := make([]int32, len(keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
	return rankOf(order)
}

// exactOrders are the orders of candidates in the exact search: see byLetters.
var exactOrders = []string{"AWT", "WAT", "TAW", "TWA", "SWT"}

// crowds sums up the sizes in each section, and finds for each job the largest such sum of its
// sections.
func (p *problem) crowds() (sums, most []int64) {
	sums, most = make([]int64, p.sections), make([]int64, len(p.jobs))
	for _, j := range p.jobs {
		for k := j.lo; k < j.hi; k++ {
			sums[k] += j.size
		}
	}
	for i, j := range p.jobs {
		most[i] = slices.Max(sums[j.lo:j.hi])
	}
	return sums, most
}

// byLetters returns the jobs in an order: by width in sections (W), area (A), the largest sum of
// sizes in a section of the job (T) or size (S), largest first, by start (B), earliest first, or by
// end (E), latest first; later letters decide ties.
func (p *problem) byLetters(name string) []int32 {
	var crowd []int64
	if strings.Contains(name, "T") {
		_, crowd = p.crowds()
	}
	order := make([]int32, len(p.jobs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(x, y int32) int {
		a, b := p.jobs[x], p.jobs[y]
		for _, letter := range name {
			c := 0
			switch letter {
			case 'W':
				c = cmp.Compare(b.hi-b.lo, a.hi-a.lo)
			case 'A':
				c = compareProduct(b, a)
			case 'T':
				c = cmp.Compare(crowd[y], crowd[x])
			case 'S':
				c = cmp.Compare(b.size, a.size)
			case 'B':
				c = cmp.Compare(a.lo, b.lo)
			case 'E':
				c = cmp.Compare(b.hi, a.hi)
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return order
}

// rankOf returns the position of every job in an order.
func rankOf(order []int32) []int32 {
	rank := make([]int32, len(order))
	for at, i := range order {
		rank[i] = int32(at)
	}
	return rank
}

// byKeys orders jobs by keys, by their numbers on a tie.
func byKeys(order []int32, keys []float64) {
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b)) })
}

// compareProduct orders by lifetime times size, which may need 128 bits.
func compareProduct(a, b job) int {
	ah, al := bits.Mul64(uint64(a.hi-a.lo), uint64(a.size))
	bh, bl := bits.Mul64(uint64(b.hi-b.lo), uint64(b.size))
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl))
}
