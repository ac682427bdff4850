package remat

import "slices"

// boundNodes is the size up to which costBound is worth its quadratic time.
const boundNodes = 3000

// costBound is a lower bound on the cost of any schedule in the given order. While node t
// is computed for the first time, every value made before whose user comes later is
// either live or has to be computed again. Only so many bytes can be live; which values are cheapest to
// do without is a knapsack problem, whose relaxation (a value may be left out in part) is
// solved by taking the cheapest bytes first. The costliest t gives the bound.
func (p *problem) costBound() int64 {
	if p.n > boundNodes {
		return p.base
	}
	order := p.byPrice()
	out := make([]bool, p.n)
	best := int64(0)
	for t := range int32(p.n) {
		best = max(best, p.knapsack(order, t, out))
	}
	return p.base + best
}

// byPrice is the values in the order of their cost per byte, those without bytes left out.
func (p *problem) byPrice() []int32 {
	var order []int32
	for v := range int32(p.n) {
		if p.size[v] > 0 && !p.keep[v] {
			order = append(order, v)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := float64(p.cost[a])*float64(p.size[b]), float64(p.cost[b])*float64(p.size[a])
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return order
}

// knapsack is the least cost of computing again what cannot be live during the first
// compute of t. Values for which free is set are already paid for.
func (p *problem) knapsack(order []int32, t int32, free []bool) int64 {
	missing := p.wantedAt(t) - p.budget
	for v := range t {
		if missing > 0 && free[v] && p.spans(v, t) {
			missing -= p.size[v]
		}
	}
	sum := 0.0
	for _, v := range order {
		if missing <= 0 {
			break
		}
		if free[v] || !p.spans(v, t) {
			continue
		}
		if p.size[v] >= missing {
			sum += float64(p.cost[v]) * float64(missing) / float64(p.size[v])
		} else {
			sum += float64(p.cost[v])
		}
		missing -= p.size[v]
	}
	return ceil(sum)
}

// ceil rounds up but for the error of the sums.
func ceil(x float64) int64 {
	k := int64(x)
	if x-float64(k) > 1e-6*max(1, x*1e-6) {
		k++
	}
	return k
}

// spans tells whether v is made before t, used after it, and not needed by t itself.
func (p *problem) spans(v, t int32) bool {
	users := p.users[v]
	return v < t && len(users) > 0 && users[len(users)-1] > t && !p.keep[v] && !slices.Contains(p.uses[t], v)
}

// wantedAt is the bytes that would be live during the first compute of t if nothing was
// computed again.
func (p *problem) wantedAt(t int32) int64 {
	sum := p.size[t] + p.work[t]
	for _, u := range p.uses[t] {
		sum += p.size[u]
	}
	for v := range t {
		if p.spans(v, t) || p.keep[v] && !slices.Contains(p.uses[t], v) {
			sum += p.size[v]
		}
	}
	return sum
}
