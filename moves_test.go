package memopt_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/planner/offload"
)

func wideTransformer(t *testing.T) *memopt.Model {
	t.Helper()
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 4, "seq": 64}})
	require.NoError(t, err)
	return m
}

// TestPlanMoves: a plan with moves is within the budget, cheaper than recomputation alone can be where the link
// is fast, no worse than its bound, and its graph gives the bits of the graph as it is in the memory that it
// promises on both sides.
func TestPlanMoves(t *testing.T) {
	for _, share := range []float64{0.6} {
		m := wideTransformer(t)
		o := memopt.PlanOptions{}
		b := memopt.Budget{Share: share, Effort: 0.01}
		alone, err := m.Plan(t.Context(), b, o)
		require.NoError(t, err)
		link := memopt.MoveOptions{Link: offload.Link{BytesPerSecond: 1e12}, HostBudget: 1 << 30}
		p, err := m.PlanMoves(t.Context(), b, o, link)
		require.NoError(t, err)
		require.LessOrEqual(t, p.Arena, p.Budget)
		require.NotEmpty(t, p.Moves)
		require.Less(t, p.Overhead, alone.Bound.Overhead)
		require.LessOrEqual(t, p.Bound, p.Overhead)
		require.GreaterOrEqual(t, p.Moved, p.HostPeak)
		require.InDelta(t, p.StepAsIs*(1+p.Overhead), p.Seconds, 1e-12*p.Seconds)
		requireCopies(t, p, link)

		types, err := op.Infer(p.Model)
		require.NoError(t, err)
		fill, inputs := dataset.NewFiller(m.Graph, m.Dims, 1), map[string]*executor.Tensor{}
		for _, d := range m.Graph.Inputs {
			inputs[m.Graph.Values[d.Value].Name], err = fill.Fill(d.Value)
			require.NoError(t, err)
		}
		asIs := verify.Side{Model: m.Model, Types: m.Types, Dims: m.Dims, Order: graph.FileOrder(m.Graph)}
		moved := verify.Side{Model: p.Model, Types: types, Dims: m.Dims, Order: graph.FileOrder(p.Model.Graph)}
		v, err := verify.Verify(t.Context(), asIs, moved, inputs, verify.Options{Engine: verify.On(cpu.Device{})},
			verify.Tolerance{Bitwise: p.Plan.ExactBits()})
		require.NoError(t, err)
		require.Nil(t, v.First)
		require.Equal(t, v.Planned.Predicted.Arena, v.Planned.Measured.Arena)
		require.Equal(t, p.Arena, v.Planned.Measured.Arena)
		require.Equal(t, p.HostPeak, v.Planned.Measured.HostLive)
	}
}

// requireCopies requires the copies of the graph with moves to be those of the plan: the memory on the host, the
// bytes, and the time of a step.
func requireCopies(t *testing.T, p *memopt.Moving, o memopt.MoveOptions) {
	t.Helper()
	c, err := p.Whole().Copies(t.Context(), o.Link)
	require.NoError(t, err)
	require.Equal(t, len(p.Moves), c.In)
	require.Equal(t, []int64{p.HostPeak, p.HostArena, p.Moved}, []int64{c.Peak, c.Arena, c.OutBytes})
	require.InDelta(t, p.Seconds, c.Seconds, 1e-9*p.Seconds)
	require.InDelta(t, p.Overhead-p.Recomputed, c.Waited/p.StepAsIs, 1e-9)
	require.Equal(t, p.Arena, p.Whole().Arena.Bytes)
}

// TestPlanMovesRuledOut: where a step takes more than the budget in any parts, copies cannot help, and the error names
// the budget that was asked for.
func TestPlanMovesRuledOut(t *testing.T) {
	m := wideTransformer(t)
	o := memopt.PlanOptions{}
	o.Chunk = chunk.Exact
	var none *planner.InfeasibleError
	_, err := m.Plan(t.Context(), memopt.Budget{Arena: 1, Effort: 0.01}, o)
	require.ErrorAs(t, err, &none)
	least := none.LowerBound
	link := memopt.MoveOptions{Link: offload.Link{BytesPerSecond: 1e12}, HostBudget: 1 << 30}
	_, err = m.PlanMoves(t.Context(), memopt.Budget{Arena: least - 1, Effort: 0.01}, o, link)
	require.ErrorAs(t, err, &none)
	require.Equal(t, least-1, none.Budget)
	require.True(t, none.RuledOut())
}

// TestCopiesTake: copies over a slow link take the time that the plan states, by a walk over its graph.
func TestCopiesTake(t *testing.T) {
	m := wideTransformer(t)
	o := memopt.MoveOptions{Link: offload.Link{BytesPerSecond: 2e10, Latency: 2 * time.Microsecond},
		HostBudget: 1 << 30}
	p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: 0.6, Effort: 0.01}, memopt.PlanOptions{}, o)
	require.NoError(t, err)
	require.NotEmpty(t, p.Moves)
	requireCopies(t, p, o)
}

// TestPlanMovesOfNone: without a host budget, no value moves; a link that is none is refused.
func TestPlanMovesOfNone(t *testing.T) {
	m := wideTransformer(t)
	b := memopt.Budget{Share: 0.7, Effort: 0.01}
	p, err := m.PlanMoves(t.Context(), b, memopt.PlanOptions{}, memopt.MoveOptions{})
	require.NoError(t, err)
	require.Empty(t, p.Moves)
	require.LessOrEqual(t, p.Arena, p.Budget)
	_, err = m.PlanMoves(t.Context(), b, memopt.PlanOptions{},
		memopt.MoveOptions{Link: offload.Link{BytesPerSecond: math.NaN()}})
	require.ErrorContains(t, err, "offload: the link has NaN bytes per second")
}
