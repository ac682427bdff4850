package remat

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// eachExtras tries all lists of extra runs.
func eachExtras(g *Graph, try func(extras []Extra)) {
	var all []Extra
	for before := max(1, g.From); int(before) < len(g.Tasks); before++ {
		for x := range before {
			if !g.Tasks[x].Once && g.intime(x, before) {
				all = append(all, Extra{x, before})
			}
		}
	}
	for set := range 1 << len(all) {
		var extras []Extra
		for i, x := range all {
			if set>>i&1 != 0 {
				extras = append(extras, x)
			}
		}
		if !slices.ContainsFunc(g.Fixed, func(x Extra) bool { return !slices.Contains(extras, x) }) {
			try(extras)
		}
	}
}

// cheapestExtras tries all lists of extra runs: the least cost within the budget, or math.MaxInt64,
// and the lowest peak.
func cheapestExtras(t require.TestingT, g *Graph, budget int64) (cost, peak int64) {
	cost, peak = math.MaxInt64, math.MaxInt64
	eachExtras(g, func(extras []Extra) {
		out, err := g.Simulate(extras)
		require.NoError(t, err)
		if peak = min(peak, out.Peak); out.Peak <= budget {
			cost = min(cost, out.Cost)
		}
	})
	return cost, peak
}

// graphs draws a small graph and a budget below its plain peak.
func graphs(t *rapid.T, most int) (*Graph, int64) {
	g := randomGraph(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4)), rapid.IntRange(2, most).Draw(t, "n"))
	if rapid.Bool().Draw(t, "free") {
		g.From = 0
	}
	out, err := g.Simulate(nil)
	require.NoError(t, err)
	return g, rapid.Int64Range(out.Peak/2, out.Peak).Draw(t, "budget")
}

// TestCostBoundIsBelow compares the bound with the least cost of all lists of extra runs.
func TestCostBoundIsBelow(t *testing.T) {
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		g, budget := graphs(t, 5)
		cost, _ := cheapestExtras(t, g, budget)
		low := g.CostBound(context.Background(), budget, 0)
		require.LessOrEqual(t, low, cost)
		require.LessOrEqual(t, g.CostBound(context.Background(), budget, 40), low)
		if low == cost {
			met++
		}
	})
	require.Positive(t, met)
}

// TestPeakBoundIsBelow compares the bound with the lowest peak of all lists of extra runs.
func TestPeakBoundIsBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, _ := graphs(t, 5)
		_, peak := cheapestExtras(t, g, 0)
		low := g.PeakBound(context.Background(), 0)
		require.LessOrEqual(t, low, peak)
		require.Equal(t, int64(math.MaxInt64), g.CostBound(context.Background(), low-1, 0))
		require.NotEqual(t, int64(math.MaxInt64), g.CostBound(context.Background(), low, 0))
	})
}

// tightInstances draws instances with a budget between what the largest step needs and the plain
// peak.
func tightInstances(t *rapid.T, most int) *Instance {
	in := instances(t, most)
	p := newSingle(in, in.Budget)
	plain := make([]int32, p.n)
	for v := range plain {
		plain[v] = int32(v)
	}
	peak, _ := p.peak(plain)
	in.Budget = rapid.Int64Range(p.need, max(p.need, peak-1)).Draw(t, "tight")
	return in
}

// TestCostBoundOfInstances compares the bound with the oracle of public instances, which orders
// extra runs freely.
func TestCostBoundOfInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := tightInstances(t, 8)
		if want := cheapest(in); want >= 0 {
			bound, alone := newSingle(in, in.Budget).costBound(context.Background(), 0)
			require.LessOrEqual(t, bound, want)
			require.LessOrEqual(t, newSingle(in, in.Budget).base+alone.extra, want)
		}
	})
}

// TestMomentBound: for one moment, the bound is no less than the knapsack it contains and no more
// than the cheapest choice, found by trying all.
func TestMomentBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, budget := graphs(t, 10)
		m := newMoments(g)
		b := newBounder(context.Background(), m, budget, 0)
		b.run()
		want := int64(0)
		for at := range int32(m.n) {
			want = max(want, cheapestChoice(m, at, budget))
		}
		require.LessOrEqual(t, b.best, want)
		if tasks := b.suggestion(); tasks != nil {
			again := make([]bool, m.n)
			cost := int64(0)
			for _, x := range tasks {
				again[x] = true
				cost += g.Tasks[x].Cost
			}
			require.GreaterOrEqual(t, cost, b.best)
			bytes, costs := make([]int64, m.n), make([]int64, m.n)
			m.profile(again, bytes, costs)
			require.LessOrEqual(t, bytes[b.at], budget)
			require.LessOrEqual(t, costs[b.at], cost)
		}
	})
}

// cheapestChoice tries all sets of tasks that run again behind the first run of task at.
func cheapestChoice(m *moments, at int32, budget int64) int64 {
	best := int64(math.MaxInt64)
	again, bytes, costs := make([]bool, m.n), make([]int64, m.n), make([]int64, m.n)
	for set := range 1 << at {
		once := false
		for x := range int(at) {
			again[x] = set>>x&1 != 0
			once = once || again[x] && m.g.Tasks[x].Once
		}
		if once {
			continue
		}
		if m.profile(again, bytes, costs); bytes[at] <= budget {
			best = min(best, costs[at])
		}
	}
	return best
}

