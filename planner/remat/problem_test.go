package remat

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomProblem makes a small problem with nodes of all kinds. Costs are whole, so that they are
// exact; views have no cost.
func randomProblem(rng *rand.Rand, nodes int) *Problem {
	p := &Problem{Resident: rng.Int64N(3), InOrder: rng.IntN(2) == 0}
	values := int32(0)
	for range nodes {
		c := Computation{Cost: float64(rng.IntN(10)), Once: rng.IntN(8) == 0}
		for u := range values {
			if rng.IntN(int(values)) < 2 {
				c.Inputs = append(c.Inputs, u)
			}
		}
		rng.Shuffle(len(c.Inputs), func(i, j int) { c.Inputs[i], c.Inputs[j] = c.Inputs[j], c.Inputs[i] })
		if rng.IntN(4) == 0 {
			c.Workspace = rng.Int64N(6)
		}
		c.View = len(c.Inputs) > 0 && rng.IntN(4) == 0
		if c.View {
			c.Cost, c.Workspace, c.Once = 0, 0, false
			c.Inputs = c.Inputs[:1+rng.IntN(len(c.Inputs))*rng.IntN(2)]
		}
		for range 1 + rng.IntN(6)/4 {
			c.Outputs = append(c.Outputs, Output{Size: rng.Int64N(8), Keep: rng.IntN(8) == 0})
			values++
		}
		p.Nodes = append(p.Nodes, c)
	}
	return p
}

// folds returns a problem without views: a reader of a view reads its base. Views must have one
// input each.
func folds(p *Problem) *Problem {
	f := *p
	f.Nodes = nil
	root := []int32{} // by value of p: value of f
	count := int32(0)
	kept := map[int32]bool{}
	for _, n := range p.Nodes {
		c := n
		c.Inputs = nil
		for _, u := range n.Inputs {
			if r := root[u]; !slices.Contains(c.Inputs, r) {
				c.Inputs = append(c.Inputs, r)
			}
		}
		for _, o := range n.Outputs {
			if n.View {
				root = append(root, root[n.Inputs[0]])
			} else {
				root = append(root, count)
				count++
			}
			if o.Keep {
				kept[root[len(root)-1]] = true
			}
		}
		if !n.View {
			c.Outputs = slices.Clone(c.Outputs)
			f.Nodes = append(f.Nodes, c)
		}
	}
	u := int32(0)
	for v := range f.Nodes {
		for k := range f.Nodes[v].Outputs {
			f.Nodes[v].Outputs[k].Keep = kept[u]
			u++
		}
	}
	return &f
}

// moment is a state of a schedule as the oracle sees it: sets of live values and of nodes that were
// computed.
type moment struct{ live, done uint32 }

type momentEntry struct {
	moment
	cost float64
}

type momentQueue []momentEntry

