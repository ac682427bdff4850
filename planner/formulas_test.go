package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/planner/envelope"
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

// TestFormulaBesideUnknownSizes: values whose sizes depend on data count 0 bytes, in formulas as in
// plans, and values behind them count all the same.
func TestFormulaBesideUnknownSizes(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (float[N, 8] x) => (float few, float[N, 24] dx) {
		where = NonZero (x)  rows = Shape (where)
		big = Concat <axis = 1> (x, x, x)  a = Exp (big)  b = Tanh (a)  c = Mul (a, b)  d = Add (c, b)
		positions = Cast <to = 1> (rows)  mask = Cast <to = 9> (positions)
		kept = Compress (d, mask)
		few = ReduceSum <keepdims = 0> (kept)  dd = com.microsoft.YieldOp <full_shape_outputs = [0]> (d)
		db = Mul (dd, a)  da = Mul (dd, b)  dx = Add (da, db) }`, "g")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	box, err := envelope.NewBox(map[string]symbolic.Range{"N": {Lo: 1, Hi: 20}})
	require.NoError(t, err)
	f, err := planner.FormulaOf(t.Context(), m, types, planner.Options{}, box)
	require.NoError(t, err)
	requireExact(t, f, func(env symbolic.Env) *planner.Plan {
		p, err := planner.Make(m, types, planner.Options{Dims: env})
		require.NoError(t, err)
		return p
	}, false)
	bytes, _, err := f.Peak(symbolic.Env{"N": 20})
	require.NoError(t, err)
	require.GreaterOrEqual(t, bytes, int64(3*20*24*4), "a, b and c live at once")
}
