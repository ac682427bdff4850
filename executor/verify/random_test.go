package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/kerneltest"
	"memopt/planner"
	"memopt/recompute"
	"memopt/symbolic"
)

// made makes up data for all inputs of a model.
func made(t *testing.T, m *graph.Model, env symbolic.Env, seed uint64) map[string]*executor.Tensor {
	t.Helper()
	f := dataset.NewFiller(m.Graph, env, seed)
	inputs := map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		x, err := f.Fill(d.Value)
		require.NoError(t, err)
		inputs[m.Graph.Values[d.Value].Name] = x
	}
	return inputs
}

// infer infers a model's types.
func infer(t *testing.T, m *graph.Model) *op.Result {
	t.Helper()
	types, err := op.Infer(m)
	require.NoError(t, err)
	return types
}

// setups are ways to run a graph that must give the same bits, and the memory that is predicted for
// each.
var setups = []executor.Options{
	{Threads: 1, NoFusion: true},
	{Threads: 3},
	{Threads: 2, Guard: true},
	{Threads: 2, OnDemand: true},
	{Threads: 1, OnDemand: true, Strategy: executor.SameAsRequested, Guard: true},
}

// same runs a side in every way and compares with the plain interpreter and with want. What runs
// inside subgraphs is beside the plan.
func same(
	t *testing.T, side verify.Side, inputs map[string]*executor.Tensor, want []verify.Output, label string,
) []verify.Output {
	t.Helper()
	for _, s := range setups {
		run, err := verify.Execute(context.Background(), side, inputs,
			verify.Options{Engine: verify.On(cpu.Device{}), Session: s, Repeat: 2})
		require.NoError(t, err, "%s, %+v", label, s)
		if want == nil {
			want = run.Outputs
		}
		for i, o := range run.Outputs {
			require.True(t, bytes.Equal(want[i].Tensor.Data, o.Tensor.Data), "%s, %+v: output %q differs",
				label, s, o.Name)
		}
		if !s.Guard || !s.OnDemand {
			require.Equal(t, run.Predicted.Arena, run.Measured.Arena,
				"%s, %+v: the measured arena is not the planned one", label, s)
		}
		if holdsSubgraphs(side.Model.Graph) {
			require.LessOrEqual(t, run.Predicted.Live, run.Measured.Live, "%s, %+v: live bytes", label, s)
			require.Positive(t, run.Measured.Dynamic, "%s, %+v", label, s)
			continue
		}
		require.Equal(t, run.Predicted.Live, run.Measured.Live, "%s, %+v: live bytes", label, s)
		require.Zero(t, run.Measured.Dynamic, "%s, %+v", label, s)
	}
	return want
}

func holdsSubgraphs(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, (*graph.Node).HasSubgraphs)
}

// TestRandomGraphs runs random training graphs, as they are and as plans rewrite them, in
// every way: the bits are the same, the measured arena is the planned one.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			m := graphtest.Training(rng,
				graphtest.Options{Nodes: 20 + rng.IntN(80), Symbolic: seed%2 == 0, Layers: seed%3 == 0,
					Control: seed%4 == 3, Parts: seed%2 == 1})
			env := symbolic.Env{"N": 33 + int64(seed)}
			if seed%3 == 1 {
				env["N"] += 128 // so many rows that neighbouring loops are fused
			}
			types := infer(t, m)
			inputs := made(t, m, env, seed)
			for level := range planner.Level(3) {
				opts := planner.Options{Strategy: level, Dims: env}
				p, err := planner.Make(m, types, opts)
				require.NoError(t, err)
				r, err := recompute.Apply(m, p.Analysis.Boundary, p.Analysis.Order, p.Placements,
					recompute.Options{Seed: 3})
				require.NoError(t, err)
				base := m.Clone()
				for i, origin := range r.Origin {
					base.Graph.Nodes[origin].Attrs = r.Model.Graph.Nodes[i].Attrs
				}
				want := same(t, verify.Side{Model: base, Types: types, Order: p.Analysis.Order, Dims: env}, inputs,
					nil, "baseline")
				same(t,
					verify.Side{Model: r.Model, Types: infer(t, r.Model), Order: graph.FileOrder(r.Model.Graph),
						Dims: env}, inputs, want, fmt.Sprintf("level %d", level))
			}
		})
	}
}

// TestRandomForward compares sessions on random forward graphs with the plain interpreter.
func TestRandomForward(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := graphtest.Random(rng, graphtest.Options{Nodes: 20 + rng.IntN(80), Symbolic: true})
		env := symbolic.Env{"batch": 2, "seq": 9, "N": 2}
		types := infer(t, m)
		inputs := made(t, m, env, seed)
		outs := same(t, verify.Side{Model: m, Types: types, Dims: env}, inputs, nil, fmt.Sprintf("seed %d", seed))
		plain, err := kerneltest.Interpret(cpu.Device{}, m, inputs)
		require.NoError(t, err)
		for i, o := range outs {
			require.NoError(t, kerneltest.Compare(o.Tensor, plain[i], 0), "seed %d: output %q", seed, o.Name)
		}
	}
}
