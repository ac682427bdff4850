package cuda_test

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/test/double"
)

// evalModel reads a state of stepModel and updates its count, so that the host has a part in it.
const evalModel = `<ir_version: 8, opset_import: ["" : 17]>
eval (float[8, 64] x, float[64, 64] w, int64 count) => (float loss, int64 count_updated)
<int64 one = {1}> {
	y = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(y)  count_updated = Add(count, one)
}`

// residentStates are the states of stepModel.
var residentStates = []string{"w", "m", "count", "a", "b"}

// TestResident: steps that share states in a device's memory make what they make on the host, where
// they take turns as well as where the device replays them, which it goes on doing when another
// step ran in between.
func TestResident(t *testing.T) {
	ctx := context.Background()
	stepM, stepTypes := parsed(t, stepModel)
	evalM, evalTypes := parsed(t, evalModel)
	in := made(t, stepM, nil)
	sides := []verify.Side{{Model: stepM, Types: stepTypes}, {Model: evalM, Types: evalTypes}}
	order := []int{0, 1, 0, 0, 1, 1, 0, 1, 0, 0}
	run := func(d executor.Device, o executor.Options) (losses []*executor.Tensor,
		states map[string]*executor.Tensor) {
		m, err := resident.On(d).Start(ctx, o)
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		for _, name := range residentStates {
			require.NoError(t, m.Put(name, in[name]))
		}
		var steps []resident.Step
		for i, side := range sides {
			opts := resident.StepOptions{}
			if i == 1 {
				opts = resident.StepOptions{Fetch: []string{"loss"}, Watch: []string{"loss"}}
			}
			s, err := m.Open(ctx, side, opts)
			require.NoError(t, err)
			require.Equal(t, []string{"x"}, s.Inputs())
			steps = append(steps, s)
		}
		for k, i := range order {
			require.NoError(t, steps[i].Run(ctx, uint64(k), []*executor.Tensor{in["x"]}))
			if i == 1 {
				x := steps[i].Output(0)
				losses = append(losses, &executor.Tensor{DType: x.DType, Data: bytes.Clone(x.Data)})
			}
			if !o.OnDemand {
				require.Equal(t, steps[i].Predicted().Arena, steps[i].Measured().Arena)
			}
		}
		states = map[string]*executor.Tensor{}
		for _, name := range residentStates {
			x := &executor.Tensor{DType: in[name].DType, Shape: in[name].Shape,
				Data: make([]byte, len(in[name].Data))}
			require.NoError(t, m.Read(name, x.Data))
			states[name] = x
		}
		return losses, states
	}
	wantLosses, want := run(cpu.Device{}, executor.Options{})
	for _, o := range []executor.Options{{}, {Capture: true}, {OnDemand: true}, {NoFusion: true}} {
		for _, lazy := range []bool{false, true} {
			d, dbl := opened(t, double.Options{Lazy: lazy})
			losses, states := run(d, o)
			for i, w := range wantLosses {
				diff, _ := verify.Compare("loss", losses[i], w, verify.DefaultTolerance)
				require.Nil(t, diff, "%+v", o)
			}
			for name, w := range want {
				diff, _ := verify.Compare(name, states[name], w, verify.DefaultTolerance)
				require.Nil(t, diff, "%+v", o)
			}
			if o.Capture {
				require.Equal(t, len(order)-len(sides), dbl.Counts().Replays, "all but the first of each")
			}
		}
	}
}

// TestResidentSyncs: a step whose loss is fetched and watched waits for the device once.
func TestResidentSyncs(t *testing.T) {
	ctx := context.Background()
	m, types := parsed(t, evalModel)
	in := made(t, m, nil)
	d, dbl := opened(t, double.Options{})
	machine, err := resident.On(d).Start(ctx, executor.Options{})
	require.NoError(t, err)
	defer machine.Close()
	require.NoError(t, machine.Put("w", in["w"]))
	require.NoError(t, machine.Put("count", in["count"]))
	s, err := machine.Open(ctx, verify.Side{Model: m, Types: types},
		resident.StepOptions{Fetch: []string{"loss"}, Watch: []string{"loss"}})
	require.NoError(t, err)
	inputs := []*executor.Tensor{in["x"]}
	require.NoError(t, s.Run(ctx, 0, inputs))
	before := dbl.Counts()
	require.NoError(t, s.Run(ctx, 1, inputs))
	s.Output(0)
	after := dbl.Counts()
	require.Equal(t, 1, after.Syncs-before.Syncs)
	require.LessOrEqual(t, after.CopiesOut-before.CopiesOut, 1, "the loss")
}

