package remat

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireAnswer checks an answer against the definition.
func requireAnswer(t require.TestingT, g *Graph, a *Answer, budget int64) {
	out, err := g.Simulate(a.Extras)
	require.NoError(t, err)
	require.Equal(t, out.Cost, a.Cost)
	require.Equal(t, out.Peak, a.Peak)
	require.LessOrEqual(t, a.Peak, budget)
	require.LessOrEqual(t, g.Need(), a.Peak)
}

// TestSearchAgainstOracle compares answers with those of all lists of extra runs.
func TestSearchAgainstOracle(t *testing.T) {
	found, missed, dear := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g := randomGraph(rng, rapid.IntRange(1, 5).Draw(t, "n"))
		s := NewSearch(g, 1)
		plain := s.d.peak()
		require.LessOrEqual(t, s.need, plain)
		budget := g.Need() + rng.Int64N(plain-g.Need()+2)
		cost, peak := cheapestExtras(t, g, budget)
		a, err := s.Fit(context.Background(), budget, 20_000)
		if err != nil {
			var no *InfeasibleError
			require.ErrorAs(t, err, &no)
			require.Equal(t, budget, no.Budget)
			require.GreaterOrEqual(t, no.LowestPeak, peak)
			require.GreaterOrEqual(t, peak, no.PeakLowerBound)
			if cost != math.MaxInt64 {
				missed++
			}
			return
		}
		requireAnswer(t, g, a, budget)
		require.LessOrEqual(t, cost, a.Cost)
		require.NotEqual(t, int64(math.MaxInt64), cost)
		if found++; cost < a.Cost {
			dear++
		}
	})
	t.Logf("%d found, %d missed, %d dearer than needed", found, missed, dear)
	require.Less(t, 20*(missed+dear), found+20)
}

// TestSearchBudgets: one search serves several budgets, the same calls have the same answers, and
// the ledger stays right.
func TestSearchBudgets(t *testing.T) {
	g := layeredGraph(150, 5, 5)
	var answers [2][]*Answer
	for i := range answers {
		s := NewSearch(g, 7)
		plain := s.d.peak()
		a, err := s.Fit(context.Background(), plain, 0)
		require.NoError(t, err)
		require.Equal(t, &Answer{Peak: plain, Method: "order"}, a)
		low, err := s.Lowest(context.Background(), 200_000)
		require.NoError(t, err)
		requireAnswer(t, g, low, plain*9/10)
		for _, part := range []float64{0.9, 0.7, 0.8, 0.95} {
			budget := max(low.Peak, int64(part*float64(plain)))
			first, err := s.Fit(context.Background(), budget, 0)
			require.NoError(t, err)
			a, err := s.Fit(context.Background(), budget, 200_000)
			require.NoError(t, err)
			requireAnswer(t, g, a, budget)
			require.LessOrEqual(t, a.Cost, first.Cost)
			answers[i] = append(answers[i], a)
		}
		requireLedger(t, s.d.ledger)
		for k := range s.known[1:] {
			require.Less(t, s.known[k].Peak, s.known[k+1].Peak)
			require.Greater(t, s.known[k].Cost, s.known[k+1].Cost)
		}
	}
	require.Equal(t, answers[0], answers[1])
}

// TestSearchEnds: a context that has ended and a budget below every run's need are told apart.
func TestSearchEnds(t *testing.T) {
	g := layeredGraph(150, 5, 5)
	s := NewSearch(g, 1)
	plain := s.d.peak()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Fit(ended, plain/2, 1000)
	var no *InfeasibleError
	require.ErrorAs(t, err, &no)
	require.Equal(t, InfeasibleError{Budget: plain / 2, LowestPeak: plain, PeakLowerBound: g.Need()}, *no)
	_, err = s.Fit(context.Background(), g.Need()-1, 0)
	require.ErrorAs(t, err, &no)
	require.True(t, no.Proved())
	_, err = s.Fit(context.Background(), plain*8/10, 0)
	require.NoError(t, err)
	_, err = s.Fit(ended, plain*9/10, 1000) // what is known is returned all the same
	require.NoError(t, err)
}