func (q momentQueue) Len() int           { return len(q) }
func (q momentQueue) Less(i, j int) bool { return q[i].cost < q[j].cost }
func (q momentQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *momentQueue) Push(x any)        { *q = append(*q, x.(momentEntry)) }
func (q *momentQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// oracle knows a small problem by its rules alone.
type oracle struct {
	p     *Problem
	first []int
	kept  uint32
}

func newOracle(p *Problem) *oracle {
	o := &oracle{p: p}
	count := 0
	for _, n := range p.Nodes {
		o.first = append(o.first, count)
		for k, out := range n.Outputs {
			if out.Keep {
				o.kept |= 1 << (count + k)
			}
		}
		count += len(n.Outputs)
	}
	for v, n := range slices.Backward(p.Nodes) {
		for k := range n.Outputs {
			if n.View && o.kept>>(o.first[v]+k)&1 != 0 {
				o.kept |= 1 << n.Inputs[0]
			}
		}
	}
	return o
}

// next is the state behind a compute of v, with its peak.
func (o *oracle) next(m moment, v int, inOrder bool) (next moment, peak int64, ok bool) {
	n := &o.p.Nodes[v]
	for _, u := range n.Inputs {
		if m.live>>u&1 == 0 {
			return m, 0, false
		}
	}
	if m.done>>v&1 != 0 && n.Once {
		return m, 0, false
	}
	for w := 0; inOrder && !n.View && w < v; w++ {
		if m.done>>w&1 == 0 && !o.p.Nodes[w].View {
			return m, 0, false
		}
	}
	copies := int64(0)
	for k, out := range n.Outputs {
		bit := uint32(1) << (o.first[v] + k)
		if m.live&bit != 0 {
			if o.kept&bit == 0 {
				return m, 0, false
			}
			if !n.View {
				copies += out.Size
			}
		}
		m.live |= bit
	}
	m.done |= 1 << v
	return m, o.bytes(m.live) + copies + n.Workspace, true
}

func (o *oracle) bytes(live uint32) int64 {
	sum := o.p.Resident
	for v, n := range o.p.Nodes {
		for k, out := range n.Outputs {
			if !n.View && live>>(o.first[v]+k)&1 != 0 {
				sum += out.Size
			}
		}
	}
	return sum
}

// shared tells whether a live value shares the memory of value u.
func (o *oracle) shared(live uint32, u int) bool {
	for v, n := range o.p.Nodes {
		if !n.View || int(n.Inputs[0]) != u {
			continue
		}
		for k := range n.Outputs {
			if live>>(o.first[v]+k)&1 != 0 {
				return true
			}
		}
	}
	return false
}

// cheapest is the least cost within a budget, by Dijkstra over all states, or -1.
func (o *oracle) cheapest(budget int64, inOrder bool) float64 {
	q := momentQueue{{}}
	seen := map[moment]bool{}
	for len(q) > 0 {
		e := heap.Pop(&q).(momentEntry)
		if e.done == 1<<len(o.p.Nodes)-1 {
			return e.cost
		}
		if seen[e.moment] {
			continue
		}
		seen[e.moment] = true
		for v := range o.p.Nodes {
			m, peak, ok := o.next(e.moment, v, inOrder)
			if ok && peak <= budget && !seen[m] {
				heap.Push(&q, momentEntry{m, e.cost + o.p.Nodes[v].Cost})
			}
		}
		for u := range 32 {
			bit := uint32(1) << u
			if e.live&bit != 0 && o.kept&bit == 0 && !o.shared(e.live, u) {
				if m := (moment{e.live &^ bit, e.done}); !seen[m] {
					heap.Push(&q, momentEntry{m, e.cost})
				}
			}
		}
	}
	return -1
}

// lowest is the least peak of any schedule.
func (o *oracle) lowest(inOrder bool) int64 {
	low, high := int64(0), o.bytes(1<<31-1)
	for _, n := range o.p.Nodes {
		high += n.Workspace
	}
	for low < high {
		if middle := (low + high) / 2; o.cheapest(middle, inOrder) >= 0 {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// replay checks a schedule by the rules of the oracle, and returns its cost and peak.
func (o *oracle) replay(t *testing.T, steps []Step) (cost float64, peak int64) {
	t.Helper()
	m := moment{}
	peak = o.p.Resident
	for i, s := range steps {
		if s.Free {
			bit := uint32(1) << s.Node
			require.True(t, m.live&bit != 0 && o.kept&bit == 0 && !o.shared(m.live, int(s.Node)), "step %d", i)
			m.live &^= bit
			continue
		}
		next, bytes, ok := o.next(m, int(s.Node), false)
		require.True(t, ok, "step %d", i)
		m, peak, cost = next, max(peak, bytes), cost+o.p.Nodes[s.Node].Cost
	}
	require.Equal(t, uint32(1)<<len(o.p.Nodes)-1, m.done)
	return cost, peak
}

// holdsMore tells whether a view has inputs besides its base, which are held as long as the view is
// read.
func holdsMore(p *Problem) bool {
	return slices.ContainsFunc(p.Nodes, func(c Computation) bool { return c.View && len(c.Inputs) > 1 })
}

// TestProblemAgainstOracle: schedules obey the rules, bounds hold, and proofs are right; and in most
// cases the schedule is the cheapest.
func TestProblemAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	solved, best, proved := 0, 0, 0
	for i := range 400 {
		p := randomProblem(rng, 2+rng.IntN(5))
		o := newOracle(p)
		least := o.lowest(p.InOrder)
		p.Budget = max(1, least+rng.Int64N(8)-2)
		want := o.cheapest(p.Budget, p.InOrder)
		name := fmt.Sprintf("case %d: %+v", i, p)
		s, err := p.Solve(context.Background(), Options{Nodes: 40_000})
		if err != nil {
			var no *InfeasibleError
			require.ErrorAs(t, err, &no, name)
			require.LessOrEqual(t, no.PeakLowerBound, least, name)
			require.True(t, want < 0 || !p.InOrder || holdsMore(p), name)
			if want >= 0 {
				solved++
			}
			continue
		}
		solved++
		cost, peak := o.replay(t, s.Steps)
		require.Equal(t, [2]any{cost, peak}, [2]any{s.Cost, s.Peak}, name)
		require.LessOrEqual(t, s.PeakLowerBound, least, name)
		require.GreaterOrEqual(t, s.Cost, want, name)
		if s.AnyOrder || p.InOrder {
			require.LessOrEqual(t, s.CostLowerBound, want, name)
		}
		if s.Cost == want {
			best++
		}
		if s.Optimal && (s.AnyOrder || p.InOrder) {
			proved++
			require.Equal(t, want, s.Cost, name)
		}
	}
	t.Log(solved, best, proved)
}

// TestViewsAreFolded: a problem has the same bounds, cost and peak as the one in which readers of views
// read their bases.
func TestViewsAreFolded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	views := 0
	for i := range 300 {
		p := randomProblem(rng, 3+rng.IntN(12))
		for v := range p.Nodes {
			if n := &p.Nodes[v]; n.View {
				n.Inputs = n.Inputs[:1]
				views++
			}
		}
		f := folds(p)
		p.Budget = int64(20 + rng.IntN(40))
		f.Budget = p.Budget
		a, errA := p.Solve(context.Background(), Options{Nodes: 20_000})
		b, errB := f.Solve(context.Background(), Options{Nodes: 20_000})
		require.Equal(t, errB, errA, "case %d", i)
		if errA != nil {
			continue
		}
		require.Equal(t, [4]any{b.Cost, b.Peak, b.CostLowerBound, b.PeakLowerBound},
			[4]any{a.Cost, a.Peak, a.CostLowerBound, a.PeakLowerBound}, "case %d", i)
		cost, peak, err := p.Simulate(a.Steps)
		require.NoError(t, err)
		require.Equal(t, [2]any{a.Cost, a.Peak}, [2]any{cost, peak})
	}
	require.Greater(t, views, 100)
}
