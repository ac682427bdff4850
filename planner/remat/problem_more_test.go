package remat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// node is a computation of cost 1 with one output.
func node(size int64, inputs ...int32) Computation {
	return Computation{Cost: 1, Inputs: inputs, Outputs: []Output{{Size: size}}}
}

// TestProblemPeakBound: the bound on the peak is met where kept outputs make the peak.
func TestProblemPeakBound(t *testing.T) {
	kept := func(c Computation) Computation {
		c.Outputs[0].Keep = true
		return c
	}
	working := func(c Computation, bytes int64) Computation {
		c.Workspace = bytes
		return c
	}
	once := func(c Computation) Computation {
		c.Once = true
		return c
	}
	for _, c := range []struct {
		what  string
		nodes []Computation
		any   int64 // in any order
		given int64
	}{
		{"nothing", nil, 0, 0},
		{"all gradients are live at the end",
			[]Computation{node(1), kept(node(8, 0)), kept(node(8, 0)), kept(node(8, 0))}, 25, 25},
		{"the last one needs workspace", []Computation{kept(node(8)), kept(node(8)), working(node(1), 4)}, 16, 21},
		{"what it depends on is kept", []Computation{kept(node(8)), node(3, 0), working(node(2, 1), 4)}, 17, 17},
		{"what must not be made again is held",
			[]Computation{once(node(9)), node(1, 0), working(node(1, 1), 6), node(1, 0, 2)}, 17, 17},
	} {
		for _, inOrder := range []bool{false, true} {
			p := &Problem{Resident: 5, Budget: 1000, InOrder: inOrder, Nodes: c.nodes}
			want := c.any
			if inOrder {
				want = c.given
			}
			s, err := p.Solve(context.Background(), Options{})
			require.NoError(t, err)
			require.Equal(t, want+5, s.PeakLowerBound, c.what)
			if len(c.nodes) > 0 {
				require.Equal(t, want+5, newOracle(p).lowest(inOrder), c.what)
			}
			p.Budget = want + 4
			_, err = p.Solve(context.Background(), Options{})
			require.Equal(t, &InfeasibleError{Budget: want + 4, PeakLowerBound: want + 5}, err, c.what)
		}
	}
}

// TestProblemOrders: a computation that only the end needs comes late where the order is free, and its
// value takes no memory before.
func TestProblemOrders(t *testing.T) {
	p := &Problem{Budget: 14, Nodes: []Computation{node(0), node(8, 0), node(8, 0), node(1, 2), node(1, 1, 3)}}
	s, err := p.Solve(context.Background(), Options{})
	require.NoError(t, err)
	require.True(t, s.Optimal && s.AnyOrder && !s.InOrder)
	require.Equal(t, s.Base, s.Cost)
	p.InOrder = true
	s, err = p.Solve(context.Background(), Options{Nodes: 10_000})
	require.NoError(t, err)
	require.True(t, s.Optimal && s.InOrder && !s.AnyOrder)
	require.Equal(t, s.Base+1, s.Cost)
}

// TestKeptOutputsComeLast: gradients of weights wait for a workspace that comes last in the given order, also where it
// is recomputation that makes room for the rest of the step.
func TestKeptOutputsComeLast(t *testing.T) {
	kept := func(size, workspace int64, inputs ...int32) Computation {
		return Computation{Cost: 1, Inputs: inputs, Workspace: workspace, Outputs: []Output{{Size: size, Keep: true}}}
	}
	for _, stash := range []int64{2, 8, 12} { // of nodes 1 and 3
		p := &Problem{Nodes: []Computation{node(1), node(stash, 0), node(1, 1), node(stash, 2), node(1, 3),
			node(1, 3, 4), kept(6, 0, 5, 0), node(1, 1, 5), kept(6, 0, 7, 0), kept(1, 10, 7)}}
		lowest := newOracle(p).lowest(false)
		require.Negative(t, newOracle(p).cheapest(lowest, true))
		for p.Budget = lowest; p.Budget < lowest+4; p.Budget++ {
			s, err := p.Solve(context.Background(), Options{Nodes: 1_000_000})
			require.NoError(t, err)
			require.Equal(t, newOracle(p).cheapest(p.Budget, false), s.Cost)
		}
	}
}

// TestProblemCosts: costs of any size are counted to a share of 10^-12.
func TestProblemCosts(t *testing.T) {
	for _, unit := range []float64{1e-300, 1e-9, 0.1, 1, 1e9, 1e300} {
		p := &Problem{Budget: 14, InOrder: true,
			Nodes: []Computation{node(0), node(8, 0), node(8, 0), node(1, 2), node(1, 1, 3)}}
		for v := range p.Nodes {
			p.Nodes[v].Cost = unit * (1 + float64(v)/3)
		}
		s, err := p.Solve(context.Background(), Options{Nodes: 10_000})
		require.NoError(t, err)
		require.InEpsilon(t, 1+4./3/(5+10./3), s.Cost/s.Base, 1e-12)
		require.True(t, s.Optimal)
	}
	p := &Problem{Budget: 14, InOrder: true,
		Nodes: []Computation{node(0), node(8, 0), node(8, 0), node(1, 2), node(1, 1, 3)}}
	for v := range p.Nodes {
		p.Nodes[v].Cost = 0
	}
	s, err := p.Solve(context.Background(), Options{Nodes: 10_000})
	require.NoError(t, err)
	require.Zero(t, s.Cost)
}