// TestSearchAdd: lists found elsewhere are kept, and refused where they break a rule.
func TestSearchAdd(t *testing.T) {
	g := forthAndBack(30)
	s := NewSearch(g, 1)
	plain := s.d.peak()
	require.Error(t, s.Add([]Extra{{Task: 3, Before: 5}}, "mine"))
	require.NoError(t, s.Add([]Extra{{Task: 1, Before: 58}}, "mine"))
	a, err := s.Fit(context.Background(), plain-100, 0)
	require.NoError(t, err)
	require.Equal(t, &Answer{Extras: []Extra{{1, 58}}, Cost: 10, Peak: plain - 100, Method: "mine"}, a)
}

// TestSearchWithoutCost: where runs cost nothing, the lowest answer is the only one that is kept.
func TestSearchWithoutCost(t *testing.T) {
	g := forthAndBack(30)
	for i := range g.Tasks {
		g.Tasks[i].Cost = 0
	}
	s := NewSearch(g, 1)
	budget := s.d.peak() / 2
	a, err := s.Fit(t.Context(), budget, 1_000_000)
	require.NoError(t, err)
	requireAnswer(t, g, a, budget)
	require.Zero(t, a.Cost)
}

// TestSearchChain: checkpoints of a long chain cost no more than one further forward pass.
func TestSearchChain(t *testing.T) {
	const n = 2000
	g := forthAndBack(n)
	s := NewSearch(g, 1)
	for _, part := range []int64{2, 10, 20} {
		a, err := s.Fit(context.Background(), s.known[len(s.known)-1].Peak/part, 0)
		require.NoError(t, err)
		requireAnswer(t, g, a, n*100)
		require.LessOrEqual(t, a.Cost, int64(n*10))
	}
}

// forthAndBack is a training graph of n layers: forward tasks, then backward tasks that read what
// the forward task of their layer made and the gradient.
func forthAndBack(n int) *Graph {
	g := &Graph{From: int32(n)}
	for i := range int32(2 * n) {
		task := Task{Cost: 10, Makes: []int32{i}}
		if i > 0 {
			task.Uses = []int32{i - 1}
		}
		if back := int(i) - n; back >= 0 {
			task.Cost = 20
			if task.Uses[0] = int32(n - 1 - back); back > 0 {
				task.Uses = append(task.Uses, i-1)
			}
		}
		g.Tasks = append(g.Tasks, task)
		g.Values = append(g.Values, Value{Size: 100})
	}
	return g
}

// layeredGraph is layered as a graph, with so many edges by node at most.
func layeredGraph(n, degree int, seed uint64) *Graph {
	in := layered(n, n*degree, 1, seed)
	return newSingle(in, in.Budget).graph()
}

// TestSearchTraining: a transformer of 30 layers fits in two fifths of its memory for a tenth of
// its time, and the lowest peak is far below that.
func TestSearchTraining(t *testing.T) {
	g := blockGraph(30)
	s := NewSearch(g, 1)
	plain := s.d.peak()
	a, err := s.Fit(context.Background(), plain*2/5, 200_000)
	require.NoError(t, err)
	requireAnswer(t, g, a, plain*2/5)
	require.Less(t, 10*a.Cost, s.base)
	low, err := s.Lowest(context.Background(), 1_000_000)
	require.NoError(t, err)
	requireAnswer(t, g, low, plain/5)
	requireLedger(t, s.d.ledger)
}

// BenchmarkSearch measures first and better answers: the overhead is the cost of the extra runs in
// parts of that of the first ones.
func BenchmarkSearch(b *testing.B) {
	for _, c := range []struct {
		name  string
		graph *Graph
		part  float64
	}{
		{"layered/tasks=1000", layeredGraph(1000, 7, 1), 0.8},
		{"training/tasks=1000", blockGraph(36), 0.5},
		{"training/tasks=10000", blockGraph(357), 0.5},
		{"chain/tasks=10000", forthAndBack(5000), 0.5},
	} {
		for _, work := range []int64{0, 2_000_000} {
			b.Run(fmt.Sprintf("%s/work=%d", c.name, work), func(b *testing.B) {
				overhead := 0.0
				for b.Loop() {
					s := NewSearch(c.graph, 1)
					a, err := s.Fit(context.Background(), int64(c.part*float64(s.d.peak())), work)
					require.NoError(b, err)
					overhead = 100 * float64(a.Cost) / float64(s.base)
				}
				b.ReportMetric(overhead, "overhead%")
			})
		}
	}
}

