package remat

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// instances draws small instances with all kinds of nodes.
func instances(t *rapid.T, most int) *Instance {
	n := rapid.IntRange(1, most).Draw(t, "n")
	in := &Instance{Name: "random"}
	for v := range n {
		node := Node{
			Alias: -1, Cost: rapid.Int64Range(1, 9).Draw(t, "cost"), Size: rapid.Int64Range(1, 9).Draw(t, "size"),
		}
		for u := range v {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				node.Inputs = append(node.Inputs, int32(u))
			}
		}
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			node.Keep = true
		case 1:
			node.Workspace = rapid.Int64Range(1, 9).Draw(t, "workspace")
		case 2:
			if len(node.Inputs) > 0 {
				node.Alias = rapid.SampledFrom(node.Inputs).Draw(t, "alias")
			}
		}
		in.Nodes = append(in.Nodes, node)
	}
	in.Budget = rapid.Int64Range(5, 45).Draw(t, "budget")
	return in
}

// state is a moment of a schedule: the live nodes and the number of first computes so far.
type state struct{ live, done int }

type entry struct {
	state
	cost int64
}

type queue []entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].cost < q[j].cost }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(entry)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// cheapest is the least cost in the given order by Dijkstra over all states, or -1.
func cheapest(in *Instance) int64 {
	n := len(in.Nodes)
	q := queue{{}}
	seen := map[state]bool{}
	for len(q) > 0 {
		e := heap.Pop(&q).(entry)
		if e.done == n {
			return e.cost
		}
		if seen[e.state] {
			continue
		}
		seen[e.state] = true
		for v := range n {
			if next, ok := step(in, e, v); ok && !seen[next.state] {
				heap.Push(&q, next)
			}
		}
	}
	return -1
}

// step frees v if it is live and else computes it.
func step(in *Instance, e entry, v int) (entry, bool) {
	if e.live>>v&1 != 0 {
		for w, node := range in.Nodes {
			if node.Alias == int32(v) && e.live>>w&1 != 0 {
				return e, false
			}
		}
		e.live &^= 1 << v
		return e, !in.Nodes[v].Keep
	}
	for _, u := range in.Nodes[v].Inputs {
		if e.live>>u&1 == 0 {
			return e, false
		}
	}
	if v > e.done {
		return e, false
	}
	e.live |= 1 << v
	bytes := in.Nodes[v].Workspace
	for w, node := range in.Nodes {
		if e.live>>w&1 != 0 && node.Alias < 0 {
			bytes += node.Size
		}
	}
	e.done = max(e.done, v+1)
	e.cost += in.Nodes[v].Cost
	return e, bytes <= in.Budget
}

// TestSolveAgainstOracle compares answers, bounds and proofs with the least cost.
func TestSolveAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := instances(t, 7)
		want := cheapest(in)
		r, err := Solve(context.Background(), in, Options{Nodes: 60_000})
		if err != nil {
			var no *InfeasibleError
			require.ErrorAs(t, err, &no)
			require.Equal(t, no.Proved(), no.LowestPeak == 0, "what is proved is not searched")
			require.True(t, no.Proved() || no.LowestPeak > in.Budget)
			require.Equal(t, int64(-1), want)
			return
		}
		require.NoError(t, Check(in, &r.Schedule))
		require.True(t, r.InOrder)
		require.LessOrEqual(t, r.PeakLowerBound, r.Peak)
		require.LessOrEqual(t, r.CostLowerBound, want)
		require.Equal(t, want, r.Cost)
		require.True(t, r.Optimal)
	})
}

// TestCheckersAgree runs random steps through both checkers.
func TestCheckersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := instances(t, 6)
		in.Budget = 1 << 20
		var s Schedule
		live := map[int32]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			v := rapid.Int32Range(0, int32(len(in.Nodes))).Draw(t, "node")
			step := Step{Free: live[v] != (rapid.IntRange(0, 19).Draw(t, "odd") == 0), Node: v}
			live[v] = !step.Free
			s.Steps = append(s.Steps, step)
			var err error
			s.Cost, s.Peak, err = Simulate(in, s.Steps)
			require.Equal(t, err == nil, Check(in, &s) == nil, "%v", err)
		}
		for v := range in.Nodes {
			if !live[int32(v)] {
				s.Steps = append(s.Steps, Step{Node: int32(v)})
			}
		}
		var err error
		s.Cost, s.Peak, err = Simulate(in, s.Steps)
		require.Equal(t, err == nil, Check(in, &s) == nil, "%v", err)
		if err == nil {
			s.Peak++
			require.Error(t, Check(in, &s))
		}
	})
}

