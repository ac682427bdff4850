package planner_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// eachPoint calls f with every binding of a box.
func eachPoint(box envelope.Box, f func(symbolic.Env)) {
	env := symbolic.Env{}
	var walk func(i int)
	walk = func(i int) {
		if i == len(box) {
			f(env)
			return
		}
		for n := box[i].Lo; n <= box[i].Hi; n++ {
			env[box[i].Symbol] = n
			walk(i + 1)
		}
	}
	walk(0)
}

// requireExact holds a formula to plans at every binding of its box: as many bytes as the simulation
// has, at a node that has them.
func requireExact(t require.TestingT, f *planner.Formula, simulate func(symbolic.Env) *planner.Plan, planned bool) {
	covered := 0
	eachPoint(f.Box, func(env symbolic.Env) {
		covered++
		p := simulate(env)
		line := p.Base
		if planned {
			line = p.Planned
		}
		bytes, at, err := f.Peak(env)
		require.NoError(t, err)
		require.Equal(t, line.Peak.Bytes, bytes, "peak at %v of %v", env, f.Pieces)
		persistent, err := f.Persistent.Eval(env)
		require.NoError(t, err)
		require.Equal(t, p.Persistent, persistent)
		nodes := []graph.NodeID{}
		for step, n := range line.Live {
			if n == bytes && !planned {
				nodes = append(nodes, p.Analysis.Order[step])
			}
		}
		if !planned {
			require.Contains(t, nodes, at.Node, "worst node at %v", env)
		}
	})
	volume := 0
	for _, p := range f.Pieces {
		eachPoint(p.Box, func(symbolic.Env) { volume++ })
	}
	require.Equal(t, covered, volume, "pieces overlap")
}

// planAt plans a model at bindings.
func planAt(t require.TestingT, m *memopt.Model, s planner.Strategy) func(symbolic.Env) *planner.Plan {
	return func(env symbolic.Env) *planner.Plan {
		p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: env, Strategy: s, SkipLayout: true})
		require.NoError(t, err)
		return p
	}
}

// TestFormulaIsExact: the peak of random training graphs as a formula is that of a simulation at
// every size of small boxes.
func TestFormulaIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, least := drawTraining(t)
		ranges := map[string]symbolic.Range{}
		for _, s := range m.Symbols() {
			lo := rapid.Int64Range(least, 5).Draw(t, "lo")
			ranges[s] = symbolic.Range{Lo: lo, Hi: lo + rapid.Int64Range(0, 6).Draw(t, "more")}
		}
		box, err := envelope.NewBox(ranges)
		require.NoError(t, err)
		f, err := planner.FormulaOf(t.Context(), m.Model, m.Types, planner.Options{}, box)
		require.NoError(t, err)
		requireExact(t, f, planAt(t, m, nil), false)

		plan := planAt(t, m, planner.Layerwise)(box.High())
		f, err = plan.Formula(t.Context(), box)
		require.NoError(t, err)
		file := &planner.PlanFile{Placements: plan.Placements, Order: plan.Analysis.Order}
		requireExact(t, f, planAt(t, m, file), true)
	})
}

// drawTraining draws a training graph with symbols, and says from which sizes on it has no negative
// dims.
func drawTraining(t *rapid.T) (m *memopt.Model, least int64) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
	var err error
	nodes := rapid.IntRange(5, 60).Draw(t, "nodes")
	if rapid.Bool().Draw(t, "joint") {
		parts := rapid.Bool().Draw(t, "parts")
		if least = 1; parts {
			least, nodes = 4, min(nodes, 30)
		}
		m, err = memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: nodes, Symbolic: true, Parts: parts,
			Width: rapid.SampledFrom([]int64{1, 2, 8, 16}).Draw(t, "width"), Yield: rapid.Bool().Draw(t, "yield"),
			Control: rapid.Bool().Draw(t, "control")}), memopt.Options{})
		require.NoError(t, err)
		return m, least
	}
	m, err = memopt.New(graphtest.Random(rng, graphtest.Options{Nodes: nodes, Symbolic: true,
		Width: rapid.SampledFrom([]int64{1, 2, 8, 16}).Draw(t, "width")}), memopt.Options{})
	require.NoError(t, err)
	kind := rapid.SampledFrom([]string{"", "sgd", "adam"}).Draw(t, "optimizer")
	var update *autograd.Optimizer
	if kind != "" {
		update = &autograd.Optimizer{Kind: kind}
	}
	o := autograd.Options{}
	for _, d := range m.Graph.Outputs {
		if d.Type.DType.IsFloat() {
			o.Losses = append(o.Losses, autograd.Loss{Name: m.Graph.Values[d.Value].Name, Seed: true})
		}
	}
	if update == nil {
		o.Wrt = []string{"tokens"}
	}
	step, _, err := m.Differentiate(o, update)
	var none *autograd.NoRule
	if errors.As(err, &none) || update != nil && err != nil { // no parameters
		t.Skip(fmt.Sprint("no training step: ", err))
	}
	require.NoError(t, err)
	return step, 1
}

// formulaOf is the peak of a graph as a formula over n from 1 to 8, which holds at every size.
func formulaOf(t *testing.T, text string) *planner.Formula {
	g, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "step.onnx")
	require.NoError(t, err)
	m, err := memopt.New(g, memopt.Options{})
	require.NoError(t, err)
	box := envelope.Box{{Symbol: "n", Lo: 1, Hi: 8}}
	f, err := planner.FormulaOf(t.Context(), m.Model, m.Types, planner.Options{}, box)
	require.NoError(t, err)
	requireExact(t, f, planAt(t, m, nil), false)
	return f
}