// BenchmarkLedger measures one extra run put in and taken out again, anywhere in a graph.
func BenchmarkLedger(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			l := newLedger(layeredGraph(n, 7, 1))
			rng := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				if x, stage, ok := randomRun(l, rng); ok {
					l.insert(x, stage)
					l.undo(0)
				}
			}
		})
	}
}

// TestSearchSmallest: graphs without tasks, or without anything to run again.
func TestSearchSmallest(t *testing.T) {
	for _, g := range []*Graph{{},
		{Tasks: []Task{{Cost: 1, Makes: []int32{0}, Once: true}}, Values: []Value{{Size: 5, Keep: true}}}} {
		s := NewSearch(g, 1)
		a, err := s.Fit(context.Background(), 5, 100)
		require.NoError(t, err)
		require.Empty(t, a.Extras)
		a, err = s.Lowest(context.Background(), 0)
		require.NoError(t, err)
		require.Equal(t, g.Need(), a.Peak)
	}
}

// TestSolveLarge: instances too large for the annealer alone, with aliases, have a valid schedule
// below the plain peak.
func TestSolveLarge(t *testing.T) {
	in := layered(600, 3000, 0.85, 3)
	rng := rand.New(rand.NewPCG(4, 4))
	for v := range in.Nodes {
		if node := &in.Nodes[v]; len(node.Inputs) > 0 && rng.IntN(12) == 0 {
			node.Alias = node.Inputs[rng.IntN(len(node.Inputs))]
		}
	}
	for _, solver := range []string{"auto", "lns", "greedy"} {
		r, err := Solve(context.Background(), in, Options{Solver: solver, Nodes: 300_000, Budget: in.Budget})
		require.NoError(t, err)
		require.LessOrEqual(t, r.Peak, in.Budget)
		require.True(t, r.InOrder)
	}
}

// TestFirstAnswerOfManyLayers: the first answer for a graph of equal layers comes from a cut, so that its cost is close
// to the bound whatever the number of layers is.
func TestFirstAnswerOfManyLayers(t *testing.T) {
	for _, blocks := range []int{30, 300, 3000} {
		g := transformer(blocks)
		plain, err := g.Simulate(nil)
		require.NoError(t, err)
		once := int64(0)
		for x := range g.Tasks {
			once += g.Tasks[x].Cost
		}
		for _, share := range []int64{70, 50, 30} {
			budget := plain.Peak * share / 100
			a, err := NewSearch(g, 1).Fit(t.Context(), budget, 0)
			require.NoError(t, err)
			low := g.CostBound(t.Context(), budget, boundWork+boundPart*int64(len(g.Tasks)))
			above := 100 * float64(a.Cost-low) / float64(once)
			t.Logf("%d tasks, %d %%: %.3f points above the bound, by %s", len(g.Tasks), share, above, a.Method)
			require.LessOrEqual(t, above, 0.5, "%d tasks, %d %%", len(g.Tasks), share)
		}
	}
}

// TestOnePassPeak: it is the peak of the schedule that computes every node once.
func TestOnePassPeak(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 200 {
		p := randomProblem(rng, 1+rng.IntN(12))
		p.InOrder, p.Budget = true, math.MaxInt64/4
		s, err := p.Solve(t.Context(), Options{First: true})
		require.NoError(t, err)
		require.Equal(t, s.Peak, p.OnePassPeak())
	}
	rapid.Check(t, func(t *rapid.T) {
		in := instances(t, 12)
		in.Budget = 1 << 40
		r, err := Solve(context.Background(), in, Options{First: true})
		require.NoError(t, err)
		require.Equal(t, r.Peak, in.OnePassPeak())
	})
}