// TestTape changes a tape at random and compares it with one made anew.
func TestTape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := instances(t, 12)
		p := newSingle(in, in.Budget)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		a := newAnnealer(p, rng, func(seq []int32, cost int64) {
			peak, valid := p.peak(seq)
			require.True(t, valid)
			require.LessOrEqual(t, peak, in.Budget)
		})
		for range 40 {
			a.move(float64(rng.IntN(20)))
			fresh := newTape(p)
			seq := a.sequence()
			fresh.load(seq)
			require.Equal(t, seq, fresh.sequence())
			require.Equal(t, fresh.cost, a.cost)
			require.Equal(t, fresh.excess, a.excess)
			require.Equal(t, fresh.over, a.over)
			require.Zero(t, a.pending)
			peak, valid := p.peak(seq)
			require.True(t, valid)
			require.Equal(t, a.over == 0, peak <= in.Budget)
		}
	})
}

// TestDeterminism: the same seed and work give the same answer.
func TestDeterminism(t *testing.T) {
	in := layered(120, 400, 0.85, 7)
	for _, solver := range []string{"auto", "greedy", "lns"} {
		opts := Options{Solver: solver, Seed: 5, Nodes: 300_000}
		a, errA := Solve(context.Background(), in, opts)
		b, errB := Solve(context.Background(), in, opts)
		require.Equal(t, errA, errB)
		require.Equal(t, a, b)
	}
}

// TestInfeasible: the error carries what is known.
func TestInfeasible(t *testing.T) {
	in := &Instance{
		Budget: 10, Nodes: []Node{{Cost: 1, Size: 6, Alias: -1}, {Cost: 1, Size: 6, Inputs: []int32{0}, Alias: -1}},
	}
	_, err := Solve(context.Background(), in, Options{})
	var no *InfeasibleError
	require.ErrorAs(t, err, &no)
	require.True(t, errors.Is(err, ErrInfeasible) && no.Proved())
	require.Zero(t, no.LowestPeak)
	require.Equal(t, int64(12), no.PeakLowerBound)
	require.NotContains(t, err.Error(), "found")
	r, err := Solve(context.Background(), in, Options{Budget: 12, RequireOptimal: true})
	require.NoError(t, err)
	require.True(t, r.Optimal)
}

// layered is a random layered graph with a budget that is a part of its peak: most inputs
// come from the layer before, some from any earlier one.
func layered(n, edges int, part float64, seed uint64) *Instance {
	rng := rand.New(rand.NewPCG(seed, 2))
	in := &Instance{Name: "layered"}
	width := min(64, int(math.Sqrt(float64(n))))
	for v := range n {
		node := Node{Cost: 1 + rng.Int64N(100), Size: 1000 + rng.Int64N(40000), Alias: -1}
		top := v / width * width
		for k := 0; k < edges/n && top > 0; k++ {
			u := int32(top - width + rng.IntN(width))
			if rng.IntN(6) == 0 {
				u = int32(rng.IntN(top))
			}
			if !slices.Contains(node.Inputs, u) {
				node.Inputs = append(node.Inputs, u)
			}
		}
		in.Nodes = append(in.Nodes, node)
	}
	in.Budget = 1
	plain := make([]int32, n)
	for v := range plain {
		plain[v] = int32(v)
	}
	peak, _ := newSingle(in, 1).peak(plain)
	in.Budget = int64(part * float64(peak))
	return in
}

// TestLayered: graphs like those of the literature have a first schedule after little work.
func TestLayered(t *testing.T) {
	in := layered(1000, 7000, 0.80, 1)
	r, err := Solve(context.Background(), in, Options{First: true, Nodes: 1 << 16})
	require.NoError(t, err)
	require.LessOrEqual(t, r.Peak, in.Budget)
}