// TestResidentNotFinite: a device looks at watched values when the step is done, and finds where
// one that is not finite came from, in the arena that the step has, without a change of states.
func TestResidentNotFinite(t *testing.T) {
	ctx := context.Background()
	m, types := parsed(t, evalModel)
	for _, o := range []executor.Options{{}, {Capture: true}} {
		in := made(t, m, nil)
		d, _ := opened(t, double.Options{})
		machine, err := resident.On(d).Start(ctx, o)
		require.NoError(t, err)
		require.NoError(t, machine.Put("w", in["w"]))
		require.NoError(t, machine.Put("count", in["count"]))
		side := verify.Side{Model: m, Types: types}
		_, err = machine.Open(ctx, side, resident.StepOptions{Watch: []string{"y"}})
		require.ErrorContains(t, err, `output "y": the graph has no such output; on device`)
		s, err := machine.Open(ctx, side,
			resident.StepOptions{Fetch: []string{"loss"}, Watch: []string{"loss"}})
		require.NoError(t, err)
		good := []*executor.Tensor{in["x"]}
		require.NoError(t, s.Run(ctx, 0, good))
		require.NoError(t, s.Run(ctx, 0, good))
		bad := &executor.Tensor{DType: graph.Float32, Shape: in["x"].Shape,
			Data: bytes.Clone(in["x"].Data)}
		executor.Of[float32](bad)[3] = float32(math.Inf(1))
		var e *resident.NotFiniteError
		require.ErrorAs(t, s.Run(ctx, 1, []*executor.Tensor{bad}), &e)
		require.Equal(t, "loss", e.Value)
		value, node, err := s.FirstBad(ctx, 1, []*executor.Tensor{bad})
		require.NoError(t, err)
		require.Equal(t, []string{"x", resident.OfInput}, []string{value, node})
		executor.Of[float32](bad)[3] = 3e38
		for i := range executor.Of[float32](in["w"]) {
			executor.Of[float32](in["w"])[i] = 2
		}
		require.NoError(t, machine.Put("w", in["w"]))
		value, node, err = s.FirstBad(ctx, 1, []*executor.Tensor{bad})
		require.NoError(t, err)
		v, _ := m.Graph.Lookup("y")
		require.Equal(t, []string{"y", m.Graph.NodeLabel(m.Graph.Values[v].Def)}, []string{value, node})
		count := make([]byte, 8)
		require.NoError(t, machine.Read("count", count))
		require.EqualValues(t, executor.Of[int64](in["count"])[0]+3, executor.Cast[int64](count)[0])
		require.NoError(t, s.Run(ctx, 2, good))
		executor.Of[float32](in["w"])[9] = float32(math.NaN())
		require.NoError(t, machine.Put("w", in["w"]))
		value, node, err = s.FirstBad(ctx, 1, good)
		require.NoError(t, err)
		require.Equal(t, []string{"w", resident.OfState}, []string{value, node})
		require.NoError(t, machine.Close())
	}
}

// TestResidentMemory: states are taken from the device once, however many steps share them.
func TestResidentMemory(t *testing.T) {
	ctx := context.Background()
	m, types := parsed(t, stepModel)
	in := made(t, m, nil)
	d, dbl := opened(t, double.Options{})
	machine, err := resident.On(d).Start(ctx, executor.Options{})
	require.NoError(t, err)
	for _, name := range residentStates {
		require.NoError(t, machine.Zero(name, in[name].DType, in[name].Shape))
	}
	states, err := live.FindStates(m)
	require.NoError(t, err)
	require.Len(t, states, len(residentStates))
	side := verify.Side{Model: m, Types: types}
	var live []int64
	for range 3 {
		s, err := machine.Open(ctx, side, resident.StepOptions{})
		require.NoError(t, err)
		require.NoError(t, s.Run(ctx, 0, []*executor.Tensor{in["x"]}))
		live = append(live, dbl.Counts().Live)
	}
	require.Less(t, live[2]-live[1], machine.StateBytes())
	require.Equal(t, live[2]-live[1], live[1]-live[0])
	require.NoError(t, machine.Close())
}

// growModel changes a state that padModel only reads, and that its kernel reads on the host.
const (
	growModel = `<ir_version: 8, opset_import: ["" : 17]>
		grow (float p) => (float p_updated) { p_updated = Add(p, p) }`
	padModel = `<ir_version: 8, opset_import: ["" : 17]>
		pad (float[2] x, float p) => (float[4] y) <int64[2] pads = {1, 1}> { y = Pad(x, pads, p) }`
)

// TestResidentHostReads: what the host reads of a state is what another step has made of it, and
// not a copy that it had before.
func TestResidentHostReads(t *testing.T) {
	ctx := context.Background()
	grow, growTypes := parsed(t, growModel)
	pad, padTypes := parsed(t, padModel)
	x := executor.NewTensor[float32](graph.Float32, []int{2}, 7, 8)
	for _, o := range []executor.Options{{}, {Capture: true}} {
		d, _ := opened(t, double.Options{})
		m, err := resident.On(d).Start(ctx, o)
		require.NoError(t, err)
		require.NoError(t, m.Put("p", executor.NewTensor[float32](graph.Float32, nil, 1)))
		a, err := m.Open(ctx, verify.Side{Model: grow, Types: growTypes}, resident.StepOptions{})
		require.NoError(t, err)
		b, err := m.Open(ctx, verify.Side{Model: pad, Types: padTypes},
			resident.StepOptions{Fetch: []string{"y"}})
		require.NoError(t, err)
		for k, p := range []float32{2, 4, 8, 16} {
			require.NoError(t, a.Run(ctx, uint64(k), nil))
			require.NoError(t, b.Run(ctx, uint64(k), []*executor.Tensor{x}))
			require.Equal(t, []float32{p, 7, 8, p}, executor.Of[float32](b.Output(0)))
		}
		require.NoError(t, m.Close())
	}
}
