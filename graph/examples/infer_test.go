package examples_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/symbolic"
)

// TestInferenceKnowsEverything: the op table has a row for every operator, no
// value is left unknown, and what the files declare is what inference finds.
func TestInferenceKnowsEverything(t *testing.T) {
	forEachBuild(t, func(t *testing.T, m *graph.Model) {
		g := m.Graph
		result, err := op.Infer(m)
		require.NoError(t, err)
		for _, id := range result.NoRow {
			assert.Failf(t, "no row", "node %s (%s)", g.NodeLabel(id), g.Nodes[id].Op)
		}
		for _, c := range result.Conflicts {
			assert.Failf(t, "conflict", "%s: declared %v, inferred %v", g.ValueName(c.Value), c.Declared, c.Inferred)
		}
		for i := range g.Values {
			v := &g.Values[i]
			assert.Truef(t, v.Type.Form == graph.FormTensor && v.Type.DType.Valid() && v.Type.Shape.Known(), "%s: %v",
				v.Name, v.Type)
		}
	})
}

// TestGradientsHaveTheTypesOfTheirValues: <value>_grad, or each contribution
// <value>_grad_N to it, has the type of <value>.
func TestGradientsHaveTheTypesOfTheirValues(t *testing.T) {
	forEachBuild(t, func(t *testing.T, m *graph.Model) {
		_, err := op.Infer(m)
		require.NoError(t, err)
		g := m.Graph
		pairs := 0
		for i := range g.Values {
			name := g.Values[i].Name
			grad, ok := g.Lookup(name + "_grad")
			if !ok {
				continue
			}
			pairs++
			assert.Equal(t, g.Values[i].Type.String(), g.Values[grad].Type.String(), name)
		}
		assert.Greater(t, pairs, len(m.Graph.Outputs)/2)
	})
}

// TestDefaultsAreWorthPlanning: at the default bindings, values made by
// nodes add up to more than a GiB, but for examples that stand for others where these are trained.
func TestDefaultsAreWorthPlanning(t *testing.T) {
	small := map[string]bool{}
	for _, e := range examples.All() {
		if small[e.Train] = true; e.Train != "" {
			_, ok := examples.Lookup(e.Train)
			require.True(t, ok, e.Train)
		}
	}
	for _, e := range examples.All() {
		if small[e.Name] {
			continue
		}
		m, err := e.Build()
		require.NoError(t, err)
		_, err = op.Infer(m)
		require.NoError(t, err)
		total := int64(0)
		for i := range m.Graph.Values {
			if v := &m.Graph.Values[i]; v.Def != graph.NoNode {
				bytes, err := v.Type.Bytes().Eval(symbolic.Env(e.Dims))
				require.NoError(t, err, v.Name)
				total += bytes
			}
		}
		assert.Greater(t, total, int64(1<<30), e.Name)
	}
}
