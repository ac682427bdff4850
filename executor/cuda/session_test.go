package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

func parsed(t testing.TB, text string) (*graph.Model, *op.Result) {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	return m, types
}

// made makes up data for all inputs of a model.
func made(t testing.TB, m *graph.Model, env symbolic.Env) map[string]*executor.Tensor {
	t.Helper()
	return madeOf(t, m, env, 1)
}

// madeOf makes up data, different for every seed.
func madeOf(t require.TestingT, m *graph.Model, env symbolic.Env, seed uint64) map[string]*executor.Tensor {
	f := dataset.NewFiller(m.Graph, env, seed)
	inputs := map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		x, err := f.Fill(d.Value)
		require.NoError(t, err)
		inputs[m.Graph.Values[d.Value].Name] = x
	}
	return inputs
}

func float32s(shape []int, v ...float32) *executor.Tensor {
	return executor.NewTensor(graph.Float32, shape, v...)
}

// setups are ways to run a graph on a device.
var setups = []struct {
	session executor.Options
	double  double.Options
}{
	{executor.Options{Guard: true}, double.Options{}},
	{executor.Options{}, double.Options{Lazy: true, NoLibrary: true}},
	{executor.Options{OnDemand: true}, double.Options{Lazy: true}},
	{executor.Options{OnDemand: true, Strategy: executor.SameAsRequested}, double.Options{}},
}

// sameAsCPU runs a model on the CPU and in every setup on the device; outputs must be close and
// memory as predicted.
func sameAsCPU(t *testing.T, m *graph.Model, types *op.Result, env symbolic.Env) {
	t.Helper()
	side, inputs := verify.Side{Model: m, Types: types, Dims: env}, made(t, m, env)
	want, err := verify.Execute(context.Background(), side, inputs,
		verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 2})
	require.NoError(t, err)
	for _, s := range setups {
		d := device(t, s.double)
		dbl, _ := d.Driver().(*double.Double)
		got, err := verify.Execute(context.Background(), side, inputs,
			verify.Options{Engine: verify.On(d), Session: s.session, Repeat: 2})
		require.NoError(t, err, "%+v", s)
		require.Equal(t, got.Predicted.Arena, got.Measured.Arena, "%+v", s)
		require.Equal(t, got.Predicted.Live, got.Measured.Live, "%+v", s)
		if dbl != nil { // a driver takes some memory for itself
			require.Equal(t, got.Arena.Reserved+got.Weights.Reserved, got.DeviceGrowth,
				"every byte of the device is accounted for")
			require.Zero(t, dbl.Counts().Live, "all memory is given back")
			require.Positive(t, dbl.Counts().Launches)
		}
		for i, w := range want.Outputs {
			diff, _ := verify.Compare(w.Name, got.Outputs[i].Tensor, w.Tensor, verify.DefaultTolerance)
			require.Nil(t, diff, "%+v", s)
		}
	}
}

// TestRandomGraphs: sessions on the device compute what those on the CPU do.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := graphtest.Training(rand.New(rand.NewPCG(seed, 1)),
				graphtest.Options{Nodes: 40, Symbolic: true, Yield: seed%2 == 0, Layers: seed%3 == 0})
			types, err := op.Infer(m)
			require.NoError(t, err)
			sameAsCPU(t, m, types, symbolic.Env{"N": 3})
		})
	}
}

// TestRandomParts: parts that share bytes do so on the device, too, whether the device or the host
// makes them.
func TestRandomParts(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := graphtest.Training(rand.New(rand.NewPCG(seed, 1)),
				graphtest.Options{Nodes: 40, Parts: true, Rows: 12, Width: 32, Yield: seed%2 == 0})
			types, err := op.Infer(m)
			require.NoError(t, err)
			sameAsCPU(t, m, types, nil)
		})
	}
}

