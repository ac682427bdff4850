package memopt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/configs"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/recompute"
)

func smallTransformer(t *testing.T) *memopt.Model {
	t.Helper()
	m, err := memopt.Example("transformer-small",
		memopt.Options{Dims: map[string]int64{"batch": 4, "seq": 24}})
	require.NoError(t, err)
	return m
}

// inParts cuts regions around values of a model, in the order of its plan as it is.
func inParts(t *testing.T, m *memopt.Model, values ...string) (*memopt.Plan, *planner.Cuts) {
	t.Helper()
	whole, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	bound, err := chunk.Bind(m.Model, m.Dims)
	require.NoError(t, err)
	cuts := &planner.Cuts{Order: whole.Analysis.Order}
	for i, v := range values {
		cut, err := chunk.Around(bound, cuts.Order, v, "0-1", 3+i, 0.5, chunk.Fast)
		require.NoError(t, err)
		cuts.List = append(cuts.List, *cut)
	}
	return whole, cuts
}

// TestPlanInParts: a plan with regions in parts is compared with the graph as it was given, keeps its
// promises when it is executed, and comes back from its plan file.
func TestPlanInParts(t *testing.T) {
	const head = "/lm_head/MatMul_output_0"
	for _, level := range []planner.Level{planner.UserSpecified, planner.Layerwise} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			m := smallTransformer(t)
			whole, cuts := inParts(t, m, head)
			file := &planner.PlanFile{Cuts: cuts}
			o := memopt.PlanOptions{Device: cpu.Device{}}
			var err error
			o.Workspace, err = executor.Workspaces(t.Context(), m.Model, m.Types, o.Device,
				executor.Options{Dims: m.Dims})
			require.NoError(t, err)
			p, err := m.Plan(t.Context(), file, o)
			require.NoError(t, err)
			if level != planner.UserSpecified {
				again, err := planner.Make(p.Model, p.Types, planner.Options{Dims: m.Dims, Strategy: level,
					Order: planner.OrderFile, Workspace: p.Options.Workspace})
				require.NoError(t, err)
				require.NotEmpty(t, again.Placements)
				file.Placements, file.Order = again.Placements, again.Analysis.Order
				p, err = m.Plan(t.Context(), file, o)
				require.NoError(t, err)
				require.Equal(t, again.Planned.Peak, p.Planned.Peak)
			}
			require.True(t, p.Rewrites())
			require.Equal(t, "1 region in 3 parts, not bit-equal", p.FissionText())
			require.Equal(t, whole.Base.Peak, p.Baseline().Base.Peak)
			require.Equal(t, whole.Step, p.Baseline().Step)
			require.Equal(t, whole.Base.Peak.Bytes, p.PeakRecord().BaselineBytes)
			require.GreaterOrEqual(t, (1+p.Overhead)*whole.Step.Seconds,
				p.Step.Seconds+p.Recompute.Seconds-1e-12)
			before, part := p.RegionBytes(0)
			v, _ := m.Graph.Lookup(head)
			require.Equal(t, whole.Sizes.Bytes[v], before)
			require.Equal(t, before/3, part)

			executeInParts(t, p)
			backFromFile(t, m, p, o)
		})
	}
}

// executeInParts executes the graph as it was given and as the plan rewrites it.
func executeInParts(t *testing.T, p *memopt.Plan) {
	t.Helper()
	r, err := p.Rewrite(memopt.RewriteOptions{Seed: 3})
	require.NoError(t, err)
	text, ok := r.Model.Meta(recompute.Key)
	require.True(t, ok)
	var record recompute.Record
	require.NoError(t, json.Unmarshal([]byte(text), &record))
	require.Len(t, record.Fission, len(p.Fission))
	require.Equal(t, p.Of.StructureSHA256, record.StructureSHA256)

	x, err := r.Execution()
	require.NoError(t, err)
	require.True(t, x.Changed())
	require.NoError(t, x.Fill(1))
	v, err := x.Verify(t.Context(), verify.Options{Engine: verify.On(cpu.Device{})},
		verify.Tolerance{Abs: 1e-5, Rel: 1e-4, Bitwise: p.ExactBits()})
	require.NoError(t, err)
	require.Nil(t, v.First)
	require.Equal(t, v.Planned.Predicted.Arena, v.Planned.Measured.Arena)
	require.Equal(t, p.Baseline().Base.Peak.Bytes, v.Baseline.Predicted.Live)
	require.Equal(t, p.Planned.Peak.Bytes, v.Planned.Predicted.Live)
}