// TestEmpty: an instance without nodes has an empty schedule.
func TestEmpty(t *testing.T) {
	for _, solver := range []string{"auto", "greedy", "lns"} {
		r, err := Solve(context.Background(), &Instance{Budget: 1}, Options{Solver: solver})
		require.NoError(t, err)
		require.True(t, r.Optimal && r.InOrder)
	}
}

// TestRuledOut: where the need of one node rules a budget out, the error has that bound, before any
// search: here 26, as the second node and the third take together.
func TestRuledOut(t *testing.T) {
	in := &Instance{Budget: 25, Nodes: []Node{
		{Cost: 1, Size: 20, Alias: -1},
		{Cost: 1, Size: 1, Inputs: []int32{0}, Alias: -1},
		{Cost: 1, Size: 25, Inputs: []int32{1}, Alias: -1},
		{Cost: 1, Size: 1, Inputs: []int32{2}, Alias: -1},
		{Cost: 1, Size: 1, Inputs: []int32{0, 3}, Alias: -1},
	}}
	for _, solver := range []string{"auto", "greedy", "lns", "exact"} {
		_, err := Solve(context.Background(), in, Options{Solver: solver})
		var no *InfeasibleError
		require.ErrorAs(t, err, &no, solver)
		require.Equal(t, InfeasibleError{Budget: 25, PeakLowerBound: 26}, *no, solver)
	}
}

// TestAliasesAreNoObstacle: a training step whose values are read through aliases has schedules as good
// as the one in which they are read directly.
func TestAliasesAreNoObstacle(t *testing.T) {
	for _, layers := range []int{20, 90} {
		direct, through := &Instance{}, &Instance{}
		put := func(in *Instance, cost, size int64, alias int32, inputs ...int32) int32 {
			in.Nodes = append(in.Nodes, Node{Cost: cost, Size: size, Alias: alias, Inputs: inputs})
			return int32(len(in.Nodes) - 1)
		}
		var a, b []int32 // the values of the forward half, and aliases of them
		for i := range layers {
			if i == 0 {
				a, b = append(a, put(direct, 1000, 10, -1)), append(b, put(through, 1000, 10, -1))
			} else {
				a = append(a, put(direct, 1000, 10, -1, a[i-1]))
				b = append(b, put(through, 1000, 10, -1, b[i-1]))
			}
			b[i] = put(through, 1, 0, b[i], b[i])
		}
		x, y := a[layers-1], b[layers-1]
		for i := layers - 1; i >= 0; i-- {
			x, y = put(direct, 1000, 10, -1, a[i], x), put(through, 1000, 10, -1, b[i], y)
			if i == layers-1 {
				direct.Nodes[x].Inputs, through.Nodes[y].Inputs = a[i:], b[i:]
			}
		}
		direct.Budget = int64(5 * layers)
		through.Budget = direct.Budget
		want, err := Solve(context.Background(), direct, Options{Nodes: 2_000_000})
		require.NoError(t, err)
		got, err := Solve(context.Background(), through, Options{Nodes: 2_000_000})
		require.NoError(t, err, "%d layers", layers)
		require.LessOrEqual(t, got.Peak, through.Budget)
		require.InDelta(t, 1, float64(got.Cost)/float64(want.Cost), 0.01)
		require.True(t, got.InOrder)
	}
}

// TestKeptOutputsCount: the bound on the peak of a step counts gradients that are kept, and a budget below
// it ends the search at once.
func TestKeptOutputsCount(t *testing.T) {
	in := &Instance{Budget: 41}
	for i := range int32(12) {
		n := Node{Cost: 1, Size: 5, Alias: -1, Keep: i >= 6}
		if i > 0 {
			n.Inputs = append(n.Inputs, i-1)
		}
		if i == 11 {
			n.Inputs, n.Workspace = []int32{4, 10}, 7
		}
		in.Nodes = append(in.Nodes, n)
	}
	_, err := Solve(context.Background(), in, Options{})
	var no *InfeasibleError
	require.ErrorAs(t, err, &no)
	require.Equal(t, InfeasibleError{Budget: 41, PeakLowerBound: 6*5 + 5 + 7}, *no)
}