// TestProblemSolvers: solvers that are not for problems are refused, and the others answer.
func TestProblemSolvers(t *testing.T) {
	p := randomProblem(rand.New(rand.NewPCG(1, 1)), 8)
	p.Budget = 1000
	for solver, want := range map[string]string{
		"exact": "is not for", "chain": "is not for", "magic": "there is no solver",
	} {
		_, err := p.Solve(context.Background(), Options{Solver: solver})
		require.ErrorContains(t, err, want)
	}
	for _, solver := range []string{"", "auto", "greedy", "lns"} {
		_, err := p.Solve(context.Background(), Options{Solver: solver})
		require.NoError(t, err)
	}
	p.Budget = 0
	_, err := p.Solve(context.Background(), Options{})
	require.ErrorContains(t, err, "the budget is 0")
	p.Nodes[0].Cost = -1
	_, err = p.Solve(context.Background(), Options{Budget: 5})
	require.ErrorContains(t, err, "node 0: the cost is -1")
}

// TestProblemTape changes a tape of a problem at random: its figures are those of the steps it stands
// for.
func TestProblemTape(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	checked := 0
	for range 150 {
		p := randomProblem(rng, 3+rng.IntN(9))
		p.Resident = 0
		for v := range p.Nodes {
			if n := &p.Nodes[v]; n.View {
				n.Inputs = n.Inputs[:1]
			}
		}
		f := fold(p)
		a := newAnnealer(f.tapeOf(f.real, 12+rng.Int64N(20)), rng, func([]int32, int64) {})
		for range 30 {
			a.move(float64(rng.IntN(20)))
			seq := a.sequence()
			cost, highest := int64(0), int64(0)
			for e := int32(0); int(e) != a.n; e = a.next[e] {
				cost += a.single.cost[a.node[e]]
				highest = max(highest, a.mem[e])
			}
			require.Equal(t, cost, a.cost)
			for i, v := range seq {
				seq[i] = f.real[v]
			}
			_, peak, err := p.Simulate(f.steps(seq))
			require.NoError(t, err)
			require.Equal(t, highest, peak)
			checked++
		}
	}
	require.Positive(t, checked)
}

// TestReorder: moved runs stay behind the makers of their inputs, and the same ones are there.
func TestReorder(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	moved := 0
	for range 200 {
		p := randomProblem(rng, 3+rng.IntN(12))
		f := fold(p)
		for _, seq := range [][]int32{f.linked(f.real).sink(), f.linked(f.real).hoist()} {
			_, _, err := p.Simulate(f.steps(seq))
			require.NoError(t, err)
			if !slices.Equal(seq, f.real) {
				moved++
			}
			slices.Sort(seq)
			require.Equal(t, f.real, seq)
		}
	}
	require.Greater(t, moved, 50)
}

// TestProblemReplays: another simulator agrees with the answers of problems with nodes of all kinds.
func TestProblemReplays(t *testing.T) {
	rng := rand.New(rand.NewPCG(99, 1))
	solved := 0
	for i := range 250 {
		p := randomProblem(rng, 2+rng.IntN(28))
		values := 0
		for v := range p.Nodes {
			n := &p.Nodes[v]
			if n.ID, n.Cost = fmt.Sprint("node ", v), 0.37*n.Cost; n.View {
				n.Cost = float64(rng.IntN(2)) / 3
			}
			for k := range n.Outputs {
				n.Outputs[k].ID = fmt.Sprint("value ", values)
				values++
			}
		}
		whole, err := p.Solve(context.Background(), Options{Budget: 1 << 30})
		require.NoError(t, err)
		p.Budget = max(1, whole.Peak*(60+rng.Int64N(45))/100)
		s, err := p.Solve(context.Background(), Options{Nodes: 10_000, Seed: int64(i)})
		if err != nil {
			require.ErrorIs(t, err, ErrInfeasible)
			continue
		}
		solved++
		r := replay(t, p, s.Steps)
		require.Equal(t, s.Peak, r.peak)
		require.InDelta(t, s.Cost, r.cost, 1e-9)
		require.LessOrEqual(t, s.Peak, p.Budget)
		require.LessOrEqual(t, s.CostLowerBound, s.Cost)
		require.LessOrEqual(t, s.PeakLowerBound, s.Peak)
	}
	require.Greater(t, solved, 60)
}
