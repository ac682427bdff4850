package resident_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner"
)

// earlyText has a running mean that is written in the forward half, before the loss, and a mask of
// infinities of which a softmax makes finite numbers.
const earlyText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[8, 16] x, float[16] mean, float[16] w)
	=> (float loss, float[16] mean_updated, float[16] w_updated)
	<float keep = {0.9}, float take = {0.1}, float[1, 2] mask = {0, -1}, float zero = {0}> {
	[m] m = ReduceMean<axes = [0], keepdims = 0>(x)
	[old] a = Mul(mean, keep)  [new] b = Mul(m, take)  [run] mean_updated = Add(a, b)
	[inf] wall = Div(mask, zero)  [nan] nan = IsNaN(wall)  [wall] hidden = Where(nan, zero, wall)
	[soft] soft = Softmax<axis = 1>(hidden)  [sum] one = ReduceSum<keepdims = 0>(soft)
	[y] y = Mul(x, w)  [z] z = Sub(y, m)  [sq] s = Mul(z, z)  [loss] loss0 = ReduceMean<keepdims = 0>(s)
	[scaled] loss = Mul(loss0, one)
	[g] g = ReduceMean<axes = [0], keepdims = 0>(s)
	[step] d = Mul(g, take)  [upd] w_updated = Sub(w, d)
}`

// states reads all states of a model.
func states(t testing.TB, machine resident.Machine, m *graph.Model,
	in map[string]*executor.Tensor) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	pairs, err := live.Pairs(m)
	require.NoError(t, err)
	for _, p := range pairs {
		all[p.Input] = read(t, machine, p.Input, in[p.Input])
	}
	return all
}

// poisoned returns a copy of a tensor whose element i is x.
func poisoned(from *executor.Tensor, i int, x float32) *executor.Tensor {
	c := &executor.Tensor{DType: from.DType, Shape: from.Shape, Data: bytes.Clone(from.Data)}
	executor.Of[float32](c)[i] = x
	return c
}

// TestNotFinite: where a watched value is not finite, the step ends before it has written any
// state, even one that it would have written before it made the value; the next step goes on from
// there. What the first bad value is, and where it comes from, is found without a change of states.
func TestNotFinite(t *testing.T) {
	m, types := parsed(t, earlyText)
	in := made(t, m, nil)
	side := verify.Side{Model: m, Types: types}
	ctx := context.Background()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, o := range []executor.Options{{}, {OnDemand: true}, {Threads: 1, Guard: true}} {
		machine := started(t, resident.On(cpu.Device{}), o, m, in)
		s, err := machine.Open(ctx, side, watchLoss)
		require.NoError(t, err)
		bad := func(inputs []*executor.Tensor, value, node string) {
			t.Helper()
			before := states(t, machine, m, in)
			err := s.Run(ctx, 0, inputs)
			var e *resident.NotFiniteError
			require.ErrorAs(t, err, &e)
			require.Equal(t, []string{"loss", "scaled"}, []string{e.Value, e.Node})
			require.True(t, math.IsNaN(e.Elem) || math.IsInf(e.Elem, 0))
			require.ErrorContains(t, err, `node "scaled": value "loss" is`)
			require.Equal(t, before, states(t, machine, m, in))
			v, n, err := s.FirstBad(ctx, 0, inputs)
			require.NoError(t, err)
			require.Equal(t, []string{value, node}, []string{v, n})
			require.Equal(t, before, states(t, machine, m, in))
		}
		good := given(s, in)
		require.NoError(t, s.Run(ctx, 0, good))
		after := states(t, machine, m, in)
		v, n, err := s.FirstBad(ctx, 0, good)
		require.NoError(t, err)
		require.Equal(t, []string{"wall", "inf"}, []string{v, n}, "the first, on whatever path")
		require.Equal(t, after, states(t, machine, m, in))
		bad([]*executor.Tensor{poisoned(in["x"], 3, inf)}, "x", resident.OfInput)
		bad([]*executor.Tensor{poisoned(in["x"], 3, 3e38)}, "s", "sq")
		require.NoError(t, s.Run(ctx, 0, good))
		w := read(t, machine, "w", in["w"])
		require.NoError(t, machine.Put("w", poisoned(in["w"], 2, nan)))
		bad(good, "w", resident.OfState)
		back := &executor.Tensor{DType: graph.Float32, Shape: []int{16}, Data: w}
		require.NoError(t, machine.Put("w", back))
		require.NoError(t, s.Run(ctx, 0, good))
		require.Equal(t, s.Predicted().Arena, s.Measured().Arena)
	}
}

// maskText has attention scores, with the infinities of a mask that a softmax turns into zeros, except where it leaves
// no key; these rows are replaced, but their NaNs come back in the value that stands for a gradient.
const maskText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[2, 3] x, bool[2, 3] open, float[3] w) => (float loss, float g, float[3] w_updated) <float zero = {0}> {
	[low] low = Constant<value = float {-1}>()
	[mask] mask = Where(open, zero, low)  [y] y = Mul(x, w)  [e] e = Exp(y)
	[scores] scores = Add(e, mask)  [soft] soft = Softmax(scores)
	[nan] nan = IsNaN(soft)  [clean] clean = Where(nan, zero, soft)  [z] z = Mul(clean, e)
	[loss] loss = ReduceMean<keepdims = 0>(z)
	[back] b = Mul(soft, zero)  [g] g = ReduceSum<keepdims = 0>(b)
	[step] d = Mul(w, loss)  [upd] w_updated = Sub(w, d)
}`