// TestParts: views of parts of inputs, weights and states, and a part that the host draws for a
// buffer of the device.
func TestParts(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[4, 64] x, float[8, 64] w, float[16, 3, 3] squares) =>
			(float[4, 64] y, float[2, 64] head, float[8, 64] w2, float[32] dets, float[9, 64] z)
		<int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[1] nine = {99}, int64[2] uneven = {1, 3}> {
			a, b = Split<axis = 0>(x)
			head = Slice(x, zero, two, zero)
			old = Slice(w, two, four)
			c = Slice(w, four, nine, zero)
			d = Mul(x, c)
			e, f = Split<axis = 0>(d, uneven)
			g = Relu(f)
			h = Neg(e)
			y = Concat<axis = 0>(g, h)
			p, q = Split<axis = 0>(w)
			t = Tanh(p)
			u = Sigmoid(q)
			k = Neg(u)
			whole = Concat<axis = 0>(k, t)
			w2 = Sub(w, whole)
			m = Det(squares)
			n = Exp(m)
			dets = Concat<axis = 0>(m, n)
			r = Neg(old)
			v = Add(b, a)
			drawn = RandomNormalLike<seed = 1.0>(b)
			z = Concat<axis = 0>(r, v, drawn, g)
		}`)
	live.RecordStates(m, []live.StatePair{{Input: "w", Output: "w2"}})
	sameAsCPU(t, m, types, nil)
}

const shapesModel = `<ir_version: 8, opset_import: ["" : 17]>
shapes (float[N, 6] x, int64[2] given) => (float[N, 3, 2] y, int64[3] wanted, float[2, M] z)
<int64[1] zero = {0}, int64[2] rest = {3, 2}, int64[1] axes = {0}> {
	s = Shape(x)
	n = Gather(s, zero)
	wanted = Concat<axis = 0>(n, rest)
	h = Exp(x)
	y = Reshape(h, wanted)
	r = Reshape(h, given)
	z = Neg(r)
}`

// TestShapesOnHost: shapes are computed on the host, and nothing is copied for them.
func TestShapesOnHost(t *testing.T) {
	m, types := parsed(t, shapesModel)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{Dims: symbolic.Env{"N": 2, "M": 6}})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetInput("x", float32s([]int{2, 6}, make([]float32, 12)...)))
	require.NoError(t, s.SetInput("given", executor.NewTensor[int64](graph.Int64, []int{2}, 2, -1)))
	for range 2 {
		require.NoError(t, s.Run(context.Background()))
	}
	var why []string
	for _, n := range s.HostNodes() {
		why = append(why, n.Label+": "+n.Why)
	}
	require.Len(t, why, 3, "Shape, Gather and Concat")
	require.Zero(t, s.Measured().Copies)
	require.Equal(t, []int{2, 3, 2}, s.Output(0).Shape)
	require.Equal(t, float32(1), executor.Of[float32](s.Output(0))[11])
	require.Equal(t, []int64{2, 3, 2}, executor.Of[int64](s.Output(1)))
	require.Equal(t, []int{2, 6}, s.Output(2).Shape)
}

// TestFallback: a node without a kernel, here for its element type, runs on the host; its operands
// are copied, and counted.
func TestFallback(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[3, 4] x) => (float[3, 4] y) {
			h = Exp(x)
			c = Cast<to = 11>(h)
			d = Hardmax<axis = -1>(c)
			e = Cast<to = 1>(d)
			y = Mul(e, h)
		}`)
	sameAsCPU(t, m, types, nil)
	d, _ := opened(t, double.Options{Lazy: true})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetInput("x", float32s([]int{3, 4}, make([]float32, 12)...)))
	require.NoError(t, s.Run(context.Background()))
	require.Len(t, s.HostNodes(), 1, "Hardmax of doubles")
	require.Equal(t, executor.Copies{In: 1, Out: 1, InBytes: 96, OutBytes: 96}, s.Measured().Copies)
}

// TestControlFlow: subgraphs run on the host and read what the device has made.
func TestControlFlow(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[2] x, bool c, int64 n) => (float[2] y, float[2] z) <bool yes = {1}> {
			h = Exp(x)
			w = Neg(h)
			y = If(c) <then_branch = t () => (float[2] a) { a = Add(h, x) }, else_branch = e () => (float[2] b) { b = Identity(w) }>
			z = Loop(n, yes, h) <body = l (int64 i, bool k, float[2] v) => (bool again, float[2] u) {
				again = Identity(k)
				u = Add(v, w)
			}>
		}`)
	for _, c := range []uint8{0, 1} {
		var want [2][]float32
		for i, dev := range []executor.Device{cpu.Device{}, nil} {
			if dev == nil {
				dev = device(t, double.Options{Lazy: true})
			}
			s, err := executor.Open(context.Background(), m, types, dev, executor.Options{})
			require.NoError(t, err)
			require.NoError(t, s.SetInput("x", float32s([]int{2}, 1, 2)))
			require.NoError(t, s.SetInput("c", &executor.Tensor{DType: graph.Bool, Data: []byte{c}}))
			require.NoError(t, s.SetInput("n", executor.NewTensor[int64](graph.Int64, nil, 3)))
			for range 2 {
				require.NoError(t, s.Run(context.Background()))
			}
			for o := range want {
				got := executor.Of[float32](s.Output(o))
				if i == 0 {
					want[o] = append([]float32{}, got...)
				}
				require.InDeltaSlice(t, want[o], got, 1e-5)
			}
			require.NoError(t, s.Close())
		}
	}
}

// TestYieldGradients: a boundary node hands out gradients given by the caller, on the device.
func TestYieldGradients(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (float[2] x) => (float[2] dx) {
			y = Mul(x, x)
			dy = com.microsoft.YieldOp<full_shape_outputs = [0]>(y)
			dx = Mul(dy, x)
		}`)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetInput("x", float32s([]int{2}, 2, 3)))
	for _, c := range []struct {
		given *executor.Tensor
		want  []float32
	}{{nil, []float32{8, 27}}, {float32s([]int{1}, 10), []float32{20, 30}},
		{float32s([]int{2}, 1, 2), []float32{2, 6}}} {
		if c.given != nil {
			require.NoError(t, s.SetInput("dy", c.given))
		}
		require.NoError(t, s.Run(context.Background()))
		require.Equal(t, c.want, executor.Of[float32](s.Output(0)))
	}
}

