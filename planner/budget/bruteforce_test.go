package budget

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner/arena"
	"memopt/planner/remat"
	"memopt/recompute"
)

// withViews makes some nodes of a tiny graph show their input, and some run in a subgraph that
// captures it.
func withViews(t *testing.T, rng *rand.Rand, m *graph.Model) *graph.Model {
	shape, err := m.Graph.AddInitializer(graph.Int64Tensor("all", []int64{1}, -1))
	require.NoError(t, err)
	cond := m.Graph.Value("cond")
	require.NoError(t, m.Graph.AddInput(graph.Decl{Value: cond, Type: graph.Tensor(graph.Bool, graph.Dims())}))
	for _, n := range m.Graph.Nodes {
		if n.Op != "Relu" && n.Op != "Exp" && n.Op != "Softplus" {
			continue
		}
		switch rng.IntN(4) {
		case 0:
			n.Op, n.Inputs = "Reshape", append(n.Inputs[:1:1], shape)
		case 1:
			n.Attrs = nil
			for _, name := range []string{"then_branch", "else_branch"} {
				sub := graph.New(name, m.Graph)
				out := sub.Value(n.Name + "_" + name)
				require.NoError(t,
					sub.AddNode(&graph.Node{Name: n.Name + "/" + name, Op: "Exp",
						Inputs:  []graph.ValueID{sub.Value(m.Graph.ValueName(n.Inputs[0]))},
						Outputs: []graph.ValueID{out}}))
				require.NoError(t,
					sub.AddOutput(graph.Decl{Value: out,
						Type: graph.Type{Form: graph.FormTensor, DType: graph.Float32}}))
				require.NoError(t, sub.Seal())
				n.Attrs = append(n.Attrs, graph.Attr{Name: name, Value: sub})
			}
			n.Op, n.Inputs = "If", []graph.ValueID{cond}
		}
	}
	require.NoError(t, m.Graph.Seal())
	_, err = op.Infer(m)
	require.NoError(t, err)
	return m
}

// eachPlan calls f with placements of up to two runs of any nodes that may run twice, before any
// backward nodes.
func eachPlan(a *recompute.Analysis, m *graph.Model, f func([]recompute.Placement)) {
	replays := recompute.NewReplays(m)
	var one []recompute.Placement
	for _, before := range a.Order {
		if !a.Backward[before] {
			continue
		}
		for _, id := range a.Order {
			if !a.Backward[id] && replays.WhyNot(id) == "" {
				one = append(one,
					recompute.Placement{Value: m.Graph.Nodes[id].Output(0), Nodes: []graph.NodeID{id},
						Before: before, Copy: 1})
			}
		}
	}
	f(nil)
	for i := range one {
		f(one[i : i+1])
		for j := i + 1; j < len(one); j++ {
			pair := []recompute.Placement{one[i], one[j]}
			if pair[0].Value == pair[1].Value {
				pair[1].Copy = 2
			}
			f(pair)
		}
	}
}

// TestBoundsByBruteForce compares bounds with every order, and with every plan of up to two extra
// runs, of small graphs.
func TestBoundsByBruteForce(t *testing.T) {
	tight, cheap := 0, 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 41))
		m := withViews(t, rng, graphtest.Vectors(5+rng.IntN(4), rng.IntN))
		if _, err := live.FindBoundary(m); err != nil {
			continue // nothing reads what the forward half makes
		}
		p := problemOf(t, m, nil, graph.FileOrder(m.Graph))
		sizes := p.Evaluator.Sizes
		lowest := int64(math.MaxInt64)
		graphtest.EachOrder(m.Graph, func(order graph.Order) {
			tl, err := live.Simulate(m.Graph, order, sizes)
			require.NoError(t, err)
			lowest = min(lowest, tl.Peak.Bytes)
			require.LessOrEqual(t, p.Base.LowerBound, tl.Peak.Bytes, "seed %d: order %v", seed, order)
			require.Equal(t, p.Base.LowerBound, tl.LowerBound,
				"seed %d: the bound for all orders depends on the order", seed)
		})
		if lowest == p.Base.LowerBound {
			tight++
		}
		tk := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State)
		least := tk.loose.PeakBound(context.Background(), 0) - (arena.Alignment - 1)
		whole := arena.NewLayout(context.Background(), p.Base, sizes.Bytes).Bytes
		budget := least + rng.Int64N(max(1, whole-least))
		cost := tk.loose.CostBound(context.Background(), rounded(budget), 0)
		cheapest, smallest := int64(math.MaxInt64), atPoint{arena: math.MaxInt64}
		eachPlan(p.Evaluator.Analysis, m, func(placements []recompute.Placement) {
			e, err := p.Evaluator.Simulate(placements)
			require.NoError(t, err)
			taken := e.Layout(context.Background()).Bytes
			require.LessOrEqual(t, least, taken, "seed %d: %+v", seed, placements)
			require.LessOrEqual(t, p.Base.LowerBound, e.Peak, "seed %d: %+v", seed, placements)
			at := atPoint{taken, costOf(tk, p, placements)}
			if taken <= budget {
				cheapest = min(cheapest, at.cost)
			}
			if taken < smallest.arena || taken == smallest.arena && at.cost < smallest.cost {
				smallest = at
			}
		})
		require.LessOrEqual(t, cost, cheapest, "seed %d: budget %d", seed, budget)
		checkBoundAt(t, p, smallest)
		var no *InfeasibleError
		_, err := Fit(context.Background(), p, &Options{Bytes: 1})
		require.ErrorAs(t, err, &no)
		require.False(t, no.Searched())
		require.LessOrEqual(t, no.LowerBound, smallest.arena, "seed %d", seed)
		require.GreaterOrEqual(t, no.LowerBound, min(least, 1), "seed %d", seed)
		if cost > 0 && cost == cheapest {
			cheap++
		}
	}
	require.Greater(t, tight, 40, "graphs with an order whose peak is the bound")
	require.Greater(t, cheap, 5, "budgets whose bound is met by a plan")
}

