package cuda_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/recompute"
)

// TestFusionInPlans: what a plan rewrites gives the bits of the graph that it was made of, with
// fusion groups, which are others there.
func TestFusionInPlans(t *testing.T) {
	d := device(t, double.Options{})
	for seed := range uint64(4) {
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 9)), graphtest.Options{Nodes: 50, Layers: seed%2 == 0})
		types, err := op.Infer(m)
		require.NoError(t, err)
		p, err := planner.Make(m, types, planner.Options{Strategy: planner.LayerwiseCompromise})
		require.NoError(t, err)
		r, err := recompute.Apply(m, p.Analysis.Boundary, p.Analysis.Order, p.Placements, recompute.Options{Seed: 3})
		require.NoError(t, err)
		for i, origin := range r.Origin { // clones fix seeds
			m.Graph.Nodes[origin].Attrs = r.Model.Graph.Nodes[i].Attrs
		}
		rewritten, err := op.Infer(r.Model)
		require.NoError(t, err)
		inputs := made(t, m, nil)
		want, err := runFused(d, verify.Side{Model: m, Types: types, Order: p.Analysis.Order}, inputs,
			executor.Options{NoFusion: true}, 1)
		require.NoError(t, err)
		got, err := runFused(d, verify.Side{Model: r.Model, Types: rewritten}, inputs, executor.Options{}, 2)
		require.NoError(t, err)
		require.Equal(t, got.Predicted.Arena, got.Measured.Arena)
		require.Equal(t, got.Predicted.Live, got.Measured.Live)
		for k, w := range want.Outputs {
			require.True(t, bytes.Equal(w.Tensor.Data, got.Outputs[k].Tensor.Data), "seed %d: output %q", seed, w.Name)
		}
	}
}
