package envelope

import (
	"cmp"
	"slices"

	"memopt/symbolic"
)

// worst returns the loads that may be the peak at some binding of a box: the others are proved to be at
// most as large as one of these everywhere. It returns at least one.
func worst(r *region, loads []Load) []Load {
	if len(loads) == 1 {
		return loads
	}
	c := newContest(r, loads)
	kept := c.exceptBelow(c.champions())
	// Few loads are left, as a rule; each may still be below one of the others.
	if len(kept) <= maxPairs && !r.work.done() {
		kept = c.pairwise(kept)
	}
	out := make([]Load, len(kept))
	for i, k := range kept {
		out[i] = loads[k]
	}
	return out
}

// maxPairs bounds the candidates that are compared with each other.
const maxPairs = 60

// contest compares loads within a box. Loads are told by their place in the list.
type contest struct {
	in    *region
	loads []symbolic.Expr // with the symbols bound that have one value
	seen  [][]int64       // by load and probe: the bytes there
}

func newContest(r *region, loads []Load) *contest {
	c := &contest{in: r, loads: make([]symbolic.Expr, len(loads)), seen: make([][]int64, len(loads))}
	probes := r.probes()
	all := make([]int64, len(probes)*len(loads))
	for i, l := range loads {
		c.loads[i] = l.Bytes.Bind(r.fixed)
		c.seen[i], all = all[:len(probes)], all[len(probes):]
		r.work.spend((2 + len(probes)) * c.loads[i].Size())
		for k, env := range probes {
			// Where the bytes exceed int64, simulation fails; 0 only keeps a load from being dropped early.
			c.seen[i][k], _ = c.loads[i].Eval(env)
		}
	}
	return c
}

// champions are the loads that are the worst at one of the probes.
func (c *contest) champions() []int {
	var list []int
	for k := range c.seen[0] {
		best := 0
		for i := range c.seen {
			if c.seen[i][k] > c.seen[best][k] {
				best = i
			}
		}
		if !slices.Contains(list, best) {
			list = append(list, best)
		}
	}
	return list
}

// below reports whether it is proved that load i is at most load k in all of the box.
func (c *contest) below(i, k int) bool {
	for p, n := range c.seen[i] {
		if n > c.seen[k][p] {
			return false
		}
	}
	return c.in.atMost(c.loads[i], c.loads[k])
}

// exceptBelow returns all loads but those that are below one of some champions, and these.
func (c *contest) exceptBelow(champions []int) []int {
	var kept []int
	for i := range c.loads {
		if slices.Contains(champions, i) || !slices.ContainsFunc(champions, func(k int) bool { return c.below(i, k) }) {
			kept = append(kept, i)
		}
	}
	return kept
}

// pairwise drops each load that is below another one. Among equal loads one stays.
func (c *contest) pairwise(list []int) []int {
	slices.SortStableFunc(list, func(i, k int) int { return cmp.Compare(c.seen[k][0], c.seen[i][0]) })
	var out []int
	for at, i := range list {
		if c.in.work.done() {
			return append(out, list[at:]...)
		}
		if slices.ContainsFunc(out, func(k int) bool { return c.below(i, k) }) {
			continue
		}
		out = slices.DeleteFunc(out, func(k int) bool { return c.below(k, i) })
		out = append(out, i)
	}
	return out
}