// costOf is the cost of placements in units of the search.
func costOf(tk *tasks, p *Problem, placements []recompute.Placement) int64 {
	total := int64(0)
	for _, pl := range placements {
		for _, id := range pl.Nodes {
			total += tk.graph.Tasks[p.Evaluator.Pos[id]].Cost
		}
	}
	return total
}

// atPoint is what a plan comes to.
type atPoint struct{ arena, cost int64 }

// checkBoundAt plans to the arena of a plan: the bound is no more than that plan costs. The search
// may miss that arena: it counts rounded sizes, and leaves those nodes alone whose originals are
// read behind.
func checkBoundAt(t *testing.T, p *Problem, at atPoint) {
	t.Helper()
	b := newBudgeter(context.Background(), p, &Options{Bytes: at.arena, Effort: 0.01})
	best, err := b.fit()
	var no *InfeasibleError
	if errors.As(err, &no) {
		require.LessOrEqual(t, no.LowerBound, at.arena)
		return
	}
	require.NoError(t, err)
	step := b.tasks.stepCost()
	require.LessOrEqual(t, b.bound(best).Overhead*step, float64(at.cost)*(1+1e-9))
	onCurve := b.paretoPoint(b.cheapest(at.arena), at.arena, 0)
	require.LessOrEqual(t, onCurve.LowerBound*step, float64(at.cost)*(1+1e-9))
}

// TestBoundsOfParts compares bounds of graphs whose values are joined of parts with random plans, as the simulator
// judges them: no plan is below the bound at its arena.
func TestBoundsOfParts(t *testing.T) {
	raised := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 47))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 20 + rng.IntN(30), Parts: true, Rows: 8, Width: 64,
			Layers: rng.IntN(2) == 0, Yield: rng.IntN(2) == 0})
		_, err := op.Infer(m)
		require.NoError(t, err)
		if _, err := live.FindBoundary(m); err != nil {
			continue
		}
		p := problemOf(t, m, nil, nil)
		tk := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State)
		without := *tk.loose
		without.Values = slices.Clone(tk.loose.Values)
		for v := range without.Values {
			without.Values[v].Part = 0
		}
		least := tk.loose.PeakBound(t.Context(), 0) - (arena.Alignment - 1)
		for range 12 {
			var extras []remat.Extra
			for x, task := range tk.graph.Tasks {
				from := max(int32(x)+1, tk.graph.From)
				last := task.Until
				if last == 0 {
					last = int32(len(tk.graph.Tasks)) - 1
				}
				if !task.Once && from <= last && rng.IntN(2) == 0 {
					extras = append(extras, remat.Extra{Task: int32(x), Before: from + rng.Int32N(last-from+1)})
				}
			}
			if rng.IntN(2) == 0 { // those that a cut asks for
				out, err := tk.graph.Simulate(nil)
				require.NoError(t, err)
				tasks, at := tk.loose.CutExtras(t.Context(), out.Peak/2+rng.Int64N(out.Peak/2), 0)
				tasks = slices.DeleteFunc(tasks, func(x int32) bool { return tk.graph.Tasks[x].Once })
				extras = tk.graph.FromCut(tasks, at)
			}
			placements := tk.placements(remat.SortExtras(extras))
			e, err := p.Evaluator.Simulate(placements)
			require.NoError(t, err)
			taken := e.Layout(t.Context()).Bytes
			require.LessOrEqual(t, least, taken, "seed %d", seed)
			bound := tk.loose.CostBound(t.Context(), rounded(taken), 0)
			require.LessOrEqual(t, bound, costOf(tk, p, placements), "seed %d: %d bytes", seed, taken)
			for _, bytes := range []int64{taken, taken * 4 / 5} {
				if tk.loose.CostBound(t.Context(), bytes, 0) > without.CostBound(t.Context(), bytes, 0) {
					raised++
				}
			}
		}
	}
	require.Greater(t, raised, 2, "bounds that parts make higher")
}