// TestFromCut: the extra runs of a cut are valid, cost what they should, and relieve the moment
// they come from.
func TestFromCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, budget := graphs(t, 12)
		for x := range g.Tasks {
			g.Tasks[x].InPlace = nil // where there are several, the bound does not know which is written over
			g.Tasks[x].Until = 0     // what cannot run again as late as it is needed is held
		}
		tasks, at := g.CutExtras(context.Background(), budget, 0)
		extras := g.FromCut(tasks, at)
		out, err := g.Simulate(extras)
		require.NoError(t, err)
		sum := int64(0)
		for _, x := range tasks {
			sum += g.Tasks[x].Cost
		}
		require.LessOrEqual(t, out.Cost, sum)
		if len(tasks) == 0 {
			return
		}
		run := 0
		for run < len(out.Live) && g.Runs(extras)[run] != (Run{Task: at}) {
			run++
		}
		require.LessOrEqual(t, out.Live[run], budget)
	})
}

// transformer is the training graph of so many equal blocks: forward tasks, a loss, and backward
// tasks that read the forward values of their block.
func transformer(blocks int) *Graph {
	g := &Graph{}
	add := func(cost, size int64, uses ...int32) int32 {
		v := int32(len(g.Values))
		g.Values = append(g.Values, Value{Size: size})
		g.Tasks = append(g.Tasks, Task{Cost: cost, Uses: uses, Makes: []int32{v}})
		return v
	}
	const (
		row  = 1 << 20
		wide = 4 * row
	)
	type block struct{ in, norm, q, k, v, score, soft, mix, sum, norm2, up, act int32 }
	var all []block
	x := add(1, row)
	for range blocks {
		b := block{in: x}
		b.norm = add(3, row, b.in)
		b.q, b.k, b.v = add(40, row, b.norm), add(40, row, b.norm), add(40, row, b.norm)
		b.score = add(20, 2*row, b.q, b.k)
		b.soft = add(5, 2*row, b.score)
		b.mix = add(20, row, b.soft, b.v)
		out := add(40, row, b.mix)
		b.sum = add(2, row, out, b.in)
		b.norm2 = add(3, row, b.sum)
		b.up = add(160, wide, b.norm2)
		b.act = add(6, wide, b.up)
		x = add(2, row, add(160, row, b.act), b.sum)
		all = append(all, b)
	}
	d := add(1, row, add(1, 4, x))
	for i := len(all) - 1; i >= 0; i-- {
		b := all[i]
		dAct := add(160, wide, d)
		add(160, wide, d, b.act)
		dUp := add(8, wide, dAct, b.up)
		dNorm2 := add(160, row, dUp)
		add(160, wide, dUp, b.norm2)
		dSum := add(2, row, add(5, row, dNorm2, b.sum), d)
		dMix := add(40, row, dSum)
		add(40, row, dSum, b.mix)
		dSoft, dV := add(20, 2*row, dMix, b.v), add(20, row, dMix, b.soft)
		dScore := add(6, 2*row, dSoft, b.soft)
		dQ, dK := add(20, row, dScore, b.k), add(20, row, dScore, b.q)
		for _, dx := range []int32{dQ, dK, dV} {
			add(40, row, dx, b.norm)
		}
		dNorm := add(120, row, dQ, dK, dV)
		d = add(2, row, add(5, row, dNorm, b.in), dSum)
	}
	return g
}

// BenchmarkCostBound tells besides the time how far the plain order and the bound lie apart.
func BenchmarkCostBound(b *testing.B) {
	for _, blocks := range []int{5, 45, 290} {
		g := transformer(blocks)
		plain, err := g.Simulate(nil)
		require.NoError(b, err)
		base := int64(0)
		for _, t := range g.Tasks {
			base += t.Cost
		}
		for _, part := range []int64{80, 50, 20} {
			b.Run(fmt.Sprintf("tasks=%d/budget=%d%%", len(g.Tasks), part), func(b *testing.B) {
				low := int64(0)
				for b.Loop() {
					low = g.CostBound(context.Background(), plain.Peak*part/100, 0)
				}
				b.ReportMetric(100*float64(low)/float64(base), "bound%")
			})
		}
	}
}

// TestRankedBytes: tasks are ranked by the bytes of their moments in which no task runs again.
func TestRankedBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := randomProblem(rng, 2+rng.IntN(12))
		p.InOrder = false
		k := newProblemSolver(context.Background(), p, Options{}).kin
		tasks, ranked := k.ranked(context.Background(), math.MaxInt)
		require.Len(t, tasks, len(k.g.Tasks))
		for _, x := range tasks {
			g, at := k.moment(x)
			m := newMoments(g)
			bytes, costs := make([]int64, m.n), make([]int64, m.n)
			m.profile(make([]bool, m.n), bytes, costs)
			require.Equal(t, bytes[at], ranked[x], "task %d", x)
		}
	}
}