// TestMaskIsMeant: the infinities of a mask are not the origin of values behind them that are not finite, nor are the
// NaNs that the graph replaces: the origin is the node that makes NaNs of them, or the overflow beside them.
func TestMaskIsMeant(t *testing.T) {
	m, types := parsed(t, maskText)
	low := graph.Float32Tensor("", nil, float32(math.Inf(-1)))
	for _, n := range m.Graph.Nodes {
		if n.Name == "low" {
			n.Attr("value").Value = low
		}
	}
	in := made(t, m, nil)
	calm := executor.NewTensor[float32](graph.Float32, []int{2, 3}, 1, 1, 1, 1, 1, 1)
	wild := executor.NewTensor[float32](graph.Float32, []int{2, 3}, 1, 1, 1, 1e3, 1, 1)
	in["w"] = executor.NewTensor[float32](graph.Float32, []int{3}, 1, 1, 1)
	some := &executor.Tensor{DType: graph.Bool, Shape: []int{2, 3}, Data: []byte{1, 0, 1, 1, 0, 1}}
	none := &executor.Tensor{DType: graph.Bool, Shape: []int{2, 3}, Data: []byte{0, 0, 0, 1, 0, 1}}
	for _, c := range []struct {
		x, open     *executor.Tensor
		watch       string
		value, node string
	}{
		{calm, some, "loss", "", ""}, {calm, some, "g", "", ""},
		{calm, none, "g", "soft", "soft"}, {wild, none, "loss", "e", "e"}, {wild, some, "loss", "e", "e"},
	} {
		machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
		s, err := machine.Open(context.Background(), verify.Side{Model: m, Types: types},
			resident.StepOptions{Watch: []string{c.watch}})
		require.NoError(t, err)
		value, node, err := s.FirstBad(context.Background(), 0, []*executor.Tensor{c.x, c.open})
		require.NoError(t, err)
		require.Equal(t, []string{c.value, c.node}, []string{value, node})
	}
}

