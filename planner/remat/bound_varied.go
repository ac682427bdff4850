package remat

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// Many choices of a moment are nearly as cheap as the best, and cuts find few of them: those at the
// corners of their convex hull. With costs that are off by a little, at random, other choices become
// corners, and some of these use up the free bytes. Every other time tasks of the same cost are off by
// the same: they are one layer's and the next one's.

const (
	varieties   = 64   // random costs that are tried
	priceSteps  = 7    // cuts by random costs
	priceSpread = 0.25 // the price lies within this power of 2 around the best one
)

// variations are by how much costs are off, as shares of them.
var variations = []float64{0.002, 0.01, 0.04, 0.15}

// variedCuts visits cuts that fit of the moment that proves most, as CutExtras returns them, for about
// so much counted work.
func (g *Graph) variedCuts(
	ctx context.Context, budget, work int64, rng *rand.Rand, visit func(tasks []int32, t int32),
) {
	b := newBounder(ctx, newMoments(g), budget, work)
	if b.run(); b.best == 0 || b.best == math.MaxInt64 {
		return
	}
	price := b.views[b.at].price()
	varied := *g
	varied.Tasks = slices.Clone(g.Tasks)
	m := newMoments(&varied)
	m.cost *= 2 // at least the sum of the costs below
	c := newMomentCut(m)
	kinds, off := g.kinds(), make([]float64, len(g.Tasks))
	for k := 0; k < varieties && ctx.Err() == nil && b.spent()+c.work() < work; k++ {
		for i := range off {
			off[i] = 1 + variations[k%len(variations)]*(2*rng.Float64()-1)
		}
		for t, kind := range kinds {
			if k%2 == 0 {
				kind = t
			}
			varied.Tasks[t].Cost = int64(math.Ceil(off[kind] * float64(g.Tasks[t].Cost)))
		}
		low, high := -priceSpread, priceSpread
		var fits []int32
		for range priceSteps {
			middle := (low + high) / 2
			_, got, full := c.price(b.at, price*math.Exp2(middle), budget, work)
			if !full || got.bytes > budget {
				low = middle
				continue
			}
			high, fits = middle, c.tasks()
		}
		if fits != nil {
			visit(fits, b.at)
		}
	}
}

// kinds numbers by task the costs that there are.
func (g *Graph) kinds() []int {
	costs := make([]int64, 0, len(g.Tasks))
	for t := range g.Tasks {
		costs = append(costs, g.Tasks[t].Cost)
	}
	slices.Sort(costs)
	costs = slices.Compact(costs)
	kinds := make([]int, len(g.Tasks))
	for t := range kinds {
		kinds[t], _ = slices.BinarySearch(costs, g.Tasks[t].Cost)
	}
	return kinds
}
