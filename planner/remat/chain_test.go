package remat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// plainChain is the training graph of so many equal layers, with the figures of the textbook: each
// forward value has one unit, the backward task of a layer reads the value before the layer and the
// gradient behind it.
func plainChain(layers int) *Instance {
	in := &Instance{Name: "chain"}
	for i := range layers {
		n := Node{Cost: 1, Size: 1, Alias: -1}
		if i > 0 {
			n.Inputs = []int32{int32(i - 1)}
		}
		in.Nodes = append(in.Nodes, n)
	}
	for i := layers - 1; i >= 0; i-- {
		n := Node{Cost: 1, Size: 1, Alias: -1, Inputs: []int32{int32(i), int32(len(in.Nodes) - 1)}}
		if i == layers-1 {
			n.Inputs = n.Inputs[:1]
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// TestChainOfEqualLayers compares the dynamic program with the exact search at all budgets.
func TestChainOfEqualLayers(t *testing.T) {
	for layers := 3; layers <= 9; layers++ {
		in := plainChain(layers)
		for budget := int64(3); budget <= int64(layers)+1; budget++ {
			best, err := Solve(context.Background(), in, Options{Solver: "exact", Budget: budget})
			if err != nil {
				require.ErrorIs(t, err, ErrInfeasible)
				continue
			}
			got, err := Solve(context.Background(), in, Options{Solver: "chain", Budget: budget})
			require.NoError(t, err)
			require.Equal(t, best.Cost, got.Cost, "%d layers, budget %d", layers, budget)
		}
	}
}

// TestChainOfBlocks: for a training graph of many blocks the answers are close to the bound.
func TestChainOfBlocks(t *testing.T) {
	g := transformer(20)
	plain, err := g.Simulate(nil)
	require.NoError(t, err)
	for _, c := range []struct {
		part int64
		over float64 // the bound by so much at most
	}{{80, 1.05}, {50, 1.1}, {30, 1.05}, {20, 1.05}, {12, 1.3}} {
		budget := plain.Peak * c.part / 100
		out, err := g.Simulate(g.ChainExtras(context.Background(), budget))
		require.NoError(t, err)
		require.LessOrEqual(t, out.Peak, budget)
		low := g.CostBound(context.Background(), budget, 0)
		require.GreaterOrEqual(t, out.Cost, low)
		t.Logf("at %d%%: cost %d, at least %d", c.part, out.Cost, low)
		require.LessOrEqual(t, float64(out.Cost), c.over*float64(low), "at %d%%", c.part)
	}
}

// randomTraining is a training graph of so many layers of one to three tasks each.
func randomTraining(rng *rand.Rand, layers int) *Graph {
	g := &Graph{}
	add := func(uses ...int32) int32 {
		v := int32(len(g.Values))
		g.Values = append(g.Values, Value{Size: 1 + rng.Int64N(20)})
		g.Tasks = append(g.Tasks, Task{Cost: 1 + rng.Int64N(20), Uses: uses, Makes: []int32{v}, Once: rng.IntN(9) == 0})
		return v
	}
	x := add()
	made := make([][]int32, layers)
	for l := range made {
		made[l] = []int32{x}
		for range 1 + rng.IntN(3) {
			uses := []int32{x}
			if rng.IntN(3) == 0 && x != made[l][0] {
				uses = append(uses, made[l][0])
			}
			x = add(uses...)
			made[l] = append(made[l], x)
		}
	}
	g.From = int32(len(g.Tasks)) * rng.Int32N(2)
	for t := range g.Tasks {
		if rng.IntN(9) == 0 {
			g.Tasks[t].Until = int32(len(g.Tasks)) + rng.Int32N(int32(len(g.Tasks)))
		}
	}
	for l := range made {
		for _, v := range made[layers-1-l] {
			if uses := []int32{x}; rng.IntN(3) > 0 && v != x {
				x = add(append(uses, v)...)
			} else {
				x = add(uses...)
			}
		}
	}
	return g
}

// TestChainOfAnything: whatever the graph, the extra runs are valid and within the budget, or there
// are none. For training graphs there mostly are some.
func TestChainOfAnything(t *testing.T) {
	tried, some := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g, budget := graphs(t, 14)
		if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
			g = randomTraining(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5)),
				rapid.IntRange(3, 12).Draw(t, "layers"))
			plain, err := g.Simulate(nil)
			require.NoError(t, err)
			budget = plain.Peak * rapid.Int64Range(70, 95).Draw(t, "percent") / 100
			tried++
		}
		extras := g.ChainExtras(context.Background(), budget)
		if extras == nil {
			return
		}
		some++
		out, err := g.Simulate(extras)
		require.NoError(t, err)
		require.LessOrEqual(t, out.Peak, budget)
		require.GreaterOrEqual(t, out.Cost, g.CostBound(context.Background(), budget, 0))
		require.Equal(t, extras, g.neededExtras(slices.Clone(extras)))
	})
	t.Logf("extra runs for %d of %d", some, tried)
	require.Greater(t, some, tried/3)
}

// BenchmarkChain tells how far the answers are above the bound.
func BenchmarkChain(b *testing.B) {
	for _, blocks := range []int{45, 290} {
		g := transformer(blocks)
		plain, err := g.Simulate(nil)
		require.NoError(b, err)
		for _, part := range []int64{50, 20, 10} {
			b.Run(fmt.Sprintf("tasks=%d/budget=%d%%", len(g.Tasks), part), func(b *testing.B) {
				budget, cost := plain.Peak*part/100, int64(0)
				for b.Loop() {
					out, err := g.Simulate(g.ChainExtras(context.Background(), budget))
					require.NoError(b, err)
					cost = out.Cost
				}
				b.ReportMetric(float64(cost)/float64(g.CostBound(context.Background(), budget, 0)), "cost/bound")
			})
		}
	}
}

// TestChainMeetsProvenOptimum: a multilayer perceptron is a chain, and the dynamic program finds
// its cheapest schedules.
func TestChainMeetsProvenOptimum(t *testing.T) {
	for _, ref := range references(t) {
		if !strings.HasPrefix(ref.Name, "dev_mlp") {
			continue
		}
		f, err := os.Open(filepath.Join(shared, ref.Name+".json"))
		require.NoError(t, err)
		in, err := Read(f)
		f.Close()
		require.NoError(t, err)
		best, err := Solve(context.Background(), in, Options{Solver: "exact", RequireOptimal: true})
		require.NoError(t, err)
		got, err := Solve(context.Background(), in, Options{Solver: "chain"})
		require.NoError(t, err)
		require.Equal(t, best.Cost, got.Cost, ref.Name)
	}
}