// loopText has a watched value that could be made in one loop with the next value of a state.
const loopText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[32768] x, float[32768] w) => (float[32768] w_updated) <float rate = {0.1}> {
	a = Mul(x, w)  b = Mul(a, rate)  w_updated = Sub(w, b)
}`

// TestWatchedLoop: a watched value is looked at before the next node writes anything.
func TestWatchedLoop(t *testing.T) {
	m, types := parsed(t, loopText)
	in := made(t, m, nil)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
	s, err := machine.Open(context.Background(), verify.Side{Model: m, Types: types},
		resident.StepOptions{Watch: []string{"a"}})
	require.NoError(t, err)
	before := states(t, machine, m, in)
	bad := poisoned(in["x"], 32767, float32(math.NaN()))
	var e *resident.NotFiniteError
	require.ErrorAs(t, s.Run(context.Background(), 0, []*executor.Tensor{bad}), &e)
	require.Equal(t, 32767, e.Index)
	require.Equal(t, before, states(t, machine, m, in))
	require.NoError(t, s.Run(context.Background(), 0, given(s, in)))
	require.NotEqual(t, before, states(t, machine, m, in))
}

// drawText divides by numbers of which some are drawn to be zeros, and then has an infinity that the
// watched value does not depend on.
const drawText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[2] x, float[2] w) => (float loss, float[2] w_updated, float[2] late)
	<float half = {0.5}, bool on = {1}, float zero = {0}> {
	z = Dropout(x, half, on)  q = Div(w, z)  loss = ReduceMean<keepdims = 0>(q)
	late = Div(x, zero)  w_updated = Add(w, w)
}`

// TestFirstBadDraws: the search draws what the step of the same number draws, and ends at the watched
// value.
func TestFirstBadDraws(t *testing.T) {
	m, types := parsed(t, drawText)
	x := executor.NewTensor[float32](graph.Float32, []int{2}, 1, 2)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m,
		map[string]*executor.Tensor{"w": x})
	s := opened(t, machine, m, types, nil)
	inputs := []*executor.Tensor{x}
	var failed []bool
	for n := range uint64(16) {
		err := s.Run(context.Background(), n, inputs)
		failed = append(failed, err != nil)
		require.NoError(t, machine.Put("w", x))
	}
	require.Contains(t, failed, true)
	require.Contains(t, failed, false)
	for n, bad := range failed {
		value, _, err := s.FirstBad(context.Background(), uint64(n), inputs)
		require.NoError(t, err)
		require.Equal(t, map[bool]string{true: "q", false: "late"}[bad], value, "step %d", n)
	}
}

// initializerText has a state that is an initializer and no input.
const initializerText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[2] x) => (float[2] w_updated) <float[2] w = {1, 2}> { w_updated = Add(w, x) }`

// TestInitializerState: a state that is an initializer lies in the store, too.
func TestInitializerState(t *testing.T) {
	m, types := parsed(t, initializerText)
	x := executor.NewTensor[float32](graph.Float32, []int{2}, 1, 2)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m,
		map[string]*executor.Tensor{"w": executor.NewTensor[float32](graph.Float32, []int{2}, 5, 6)})
	s, err := machine.Open(context.Background(), verify.Side{Model: m, Types: types},
		resident.StepOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Run(context.Background(), 0, []*executor.Tensor{x}))
	require.NoError(t, s.Run(context.Background(), 1, []*executor.Tensor{x}))
	require.Equal(t, []float32{7, 10}, executor.Cast[float32](read(t, machine, "w", x)))
}

// accumulatorText has an operator that adds to one of its inputs.
const accumulatorText = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
net (float[4] sum, float[4] x, bool[1] anew) => (bool[1] done, float loss) {
	loss = ReduceMean<keepdims = 0>(x)  done = com.microsoft.InPlaceAccumulatorV2(sum, x, anew)
}`

// TestFirstBadUpdatesNothing: the search ends before a node that writes to one of its inputs.
func TestFirstBadUpdatesNothing(t *testing.T) {
	m, types := parsed(t, accumulatorText)
	in := made(t, m, nil)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
	require.NoError(t, machine.Put("sum", in["sum"]))
	anew := &executor.Tensor{DType: graph.Bool, Shape: []int{1}, Data: []byte{0}}
	s := opened(t, machine, m, types, nil)
	require.Equal(t, []string{"x", "anew"}, s.Inputs())
	x := executor.NewTensor[float32](graph.Float32, []int{4}, 1, 2, 3, 4)
	inputs := []*executor.Tensor{x, anew}
	require.NoError(t, s.Run(context.Background(), 0, inputs))
	before := read(t, machine, "sum", in["sum"])
	require.Equal(t, x.Data, before)
	_, _, err := s.FirstBad(context.Background(), 0, inputs)
	require.NoError(t, err)
	require.Equal(t, before, read(t, machine, "sum", in["sum"]))
}

