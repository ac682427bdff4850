package cuda_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// fetchSetups are ways to run a graph whose outputs are fetched.
var fetchSetups = []struct {
	session executor.Options
	double  double.Options
}{
	{executor.Options{}, double.Options{}},
	{executor.Options{}, double.Options{Lazy: true}},
	{executor.Options{OnDemand: true}, double.Options{Lazy: true}},
	{executor.Options{Capture: true}, double.Options{}},
	{executor.Options{Capture: true}, double.Options{Lazy: true}},
	{executor.Options{Guard: true, Blocking: true}, double.Options{Lazy: true}},
	{executor.Options{}, double.Options{Lazy: true, NoPinning: true}},
}

// allOutputs lists the numbers of a model's outputs.
func allOutputs(m *graph.Model) []int {
	list := make([]int, len(m.Graph.Outputs))
	for i := range list {
		list[i] = i
	}
	return list
}

// sameFetched runs two sessions on equal inputs, other ones in every step, and compares outputs
// that are fetched with those that are copied when they are asked for: bit for bit, and their
// memory.
func sameFetched(
	t require.TestingT, m *graph.Model, types *op.Result, env symbolic.Env, o executor.Options, d *cuda.Device,
	asked []int,
) {
	o.Dims = env
	var sessions [2]*executor.Session
	for i := range sessions {
		s, err := executor.Open(context.Background(), m, types, d, o)
		require.NoError(t, err)
		defer s.Close()
		sessions[i] = s
	}
	sessions[1].Fetch(asked...)
	for step := range 6 {
		inputs := madeOf(t, m, env, uint64(step))
		for _, s := range sessions {
			if step == 4 {
				s.Release()
			}
			for name, x := range inputs {
				require.NoError(t, s.SetInput(name, x))
			}
			require.NoError(t, s.Run(context.Background()))
		}
		for i := range m.Graph.Outputs {
			want, got := sessions[0].Output(i), sessions[1].Output(i)
			require.True(t, slices.Equal(want.Shape, got.Shape))
			require.Equal(t, want.Data, got.Data, "step %d, output %d", step, i)
		}
	}
	require.Equal(t, sessions[0].Measured(), sessions[1].Measured())
	require.Equal(t, sessions[0].Prediction(), sessions[1].Prediction())
	require.Equal(t, sessions[1].Prediction().Arena, sessions[1].Measured().Arena)
}

// fetchModel has outputs of all kinds: one that the next node could overwrite, a view of one, one
// that is updated after it is made, one that the host makes, a shape, an input, a weight, one that
// two names share, an empty one.
const fetchModel = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
	fetched (float[N, 6] x) => (float loss, float[N, 6] h, float[N, 3, 2] view, float[N, 6] sum, float[N, 6] hard, int64[2] shape, float[N, 6] x, float[6] w, float[N, 6] last, float[0, 6] none)
	<float[6] w = {1, 2, 3, 4, 5, 6}, int64[3] wanted = {-1, 3, 2}, int64[1] zero = {0}, int64[1] one = {1}> {
		a = Mul(x, w)
		loss = ReduceSum<keepdims = 0>(a)
		h = Tanh(a)
		view = Reshape(h, wanted)
		sum = Neg(h)
		b = Add(h, x)
		done = com.microsoft.InPlaceAccumulatorV2(sum, b)
		d = Cast<to = 11>(b)
		hd = Hardmax(d)
		hard = Cast<to = 1>(hd)
		shape = Shape(h)
		none = Slice(h, zero, zero)
		c = Exp(b)
		e = Neg(c)
		last = Mul(e, c)
	}`

// TestFetch: fetched outputs are those that are copied afterwards, and fetching changes nothing in
// the session's memory.
func TestFetch(t *testing.T) {
	m, types := parsed(t, fetchModel)
	for _, c := range fetchSetups {
		sameFetched(t, m, types, symbolic.Env{"N": 4}, c.session, device(t, c.double), allOutputs(m))
	}
}

// TestFetchRandomGraphs: the same for random graphs and any choice of outputs.
func TestFetchRandomGraphs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64Range(0, 50).Draw(rt, "seed")
		setup := rapid.SampledFrom(fetchSetups).Draw(rt, "setup")
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 1)), graphtest.Options{Nodes: 20, Symbolic: true})
		types, err := op.Infer(m)
		require.NoError(rt, err)
		asked := rapid.SliceOf(rapid.SampledFrom(allOutputs(m))).Draw(rt, "outputs")
		sameFetched(rt, m, types, symbolic.Env{"N": 3}, setup.session, device(t, setup.double), asked)
	})
}

// forgetful is a driver that leaves out every second wait of one stream for another: the first,
// third and so on where leave is 0, the second, fourth and so on where it is 1, none where it is 2.
type forgetful struct {
	*double.Double
	leave, waits int
}

func (f *forgetful) Wait(s driver.Stream, e driver.Event) error {
	f.waits++
	if (f.waits-1)%2 == f.leave {
		return nil
	}
	return f.Double.Wait(s, e)
}

// TestFetchWaits: the double finds it where the copy does not wait for the node, and where the host
// does not wait for the copy. One output is fetched, so that the waits of a step are these two by
// turns.
func TestFetchWaits(t *testing.T) {
	m, types := parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] x) => (float[2, 2] y) { a = Exp(x)  y = Neg(a)  b = Exp(y)  c = Neg(b) }`)
	for _, capture := range []bool{false, true} {
		for leave, name := range []string{"for the node", "for the copy", "none"} {
			if capture {
				name += ", captured"
			}
			t.Run(name, func(t *testing.T) {
				_, dbl := opened(t, double.Options{Lazy: true})
				d, err := cuda.New(&forgetful{Double: dbl, leave: leave}, cuda.Options{})
				require.NoError(t, err)
				wrong := fetchesWrong(t, m, types, d, executor.Options{Capture: capture})
				require.Equal(t, leave < 2, wrong)
			})
		}
	}
}

