package planner_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/planner/anchor"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// runtimeChain is a training graph of a chain of layers: a loss, and a backward half that reads
// every layer's result twice.
func runtimeChain(t *testing.T, layers int) (*graph.Model, *op.Result) {
	t.Helper()
	var forward, backward, weights strings.Builder
	before := "x"
	for i := range layers {
		fmt.Fprintf(&weights, ", float[64, 64] w%d", i)
		fmt.Fprintf(&forward, "a%d = MatMul(%s, w%d)  t%d = Tanh(a%d)  e%d = Exp(t%d)\n", i, before, i, i, i, i, i)
		before = fmt.Sprintf("e%d", i)
	}
	outputs, grad := "", "d"
	for i := layers - 1; i >= 0; i-- {
		in := "x"
		if i > 0 {
			in = fmt.Sprintf("e%d", i-1)
		}
		fmt.Fprintf(&backward,
			"m%[1]d = Mul(%[2]s, e%[1]d)  n%[1]d = Mul(m%[1]d, t%[1]d)  g%[1]d = Gemm<transA = 1>(%[3]s, n%[1]d)  "+
				"d%[1]d = Gemm<transB = 1>(n%[1]d, w%[1]d)\n", i, grad, in)
		grad = fmt.Sprintf("d%d", i)
		outputs += fmt.Sprintf(", float[64, 64] g%d", i)
	}
	m, err := graph.Parse(
		fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17], metadata_props: ["memopt.boundary": "{\"schema\":\"memopt.boundary/v1\",\"kind\":\"recorded\",\"loss\":\"loss\",\"node\":\"loss\",\"backward\":\"d\"}"]>
chain (float[N, 64] x%s) => (float loss%s) { %s [loss] loss = ReduceMean<keepdims = 0>(%s)  [d] d = Mul(%s, loss) %s }`, &weights, outputs, &forward, before, before, &backward), "chain")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	return m, types
}

// TestRuntimeBudgets holds plans to budgets in stock ONNX Runtime to their promise: the file that
// is written stays within them there.
func TestRuntimeBudgets(t *testing.T) {
	m, types := runtimeChain(t, 8)
	dims := symbolic.Env{"N": 1024}
	plan := func(b planner.Budget) (*planner.Plan, error) {
		b.Runtime = true
		return planner.Make(m, types, planner.Options{Dims: dims, Strategy: &b})
	}
	whole, err := plan(planner.Budget{Share: 1, Effort: 0.2})
	require.NoError(t, err)
	base, persistent := whole.Runtime.BaseArena, whole.Persistent
	require.Empty(t, whole.Placements, "nothing need run again")
	require.True(t, whole.Bound.Optimal)
	plain, err := ortsim.Simulate(m, dims)
	require.NoError(t, err)
	require.Equal(t, plain.Arena, base)
	lowest, again := int64(math.MaxInt64), 0
	for _, share := range []float64{0.9, 0.7, 0.5, 0.35} {
		for _, b := range []planner.Budget{{Share: share, Effort: 0.2},
			{Total: int64(share*float64(base)) + persistent, Effort: 0.2}, {Arena: int64(share * float64(base))}} {
			p, err := plan(b)
			require.NoError(t, err, "%v", b)
			limit, fits := p.RuntimeBudget(p.Runtime)
			require.True(t, fits)
			require.Equal(t, int64(share*float64(base)), limit)
			require.LessOrEqual(t, p.Runtime.AnchoredArena, limit, "%v", b)
			a, err := p.Anchor(t.Context())
			require.NoError(t, err)
			require.Equal(t, p.Runtime, a, "what apply writes")
			r, err := recompute.Apply(m, p.Analysis.Boundary, p.Analysis.Order, p.Placements,
				recompute.Options{Anchors: a.Anchors})
			require.NoError(t, err)
			require.NoError(t, graph.Verify(r.Model))
			require.Equal(t, valueNumbers(m.Graph, graph.FileOrder(m.Graph)), withoutAnchors(r.Model.Graph, r))
			require.InDelta(t, 1-1/(1+p.Overhead), p.Bound.Gap, 0.02)
			lowest, again = min(lowest, p.Runtime.AnchoredArena), max(again, p.Recompute.Nodes)
		}
	}
	require.Positive(t, again)
	own, err := planner.Make(m, types, planner.Options{Dims: dims, Strategy: &planner.Budget{Share: 0.5, Effort: 0.2}})
	require.NoError(t, err)
	require.Nil(t, own.Runtime)
	_, err = plan(planner.Budget{Total: persistent + base/20, Effort: 0.2})
	var infeasible *planner.InfeasibleError
	require.ErrorAs(t, err, &infeasible)
	require.Equal(t, base/20, infeasible.Budget)
	require.Equal(t, persistent, infeasible.Persistent)
	require.Greater(t, infeasible.LowestArena, infeasible.Budget)
	require.LessOrEqual(t, infeasible.LowestArena, lowest)
	require.LessOrEqual(t, infeasible.LowestLive, infeasible.LowestArena)
	require.ErrorContains(t, err, "no plan for stock ONNX Runtime fits an arena of ")
}

// TestRuntimeBudgetOfOthers says of a plan to a budget of memopt's own what its file comes to in
// the runtime.
func TestRuntimeBudgetOfOthers(t *testing.T) {
	m, types := runtimeChain(t, 6)
	p, err := planner.Make(m, types,
		planner.Options{Dims: symbolic.Env{"N": 512}, Strategy: &planner.Budget{Share: 0.6}})
	require.NoError(t, err)
	a := &anchor.Anchoring{Simulated: true, BaseArena: 1000, AnchoredArena: 600}
	limit, fits := p.RuntimeBudget(a)
	require.EqualValues(t, 600, limit)
	require.True(t, fits)
	a.AnchoredArena++
	_, fits = p.RuntimeBudget(a)
	require.False(t, fits)
	for _, a := range []*anchor.Anchoring{nil, {BaseArena: 1000, AnchoredArena: 601}} {
		limit, fits = p.RuntimeBudget(a)
		require.Zero(t, limit)
		require.True(t, fits, "not simulated")
	}
	p.Options.Strategy = &planner.Budget{Total: p.Persistent + 500}
	limit, fits = p.RuntimeBudget(a)
	require.EqualValues(t, 500, limit)
	require.False(t, fits)
	p.Options.Strategy = nil
	limit, fits = p.RuntimeBudget(a)
	require.Zero(t, limit)
	require.True(t, fits, "no budget")
}

// TestRuntimeBudgetUnbound needs sizes.
func TestRuntimeBudgetUnbound(t *testing.T) {
	m, types := runtimeChain(t, 2)
	_, err := planner.Make(m, types, planner.Options{Strategy: &planner.Budget{Share: 0.6, Runtime: true}})
	var unbound *symbolic.UnboundError
	require.ErrorAs(t, err, &unbound)
	require.Equal(t, []string{"N"}, unbound.Symbols)
}

// TestRuntimeOfWholeOnce: the graph as it was given is simulated in ONNX Runtime when a plan in parts of
// it first asks, and not again.
func TestRuntimeOfWholeOnce(t *testing.T) {
	m, types := runtimeChain(t, 6)
	dims := symbolic.Env{"N": 512}
	p, err := planner.Make(m, types, planner.Options{Dims: dims})
	require.NoError(t, err)
	require.Equal(t, anchor.AsIs(m.Graph, ortsim.NewFacts(m, dims), p.Sizes), planner.InRuntime(p))
	require.Zero(t, testing.AllocsPerRun(10, func() { planner.InRuntime(p) }), "it is simulated again")
}