// TestConstantThatIsNotFinite: a constant of the model is named as such.
func TestConstantThatIsNotFinite(t *testing.T) {
	text := strings.Replace(earlyText, "keep = {0.9}", "keep = {0.9}, float big = {3e38}", 1)
	m, types := parsed(t, strings.Replace(text, "Mul(loss0, one)", "Mul(loss0, big)", 1))
	v, _ := m.Graph.Lookup("big")
	minus := graph.Float32Tensor("big", nil, float32(math.Inf(-1)))
	m.Graph.Values[v].Data = minus
	in := made(t, m, nil)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
	s, err := machine.Open(context.Background(), verify.Side{Model: m, Types: types}, watchLoss)
	require.NoError(t, err)
	name, node, err := s.FirstBad(context.Background(), 0, given(s, in))
	require.NoError(t, err)
	require.Equal(t, []string{"big", resident.OfModel}, []string{name, node})
}

// TestNotFiniteKinds: elements of every type of floats, and integers, which are always finite.
func TestNotFiniteKinds(t *testing.T) {
	for d, bad := range map[graph.DType][3][]byte{ // NaN, infinity, minus infinity
		graph.Float32: {{0, 0, 0xc0, 0x7f}, {0, 0, 0x80, 0x7f}, {0, 0, 0x80, 0xff}},
		graph.Float64: {{1, 0, 0, 0, 0, 0, 0xf0, 0x7f}, {0, 0, 0, 0, 0, 0, 0xf0, 0x7f},
			{0, 0, 0, 0, 0, 0, 0xf0, 0xff}},
		graph.Float16:  {{1, 0x7c}, {0, 0x7c}, {0, 0xfc}},
		graph.BFloat16: {{0xc0, 0x7f}, {0x80, 0x7f}, {0x80, 0xff}},
	} {
		n := len(bad[0])
		for k, bits := range bad {
			x := &executor.Tensor{DType: d, Shape: []int{5}, Data: make([]byte, 5*n)}
			for i := range x.Data { // the largest finite numbers' exponents, and signs
				x.Data[i] = 0x7b
			}
			i, _ := executor.NotFinite(x)
			require.Equal(t, -1, i, d)
			copy(x.Data[3*n:], bits)
			i, e := executor.NotFinite(x)
			require.Equal(t, 3, i, d)
			require.Equal(t, k == 0, math.IsNaN(e), d)
			require.Equal(t, k == 1, math.IsInf(e, 1), d)
			require.Equal(t, k == 2, math.IsInf(e, -1), d)
		}
	}
	ones := []byte{0xff, 0xff, 0xff, 0xff}
	i, _ := executor.NotFinite(&executor.Tensor{DType: graph.Int32, Shape: []int{1}, Data: ones})
	require.Equal(t, -1, i)
}

// TestPlansKnowWhatIsWatched: where values are recorded as watched, a state that would be written
// before them is copied or put off, the plan's arena is what the step measures, with and without
// recomputation, and a step that ends early has written no state.
func TestPlansKnowWhatIsWatched(t *testing.T) {
	early, types := parsed(t, earlyText)
	require.Empty(t, copied(t, early, types))
	op.RecordWatch(early, []string{"loss"})
	require.Len(t, copied(t, early, types), 1)
	planned(t, early, nil)
	m, _ := trainingStep(t, netText, adamw)
	op.RecordWatch(m, []string{"loss"})
	for _, s := range []memopt.Strategy{nil, memopt.Level(planner.Layerwise),
		memopt.Budget{Share: 0.8}} {
		planned(t, m, s)
	}
}