// TestFormulaInPlace: the Add writes over an input where n is 1, which is a part of its own.
func TestFormulaInPlace(t *testing.T) {
	f := formulaOf(t, `step (float[64] w, float[n, 64] x) => (float loss, float[n, 64] g) {
		a = Relu(w)  b = Add(a, x)  loss = ReduceMean<keepdims = 0>(b)  g = Mul(b, x) }`)
	require.Len(t, f.Pieces, 2)
	require.Equal(t, "n=1", f.Pieces[0].Box.String())
	require.Equal(t, "256*n + 256", f.Pieces[1].Peaks[0].Bytes.String())
}

// TestFormulaParts: halves of a row lie in it where there is one row; of several rows they are copies.
func TestFormulaParts(t *testing.T) {
	f := formulaOf(t, `step (float[n, 64] x) => (float loss, float[n, 32] g) {
		a = Relu(x)  l, r = Split<axis = 1>(a)  b = Mul(l, r)  loss = ReduceMean<keepdims = 0>(b)
		g = Mul(b, l) }`)
	require.Len(t, f.Pieces, 2)
	require.Equal(t, "n=1", f.Pieces[0].Box.String())
}

// TestFormulaFailures: where row 3 is missing, the Gather behind the update fails, so that the next
// weights must not be written over those that are.
func TestFormulaFailures(t *testing.T) {
	f := formulaOf(t, `step (float[n, 64] x, float[64, 64] w) => (float loss, float[64, 64] w_updated, float[1, 64] g)
		<int64[1] row = {3}> {
		y = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(y)  d = Transpose(x)  dw = MatMul(d, y)
		w_updated = Sub(w, dw)  q = Exp(w_updated)  z = MatMul(x, q)  g = Gather(z, row) }`)
	require.Len(t, f.Pieces, 2)
	require.Equal(t, int64(3), f.Pieces[0].Box[0].Hi)
}

// requireBounded holds a formula over n to plans at every size: exact pieces are the peak, the others
// at least the peak. It returns how many pieces are bounds.
func requireBounded(t require.TestingT, f *planner.Formula, simulate func(symbolic.Env) *planner.Plan) (bounds int) {
	eachPoint(f.Box, func(env symbolic.Env) {
		bytes, _, err := f.Peak(env)
		require.NoError(t, err)
		want := simulate(env).Base.Peak.Bytes
		if f.Piece(env).Bound {
			require.GreaterOrEqual(t, bytes, want, "%v", env)
		} else {
			require.Equal(t, want, bytes, "%v", env)
		}
	})
	for _, p := range f.Pieces {
		if p.Bound {
			bounds++
		}
	}
	return bounds
}

// TestFormulaBound: parts that begin at another byte at every size, of which some are aligned, have no
// formula where they matter at the peak, and a bound there.
func TestFormulaBound(t *testing.T) {
	for text, want := range map[string]bool{
		// The two halves are the peak together with the value that they are joined to.
		`step (float[n, 12] x, float[8, 12] y) => (float loss, float[k, 12] g) {
			a = Relu(x)  b = Exp(y)  c = Concat<axis = 0>(a, b)  loss = ReduceMean<keepdims = 0>(c)  g = Mul(c, c) }`: true,
		// All that is joined is small beside later values.
		`step (float[n, 12] x, float[8, 12] y, float[64, 64] w) => (float loss, float[64, 64] g) {
			a = Relu(x)  b = Exp(y)  c = Concat<axis = 0>(a, b)  s = ReduceMean<keepdims = 0>(c)
			u = Exp(w)  v = Mul(u, w)  q = Add(v, s)  z = MatMul(q, u)  loss = ReduceMean<keepdims = 0>(z)
			g = Mul(z, v) }`: false,
	} {
		g, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "step.onnx")
		require.NoError(t, err)
		m, err := memopt.New(g, memopt.Options{})
		require.NoError(t, err)
		ranges := map[string]symbolic.Range{}
		for _, s := range m.Symbols() {
			ranges[s] = symbolic.Range{Lo: 1, Hi: 40}
		}
		box, err := envelope.NewBox(ranges)
		require.NoError(t, err)
		f, err := planner.FormulaOf(t.Context(), m.Model, m.Types, planner.Options{}, box)
		require.NoError(t, err)
		require.Equal(t, want, requireBounded(t, f, planAt(t, m, nil)) > 0, "%v", f.Pieces)
		require.Equal(t, !want, f.Exact())
	}
}

// TestLevelBelowBaseline: a level never peaks above the graph as it is, whose formula is exact.
func TestLevelBelowBaseline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, least := drawTraining(t)
		ranges := map[string]symbolic.Range{}
		for _, s := range m.Symbols() {
			ranges[s] = symbolic.Range{Lo: least, Hi: least + 1}
		}
		box, err := envelope.NewBox(ranges)
		require.NoError(t, err)
		f, err := planner.FormulaOf(t.Context(), m.Model, m.Types, planner.Options{}, box)
		require.NoError(t, err)
		env := box.High()
		p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: env, Strategy: planner.Layerwise})
		require.NoError(t, err)
		base, _, err := f.Peak(env)
		require.NoError(t, err)
		require.LessOrEqual(t, p.Planned.Peak.Bytes, base)
	})
}