// TestLossGradient: on the device, too, the gradient of a scalar is one and that of another output zeros.
func TestLossGradient(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (float a, float[3] b) => (float da, float[3] db) {
			y = Mul(a, a)  z = Mul(b, b)
			dy, dz = com.microsoft.YieldOp<full_shape_outputs = [0]>(y, z)
			ya = Add(a, a)  da = Mul(dy, ya)  db = Add(dz, z)
		}`)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetInput("a", float32s([]int{}, 5)))
	require.NoError(t, s.SetInput("b", float32s([]int{3}, 1, 2, 3)))
	for range 3 { // the third step replays the captured one
		require.NoError(t, s.Run(context.Background()))
		require.Equal(t, []float32{10}, executor.Of[float32](s.Output(0)))
		require.Equal(t, []float32{1, 4, 9}, executor.Of[float32](s.Output(1)))
	}
}

// TestOutOfMemory: a device or a limit that is too small gives an error that says what was asked
// for, and the session closes cleanly.
func TestOutOfMemory(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[4096] x) => (float[4096] y) { a = Exp(x)  b = Neg(a)  y = Add(a, b) }`)
	for _, onDemand := range []bool{false, true} {
		for _, c := range []struct {
			memory, limit int64
		}{{48 << 10, 0}, {1 << 20, 30 << 10}} {
			d, _ := opened(t, double.Options{Memory: c.memory})
			s, err := executor.Open(context.Background(), m, types, d,
				executor.Options{OnDemand: onDemand, MemLimit: c.limit, Strategy: executor.SameAsRequested})
			require.NoError(t, err)
			require.NoError(t, s.SetInput("x", made(t, m, nil)["x"]))
			require.ErrorIs(t, s.Run(context.Background()), executor.ErrOutOfMemory)
			require.NoError(t, s.Close())
		}
	}
	d, _ := opened(t, double.Options{Memory: 8 << 10})
	_, err := executor.Open(context.Background(), m, types, d, executor.Options{})
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.ErrorContains(t, err, "inputs and weights of 16384 bytes")
}

// TestSharedArena: sessions take turns in one arena on the device; one on the host is refused.
func TestSharedArena(t *testing.T) {
	m, types := parsed(t, shapesModel)
	d, dbl := opened(t, double.Options{})
	arena := executor.NewArenaFor(d, executor.SameAsRequested, 0)
	for range 2 {
		s, err := executor.Open(context.Background(), m, types, d,
			executor.Options{Arena: arena, Dims: symbolic.Env{"N": 2, "M": 6}})
		require.NoError(t, err)
		require.NoError(t, s.SetInput("x", float32s([]int{2, 6}, make([]float32, 12)...)))
		require.NoError(t, s.SetInput("given", executor.NewTensor[int64](graph.Int64, []int{2}, 2, -1)))
		require.NoError(t, s.Run(context.Background()))
		require.NoError(t, s.Close())
		require.Zero(t, arena.Stats().InUse)
	}
	require.Equal(t, arena.Stats().Reserved, dbl.Counts().Live)
	require.NoError(t, arena.Close())
	_, err := executor.Open(context.Background(), m, types, d, executor.Options{Arena: executor.NewArena(0, 0)})
	require.ErrorContains(t, err, "NewArenaFor")
}

// TestUpdatedInputs: inputs that an operator updates stay on the device from step to step.
func TestUpdatedInputs(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (float[2] sum, float[2] x) => (bool[1] done, float[2] y) {
			done = com.microsoft.InPlaceAccumulatorV2(sum, x)
			y = Where(done, sum, x)
		}`)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SetInput("sum", float32s([]int{2}, 1, 2)))
	require.NoError(t, s.SetInput("x", float32s([]int{2}, 10, 20)))
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, []float32{11, 22}, executor.Of[float32](s.Output(1)))
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, []float32{21, 42}, executor.Of[float32](s.Output(1)))
}