// planned plans a model, executes the rewritten step, and then lets it fail.
func planned(t *testing.T, m *graph.Model, s memopt.Strategy) {
	t.Helper()
	ctx := context.Background()
	model, err := memopt.New(m.Clone(), memopt.Options{Dims: map[string]int64{"B": 64}})
	require.NoError(t, err)
	p, err := model.Plan(ctx, s, memopt.PlanOptions{Device: cpu.Device{}})
	require.NoError(t, err)
	r, err := p.Rewrite(memopt.RewriteOptions{})
	require.NoError(t, err)
	names, err := op.RecordedWatched(r.Model)
	require.NoError(t, err)
	require.Equal(t, []string{"loss"}, names, "a rewrite keeps the record")
	x, err := r.Execution()
	require.NoError(t, err)
	in := made(t, r.Model, model.Dims)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, r.Model, in)
	step, err := machine.Open(ctx, x.Planned, watchLoss)
	require.NoError(t, err)
	require.NoError(t, step.Run(ctx, 0, given(step, in)))
	before := states(t, machine, r.Model, in)
	inputs := given(step, in)
	inputs[0] = poisoned(in["x"], 0, 3e38)
	var e *resident.NotFiniteError
	require.ErrorAs(t, step.Run(ctx, 1, inputs), &e)
	require.Equal(t, before, states(t, machine, r.Model, in))
	require.Equal(t, p.Arena.Bytes, step.Measured().Arena, "%v", s)
}

// copied lists the states that a step copies in the file's order.
func copied(t *testing.T, m *graph.Model, types *op.Result) []live.State {
	t.Helper()
	order := graph.FileOrder(m.Graph)
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	sizes.States, err = live.FindStates(m)
	require.NoError(t, err)
	sizes.Failures, err = op.FailuresOf(m, types, order, nil)
	require.NoError(t, err)
	tl, err := live.Simulate(m.Graph, order, sizes)
	require.NoError(t, err)
	return tl.Copied
}

// breaking is a CPU on which a node fails when it is told to.
type breaking struct {
	cpu.Device
	node string
	now  *bool
}

var errBroken = errors.New("broken")

func (d breaking) Kernel(p *executor.Prep) (executor.Kernel, error) {
	k, err := d.Device.Kernel(p)
	if p.Label != d.node || err != nil {
		return k, err
	}
	return breakingKernel{k, d.now}, nil
}

type breakingKernel struct {
	executor.Kernel
	now *bool
}

func (k breakingKernel) Run(c *executor.Ctx) error {
	if *k.now {
		return errBroken
	}
	return k.Kernel.Run(c)
}

// TestTorn: a step that fails, not by data, after it has begun to write states tears those of the
// machine: no step of it runs until all of them are put again.
func TestTorn(t *testing.T) {
	m, types := parsed(t, earlyText)
	in := made(t, m, nil)
	side := verify.Side{Model: m, Types: types}
	ctx := context.Background()
	now := true
	machine := started(t, resident.On(breaking{node: "upd", now: &now}), executor.Options{}, m, in)
	s, err := machine.Open(ctx, side, resident.StepOptions{})
	require.NoError(t, err)
	other, err := machine.Open(ctx, side, resident.StepOptions{})
	require.NoError(t, err)
	var torn *executor.TornError
	require.ErrorAs(t, s.Run(ctx, 0, given(s, in)), &torn)
	require.ErrorIs(t, torn, errBroken)
	now = false
	require.ErrorAs(t, s.Run(ctx, 0, given(s, in)), &torn)
	require.ErrorAs(t, other.Run(ctx, 0, given(other, in)), &torn)
	require.NoError(t, machine.Put("w", in["w"]))
	require.NoError(t, machine.Put("w", in["w"]))
	require.ErrorAs(t, other.Run(ctx, 0, given(other, in)), &torn, "one state is not set yet")
	require.NoError(t, machine.Put("mean", in["mean"]))
	want := byHand(t, m, types, nil, in, 0)
	require.NoError(t, other.Run(ctx, 0, given(other, in)))
	require.Equal(t, want["mean_updated"].Data, read(t, machine, "mean", in["mean"]))
	require.Equal(t, want["w_updated"].Data, read(t, machine, "w", in["w"]))
}
