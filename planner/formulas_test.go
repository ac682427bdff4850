package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/symbolic"
)

// TestFormulasWithoutSizes: a plan without sizes has formulas over ranges that it assumes or is given,
// and at sizes within these they are the peaks of plans that are made for the sizes.
func TestFormulasWithoutSizes(t *testing.T) {
	for _, e := range examples.All() {
		if e.Name != "mlp" && e.Name != "transformer-small" {
			continue
		}
		m, err := e.Build()
		require.NoError(t, err)
		types, err := op.Infer(m)
		require.NoError(t, err)
		dims := symbolic.Env{}
		for symbol := range e.Dims {
			dims[symbol] = 48
		}
		for _, s := range []planner.Strategy{nil, planner.Layerwise} {
			p, err := planner.Make(m, types, planner.Options{Strategy: s, Ranges: map[string]symbolic.Range{}})
			require.NoError(t, err)
			require.NotNil(t, p.Formulas, e.Name)
			require.Zero(t, p.Formulas.Error)
			require.Positive(t, p.Formulas.Points)
			require.ElementsMatch(t, p.Unbound, p.Formulas.Assumed)
			sized, err := planner.Make(m, types, planner.Options{Strategy: s, Dims: dims})
			require.NoError(t, err)
			bytes, _, err := p.Formulas.Base.Peak(dims)
			require.NoError(t, err)
			require.Equal(t, sized.Base.Peak.Bytes, bytes, e.Name)
			require.Equal(t, s != nil && len(p.Placements) > 0, p.Formulas.Planned != nil)
			if p.Formulas.Planned != nil {
				bytes, _, err = p.Formulas.Planned.Peak(dims)
				require.NoError(t, err)
				require.Equal(t, sized.Planned.Peak.Bytes, bytes, e.Name)
			}
		}
		ranges := map[string]symbolic.Range{}
		for s, n := range dims {
			ranges[s] = symbolic.Range{Lo: n, Hi: n + 3}
		}
		p, err := planner.Make(m, types, planner.Options{Ranges: ranges})
		require.NoError(t, err)
		require.Empty(t, p.Formulas.Assumed)
	}
}