// fetchesWrong runs a few steps and reports whether the output is ever another one than the device
// holds, or a step fails.
func fetchesWrong(t *testing.T, m *graph.Model, types *op.Result, d *cuda.Device, o executor.Options) bool {
	s, err := executor.Open(context.Background(), m, types, d, o)
	require.NoError(t, err)
	defer s.Close()
	s.Fetch(0)
	want, err := executor.Open(context.Background(), m, types, d, executor.Options{})
	require.NoError(t, err)
	defer want.Close()
	wrong := false
	for step := range 8 {
		x := madeOf(t, m, nil, uint64(step))["x"]
		for _, s := range []*executor.Session{s, want} {
			require.NoError(t, s.SetInput("x", x))
			if s.Run(context.Background()) != nil {
				return true
			}
		}
		got := append([]byte{}, s.Output(0).Data...)
		wrong = wrong || string(got) != string(want.Output(0).Data)
	}
	return wrong
}

// TestFetchAllocatesNothing: neither steps that fetch nor reading what they have fetched allocate
// on Go's heap.
func TestFetchAllocatesNothing(t *testing.T) {
	m, types := parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[5, 8] x) => (float[5, 8] y, float loss) { h = Exp(x)  y = Neg(h)  loss = ReduceSum<keepdims = 0>(y) }`)
	d, dbl := opened(t, double.Options{})
	for _, o := range []executor.Options{{}, {OnDemand: true}, {Capture: true}} {
		s, err := executor.Open(context.Background(), m, types, d, o)
		require.NoError(t, err)
		require.NoError(t, s.SetInput("x", made(t, m, nil)["x"]))
		s.Fetch(0, 1)
		for range 3 {
			require.NoError(t, s.Run(context.Background()))
		}
		copies := dbl.Counts().CopiesOut
		requireNoAllocs(t, func() bool {
			return s.Run(context.Background()) == nil && len(s.Output(0).Data) == 160 && len(s.Output(1).Data) == 4
		})
		if !o.Capture {
			require.Greater(t, dbl.Counts().CopiesOut, copies)
		}
		require.NoError(t, s.Close())
	}
}

// TestFetchChanges: what is asked for may change between runs, with and without a capture, and
// nothing is copied that is not asked for.
func TestFetchChanges(t *testing.T) {
	m, types := parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) { y = Exp(x)  z = Neg(y) }`)
	for _, capture := range []bool{false, true} {
		d, dbl := opened(t, double.Options{Lazy: true})
		s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: capture})
		require.NoError(t, err)
		for step, asked := range [][]int{{}, {0}, {1}, {1, 0, 1}, nil, {0}} {
			x := madeOf(t, m, nil, uint64(step))["x"]
			require.NoError(t, s.SetInput("x", x))
			s.Fetch(asked...)
			before := dbl.Counts().CopiesOut
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, min(len(asked), 2), dbl.Counts().CopiesOut-before, "step %d", step)
			y, z := executor.Of[float32](s.Output(0)), executor.Of[float32](s.Output(1))
			for i := range y {
				require.Equal(t, -y[i], z[i])
			}
			require.Equal(t, 2, dbl.Counts().CopiesOut-before, "step %d: each output is copied once", step)
		}
		require.NoError(t, s.Close())
	}
}
