package autograd_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// doubled makes the floats of a model float64: declared types, constants, and the targets of casts.
func doubled(t *testing.T, m *graph.Model) {
	t.Helper()
	g := m.Graph
	for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		for i := range list {
			if list[i].Type.DType.IsFloat() {
				list[i].Type.DType, list[i].Wire = graph.Float64, nil
			}
		}
	}
	for i := range g.Values {
		v := &g.Values[i]
		if v.Type.DType.IsFloat() {
			v.Type.DType = graph.Float64
		}
		if v.Data != nil && v.Data.DType == graph.Float32 {
			elems, err := v.Data.Float64s()
			require.NoError(t, err)
			v.Data = &graph.TensorData{
				Name: v.Data.Name, DType: graph.Float64, Dims: v.Data.Dims, Source: graph.Raw(executor.Memory(elems)),
			}
		}
	}
	for _, n := range g.Nodes {
		if to := n.Int("to", 0); graph.DType(to).IsFloat() {
			n.SetAttr("to", int64(graph.Float64))
		}
		if n.Op == "LayerNormalization" {
			n.SetAttr("stash_type", int64(graph.Float64)) // of the statistics
		}
	}
}

// TestRandomGraphs differentiates random forward graphs and compares with finite differences. A
// seed whose graph holds what finite differences cannot follow is counted apart.
func TestRandomGraphs(t *testing.T) {
	checked := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 17))
		m := graphtest.Random(rng, graphtest.Options{Nodes: 6 + rng.IntN(14), Symbolic: seed%2 == 0})
		doubled(t, m)
		c := &gradCase{Name: fmt.Sprintf("seed %d", seed), Dims: symbolic.Env{"batch": 2, "seq": 3, "N": 2},
			Tol: 2e-4, model: m}
		opts := autograd.Options{}
		for _, d := range m.Graph.Outputs {
			if d.Type.DType.IsFloat() {
				opts.Losses = append(opts.Losses, autograd.Loss{Name: m.Graph.Values[d.Value].Name, Seed: true})
			}
		}
		opts.Wrt = []string{"tokens"}
		_, err := autograd.Differentiate(m, opts)
		var none *autograd.NoRule
		if errors.As(err, &none) {
			t.Logf("seed %d: %v", seed, err)
			continue
		}
		require.NoError(t, err, "seed %d", seed)
		t.Run(c.Name, func(t *testing.T) { c.check(t, seed) })
		checked++
	}
	require.Greater(t, checked, 40)
}
