package executor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/null"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// partsText cuts an input, a state, and what nodes make, and joins parts that are written in place,
// seen under another shape, left out, given twice, and too short to be aligned. Some parts are
// outputs.
const partsText = `<ir_version: 8, opset_import: ["" : 17]>
parts (float[4, 64] x, float[8, 64] w, float[4, 32] short, float[2, 64] last) =>
	(float[4, 64] y, float[8, 64] w2, float[2, 64] head, float[2, 64] old,
	float[20, 32] z, float[3, 2, 64] stacked, float[8, 64] both,
	float[2, 64] last2, float[1, 64] inner)
	<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] nine = {99},
		int64[2] uneven = {1, 3}, int64[2] quarters = {3, 5}, int64[2] rows = {12, 32}, int64[2] thirds = {4, 8}> {
	a, b = Split<axis = 0>(x)
	head = Slice(x, zero, two, zero)
	old = Slice(w, two, four)
	c = Slice(w, four, nine, zero)
	c2 = Slice(c, two, nine, zero)
	more = Add(c2, last)
	last2 = Slice(x, two, nine, zero)
	inner = Slice(more, one, nine, zero)
	d = Mul(x, c)
	e, f = Split<axis = 0>(d, uneven)
	g = Relu(f)
	h = Neg(e)
	y = Concat<axis = 0>(g, h)
	s, p = Split<axis = 0>(w, quarters)
	t = Tanh(p)
	u = Sigmoid(s)
	k = Neg(u)
	whole = Concat<axis = 0>(k, t)
	w2 = Sub(w, whole)
	i = Exp(a)
	j = Unsqueeze(i, zero)
	n = Neg(b)
	l = Unsqueeze(n, zero)
	stacked = Concat<axis = -3>(j, l, j)
	flat = Reshape(stacked, rows)
	o, q = Split<axis = 0>(flat, thirds)
	r = Exp(q)
	z = Concat<axis = 0>(r, short, o, o)
	both = Concat<axis = 0>(y, y)
}`

// modes are ways to run a graph that must give the same bits.
var modes = []executor.Options{{Threads: 1, NoFusion: true}, {Threads: 3}, {Guard: true}, {OnDemand: true},
	{OnDemand: true, Guard: true, Strategy: executor.SameAsRequested}}

// Steps with parts that share bytes make the bits of the plain interpreter, step after step, in the
// memory that was planned, which is less than copies take.
func TestParts(t *testing.T) {
	m, err := graph.Parse(partsText, "parts")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	in := firstInputs(t, m)
	live.RecordStates(m, []live.StatePair{{Input: "w", Output: "w2"},
		{Input: "last", Output: "last2"}})
	want := interpreted(t, m, firstInputs(t, m), 3)
	for _, o := range modes {
		s := opened(t, m, types, o)
		give(t, s, in)
		for k := range want {
			require.NoError(t, s.Run(context.Background()), "%+v", o)
			for i, d := range m.Graph.Outputs {
				require.Equal(t, want[k][i].Data, s.Output(i).Data, "%+v: step %d, output %q", o, k,
					m.Graph.ValueName(d.Value))
			}
		}
		if !o.Guard || !o.OnDemand {
			require.Equal(t, s.Prediction().Arena, s.Measured().Arena, "%+v", o)
		}
		require.Equal(t, s.Prediction().Live, s.Measured().Live, "%+v", o)
		require.Zero(t, s.Measured().Dynamic, "%+v", o)
	}
	s, err := executor.Open(context.Background(), m, types, null.Device{}, executor.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
	require.Equal(t, s.Prediction().Live, s.Measured().Live)

	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	sizes.States, err = live.FindStates(m)
	require.NoError(t, err)
	order, err := graph.Topological(m.Graph)
	require.NoError(t, err)
	shared, err := live.Simulate(m.Graph, order, sizes)
	require.NoError(t, err)
	require.Equal(t, s.Prediction().Live, shared.Peak.Bytes)
	sizes.Slices = nil
	copied, err := live.Simulate(m.Graph, order, sizes)
	require.NoError(t, err)
	require.Less(t, shared.Peak.Bytes, copied.Peak.Bytes)
}

// interpreted executes steps of a model by the plain interpreter, each with the states that the one
// before has left.
func interpreted(t *testing.T, m *graph.Model, in map[string]*executor.Tensor, steps int) (all [][]*executor.Tensor) {
	pairs, err := live.Pairs(m)
	require.NoError(t, err)
	for range steps {
		out, err := kerneltest.Interpret(cpu.Device{}, m, in)
		require.NoError(t, err)
		all = append(all, out)
		for i, d := range m.Graph.Outputs {
			for _, p := range pairs {
				if p.Output == m.Graph.ValueName(d.Value) {
					in[p.Input] = out[i]
				}
			}
		}
	}
	return all
}

// A view of a part of a state does not begin to write it: a step that is stopped there leaves the
// state as it was.
func TestPartOfStateIsNoWrite(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[2, 64] w) => (float[2, 64] w2)
		<int64[1] zero = {0}, int64[1] one = {1}> {
			c = Slice(w, zero, one, zero)
			d = Neg(c)
			e = Concat<axis = 0>(d, d)
			w2 = Add(w, e)
		}`, "m")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	live.RecordStates(m, []live.StatePair{{Input: "w", Output: "w2"}})
	in := firstInputs(t, m)
	want := interpreted(t, m, firstInputs(t, m), 2)
	stopped, stop := context.WithCancel(context.Background())
	defer stop()
	armed := false
	s := opened(t, m, types, executor.Options{Probe: func(graph.ValueID, *executor.Tensor) {
		if armed {
			stop()
		}
	}})
	give(t, s, in)
	require.NoError(t, s.Run(context.Background()))
	armed = true
	require.Equal(t, context.Canceled, s.Run(stopped), "after the first node")
	require.Equal(t, context.Canceled, s.Run(stopped), "before the first node")
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, want[1][0].Data, s.Output(0).Data)
}