// backFromFile holds a plan to what its plan file gives.
func backFromFile(t *testing.T, m *memopt.Model, p *memopt.Plan, o memopt.PlanOptions) {
	t.Helper()
	data, err := p.File(0)
	require.NoError(t, err)
	record, err := configs.ParsePlan(data, "plan.json")
	require.NoError(t, err)
	s, err := m.PlanOf(record)
	require.NoError(t, err)
	q, err := m.Plan(t.Context(), s, o)
	require.NoError(t, err)
	require.Equal(t, p.Fission, q.Fission)
	require.Equal(t, p.Record(0), q.Record(0))
	require.Equal(t, p.PeakRecord(), q.PeakRecord())
	require.Equal(t, p.Overhead, q.Overhead)

	record.Fission[0].Parts = 1
	_, err = m.PlanOf(record)
	require.ErrorIs(t, err, chunk.ErrCut)
	record.Fission[0].Region = "nothing"
	_, err = m.PlanOf(record)
	require.ErrorContains(t, err, `its regions in parts: the cut does not fit this graph: region "nothing"`)
	record.WholeOrder = record.WholeOrder[1:]
	_, err = m.PlanOf(record)
	require.ErrorContains(t, err, "whole_order")
}

// TestPartsAreDemanded: what is to be kept or made again by the name of a value that is in parts is
// obeyed for what its parts make.
func TestPartsAreDemanded(t *testing.T) {
	m := smallTransformer(t)
	_, cuts := inParts(t, m, "/lm_head/MatMul_output_0")
	p, err := m.Plan(t.Context(), &planner.PlanFile{Cuts: cuts}, memopt.PlanOptions{})
	require.NoError(t, err)
	require.Empty(t, p.Placements)

	gone := memopt.PlanOptions{}
	gone.Recompute = []string{"/transformer/h.0/mlp/act/Gelu_output_0"}
	again, err := m.Plan(t.Context(), &planner.PlanFile{Cuts: cuts}, gone)
	require.NoError(t, err)
	require.Len(t, again.Placements, 3)
	for part, pl := range again.Placements {
		var ops []string
		for _, id := range pl.Nodes {
			ops = append(ops, again.Model.Graph.Nodes[id].Op)
		}
		require.Contains(t, ops, "Gelu")
		require.Contains(t, again.Model.Graph.ValueName(pl.Value), fmt.Sprintf("_part%d", part))
	}

	o := memopt.PlanOptions{}
	o.Costs = make([]float64, len(m.Graph.Nodes))
	for i := range o.Costs {
		o.Costs[i] = 1
	}
	o.CostSource = planner.MeasuredPrefix + "test"
	q, err := m.Plan(t.Context(), &planner.PlanFile{Cuts: cuts}, o)
	require.NoError(t, err)
	const loss = "SoftmaxCrossEntropyLossInternal"
	took := func(p *planner.Plan) (sum float64) {
		for i, n := range p.Model.Graph.Nodes {
			if n.Op == loss {
				sum += p.NodeSeconds()[i]
			}
		}
		return sum
	}
	require.Greater(t, took(p.Plan), took(p.Whole), "by the profile, small parts take longer together")
	require.InDelta(t, took(p.Plan)/took(p.Whole), took(q.Plan), 1e-9, "and so they do by what was measured")
	require.GreaterOrEqual(t, q.Overhead, 0.0)
}

// TestBudgetsInParts: the curve of budgets goes lower with regions in parts than without, its plans
// are what their files give, and plans to rising budgets fit, keep their promises and cost no more.
func TestBudgetsInParts(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 64, "seq": 64}})
	require.NoError(t, err)
	o := memopt.PlanOptions{}
	curve := func(mode chunk.Mode) *planner.Curve {
		o.Chunk = mode
		c, err := m.Pareto(t.Context(), memopt.Budget{Share: 1, Effort: 0.05}, o, 2)
		require.NoError(t, err)
		return c
	}
	alone, c := curve(chunk.Off), curve(chunk.Fast)
	require.Less(t, c.Points[0].Arena, alone.Points[0].Arena)
	require.NotEmpty(t, c.Fission(0))
	last := math.Inf(1)
	for i, pt := range c.Points {
		require.LessOrEqual(t, pt.Arena, pt.Budget)
		data, err := m.PointFile(c, i, 0)
		require.NoError(t, err)
		record, err := configs.ParsePlan(data, "point")
		require.NoError(t, err)
		s, err := m.PlanOf(record)
		require.NoError(t, err)
		p, err := m.Plan(t.Context(), s, memopt.PlanOptions{})
		require.NoError(t, err)
		require.Equal(t, pt.Live, p.Planned.Peak.Bytes)
		require.InDelta(t, pt.Overhead, p.Overhead, 1e-9)
		if p.Whole != nil {
			executeInParts(t, p)
		}

		b := memopt.Budget{Arena: pt.Budget, Effort: 0.05}
		p, err = m.Plan(t.Context(), b, o)
		if i == 0 && errors.Is(err, planner.ErrInfeasible) {
			continue // the curve tries harder for the lowest peak
		}
		require.NoError(t, err)
		require.LessOrEqual(t, p.Arena.Bytes, pt.Budget)
		require.LessOrEqual(t, p.Overhead, last)
		if last = p.Overhead; p.Whole != nil {
			executeInParts(t, p)
		}
	}
	require.Zero(t, last, "nothing is done where everything fits")
}
