package cuda_test

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/symbolic"
)

// TestCapture: a captured step is done at once, on new inputs too, and only where the host has no
// part in it.
func TestCapture(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		captured (float[N, 6] x) => (float[N, 3, 2] y, float[3] shape, float[N, 6] z) <int64[1] zero = {0}, int64[2] rest = {3, 2}> {
			s = Shape(x)
			n = Gather(s, zero)
			wanted = Concat<axis = 0>(n, rest)
			h = Exp(x)
			y = Reshape(h, wanted)
			shape = Cast<to = 1>(wanted)
			z = Neg(h)
		}`)
	for _, lazy := range []bool{false, true} {
		d, dbl := opened(t, double.Options{Lazy: lazy})
		s, err := executor.Open(context.Background(), m, types, d,
			executor.Options{Capture: true, Dims: symbolic.Env{"N": 2}})
		require.NoError(t, err)
		require.Empty(t, s.WhyNoCapture())
		for i := range 6 {
			require.NoError(t, s.SetInput("x", float32s([]int{2, 6}, make([]float32, 12)...)))
			if i%2 == 1 {
				x := make([]float32, 12)
				x[7] = float32(i)
				require.NoError(t, s.SetInput("x", float32s([]int{2, 6}, x...)))
			}
			if i == 4 {
				s.Release() // the capture knows the old arena
			}
			launches := dbl.Counts().Launches
			require.NoError(t, s.Run(context.Background()))
			if i == 2 || i == 3 || i == 5 {
				require.Equal(t, launches, dbl.Counts().Launches, "step %d is replayed", i)
			}
			want := float32(1)
			if i%2 == 1 {
				want = float32(math.Exp(float64(i)))
			}
			require.InEpsilon(t, want, executor.Of[float32](s.Output(0))[7], 1e-5, "step %d", i)
			require.InEpsilon(t, -want, executor.Of[float32](s.Output(2))[7], 1e-5, "step %d", i)
			require.Equal(t, []float32{2, 3, 2}, executor.Of[float32](s.Output(1)))
			require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
		}
		require.Equal(t, 5, dbl.Counts().Replays)
		require.NoError(t, s.Close())
	}
	m, types = parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { c = Cast<to = 11>(x)  h = Hardmax(c)  y = Cast<to = 1>(h) }`)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: true})
	require.NoError(t, err)
	require.Contains(t, s.WhyNoCapture(), "the host takes part in node")
	require.NoError(t, s.Close())
}

// TestFaultNamesNode: with Blocking, a fault of the device is reported with the node whose kernel
// it was.
func TestFaultNamesNode(t *testing.T) {
	m, types := parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { a = Neg(x)  b = Exp(a)  y = Neg(b) }`)
	for _, blocking := range []bool{false, true} {
		d, dbl := opened(t, double.Options{Lazy: true})
		s, err := executor.Open(context.Background(), m, types, d, executor.Options{Blocking: blocking})
		require.NoError(t, err)
		require.NoError(t, s.SetInput("x", float32s([]int{4}, 1, 2, 3, 4)))
		kernel := "fusion_f32" // of all three nodes; where every node is waited for, each has its own
		if blocking {
			kernel = "exp_f32"
		}
		dbl.FailKernel(kernel)
		err = s.Run(context.Background())
		require.ErrorContains(t, err, "kernel "+kernel)
		if blocking {
			require.ErrorContains(t, err, "(Exp)")
		} else {
			require.ErrorContains(t, err, "Blocking")
		}
		require.NoError(t, s.Close())
	}
}

// TestRunAllocatesNothing: after the first step, steps on the device allocate nothing on Go's heap.
func TestRunAllocatesNothing(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[5, 8] x, float[8, 8] w, float[8] b) => (float[5, 8] y) { h = Gemm(x, w, b)  r = Relu(h)  p = MatMul(r, w)  s = Add(p, b)  y = Tanh(s) }`)
	library, _ := opened(t, double.Options{})
	own, _ := opened(t, double.Options{NoLibrary: true})
	for i, o := range []executor.Options{{}, {OnDemand: true}, {}} {
		d := library
		if i == 2 {
			d = own
		}
		s, err := executor.Open(context.Background(), m, types, d, o)
		require.NoError(t, err)
		for name, x := range made(t, m, nil) {
			require.NoError(t, s.SetInput(name, x))
		}
		require.NoError(t, s.Run(context.Background()))
		requireNoAllocs(t, func() bool { return s.Run(context.Background()) == nil })
		require.NoError(t, s.Close())
	}
}

// requireNoAllocs fails where something allocates on Go's heap, or is false.
func requireNoAllocs(t *testing.T, do func() bool) {
	t.Helper()
	least := math.Inf(1)
	for range 5 { // Go's runtime allocates now and then
		least = min(least, testing.AllocsPerRun(5, func() {
			if !do() {
				t.Fail()
			}
		}))
	}
	require.Zero(t, least)
}

// randomSteps has every random operator with a kernel, with seeds and without.
const randomSteps = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
	draws (float[6, 40] x, float[40] bias, float[6, 40] p) => (float[6, 40] y, bool[6, 40] kept, uint32[8] bits, float[6, 40] z, float16[9] u, float[6, 40] b, float[6, 40] dx, double[6, 40] v)
	<float ratio = {0.25}, bool training = {1}> {
		y, kept = Dropout(x, ratio, training)
		w, bits = com.microsoft.BitmaskBiasDropout(y, bias, x, ratio, training)
		z = Dropout<seed = 5>(w, ratio, training)
		u = RandomUniform<dtype = 10, shape = [9], low = -1.0, high = 3.0>()
		b = Bernoulli(p)
		v = RandomUniformLike<dtype = 11>(x)
		dx = com.microsoft.DropoutGrad(z, kept, ratio, training)
	}`

// TestCaptureRandom: replayed steps draw the numbers that steps on the device draw, and those of
// the CPU, bit for bit.
func TestCaptureRandom(t *testing.T) {
	m, types := parsed(t, randomSteps)
	inputs := made(t, m, nil)
	for i, p := range executor.Of[float32](inputs["p"]) {
		executor.Of[float32](inputs["p"])[i] = float32(math.Abs(math.Mod(float64(p), 1)))
	}
	for _, lazy := range []bool{false, true} {
		d, dbl := opened(t, double.Options{Lazy: lazy})
		var sessions [3]*executor.Session
		for i, dev := range []executor.Device{cpu.Device{}, d, d} {
			s, err := executor.Open(context.Background(), m, types, dev, executor.Options{Seed: 3, Capture: i == 2})
			require.NoError(t, err)
			require.Empty(t, s.WhyNoCapture())
			sessions[i] = s
		}
		seen := map[string]bool{}
		for step := range 7 {
			for _, s := range sessions {
				if step == 4 {
					s.Release() // a capture is made anew
				}
				for name, x := range inputs {
					require.NoError(t, s.SetInput(name, x))
				}
				require.NoError(t, s.Run(context.Background()))
			}
			seen[string(sessions[0].Output(0).Data)] = true
			for o := range m.Graph.Outputs {
				want := sessions[0].Output(o).Data
				require.Equal(t, want, sessions[1].Output(o).Data, "step %d, output %d: device and CPU", step, o)
				require.Equal(t, want, sessions[2].Output(o).Data, "step %d, output %d: captured and CPU", step, o)
			}
		}
		require.Len(t, seen, 7, "each step draws other numbers")
		require.Equal(t, 6, dbl.Counts().Replays)
		for _, s := range sessions {
			require.NoError(t, s.Close())
		}
	}
}

// TestCaptureRandomHost: where the host draws, a replay would see the numbers of another step.
func TestCaptureRandomHost(t *testing.T) {
	m, types := parsed(t,
		`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { h = RandomNormalLike(x)  y = Neg(h) }`)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: true})
	require.NoError(t, err)
	require.NotEmpty(t, s.WhyNoCapture())
	require.NoError(t, s.Close())
}

// deviceOutput is a Memorizer that gives a kernel's only output memory of a device, or of the host
// where d is nil.
type deviceOutput struct{ d driver.Driver }

func (m deviceOutput) Output(_, n int) ([]byte, error) {
	if m.d == nil {
		return make([]byte, n), nil
	}
	return m.d.Alloc(n)
}

func (m deviceOutput) Scratch(int) ([]byte, error) { return nil, executor.ErrOutOfMemory }

// drawn runs a node without inputs in a step and returns its output of 160 bytes.
func drawn(t *testing.T, dev executor.Device, m deviceOutput, step uint64, stepAt []byte) []byte {
	t.Helper()
	p := &executor.Prep{Node: &graph.Node{Kind: op.RandomUniform, Op: "RandomUniform",
		Attrs: []graph.Attr{{Name: "shape", Value: []int64{40}}}},
		Info: op.Of(op.RandomUniform), Out: []graph.DType{graph.Float32}, Version: 1, Seed: 11}
	k, err := dev.Kernel(p)
	require.NoError(t, err)
	pool, y := executor.NewPool(1), &executor.Tensor{DType: graph.Float32}
	defer pool.Close()
	c := executor.NewCtx(p, pool, m, nil, []*executor.Tensor{y})
	c.Step, c.StepAt = step, stepAt
	require.NoError(t, executor.Invoke(k, c))
	return y.Data
}

// TestStepAt: the step's number counts, wherever a kernel has it from, and beyond 2^32 too, where
// the key depends on it.
func TestStepAt(t *testing.T) {
	d, _ := opened(t, double.Options{})
	drv, mem := d.Driver(), d.Memory()
	at, err := drv.Alloc(8)
	require.NoError(t, err)
	for _, step := range []uint64{0, 6, 1<<32 - 1, 3<<32 + 7} {
		want := drawn(t, cpu.Device{}, deviceOutput{}, step, nil)
		require.NoError(t, mem.CopyIn(at, binary.LittleEndian.AppendUint64(nil, step)))
		for _, stepAt := range [][]byte{nil, at} {
			y, got := drawn(t, d, deviceOutput{drv}, step, stepAt), make([]byte, 160)
			require.NoError(t, mem.CopyOut(got, y))
			require.Equal(t, want, got, "step %d", step)
			require.NoError(t, drv.Free(y))
		}
	}
	require.NoError(t, drv.Free(at))
}

// TestCaptureIndices: indices of captured steps are looked at after each replay, and one that is
// outside is reported with its node.
func TestCaptureIndices(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[6, 3] x, int64[4] i, int64[4] j) => (float[4, 3] y) { k = Add(i, j)  a = Gather(x, k)  b = Gather(x, i)  y = Mul(a, b) }`)
	for _, lazy := range []bool{false, true} {
		d, dbl := opened(t, double.Options{Lazy: lazy})
		s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: true})
		require.NoError(t, err)
		require.Empty(t, s.WhyNoCapture())
		for name, x := range made(t, m, nil) {
			require.NoError(t, s.SetInput(name, x))
		}
		run := func(i, j int64) error {
			require.NoError(t, s.SetInput("i", executor.NewTensor(graph.Int64, []int{4}, 0, 1, 2, i)))
			require.NoError(t, s.SetInput("j", executor.NewTensor(graph.Int64, []int{4}, 0, 0, 0, j)))
			return s.Run(context.Background())
		}
		for range 3 {
			require.NoError(t, run(2, 3))
		}
		require.Equal(t, 2, dbl.Counts().Replays)
		require.ErrorContains(t, run(5, 7),
			`node "Gather#1" (Gather): input 1, index number 3: is outside an axis of length 6`)
		require.NoError(t, run(1, 1), "the next step is captured anew")
		require.ErrorContains(t, run(6, -6), `node "Gather#2"`)
		require.NoError(t, s.Close())
	}
}

// TestCaptureLabels: labels that change from step to step are looked at on the device; one that is
// no class is reported with its node.
func TestCaptureLabels(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[5, 3] x, int64[5] labels) => (float loss, float[5, 3] p) { loss, p = SoftmaxCrossEntropyLoss<ignore_index = -100>(x, labels) }`)
	d, dbl := opened(t, double.Options{Lazy: true})
	var sessions [2]*executor.Session
	for i, dev := range []executor.Device{cpu.Device{}, d} {
		s, err := executor.Open(context.Background(), m, types, dev, executor.Options{Capture: i == 1})
		require.NoError(t, err)
		require.Empty(t, s.WhyNoCapture())
		require.NoError(t, s.SetInput("x", made(t, m, nil)["x"]))
		sessions[i] = s
	}
	run := func(s *executor.Session, last int64) error {
		require.NoError(t, s.SetInput("labels", executor.NewTensor[int64](graph.Int64, []int{5}, 0, 1, -100, 2, last)))
		return s.Run(context.Background())
	}
	for _, last := range []int64{0, 2, -100, 1} {
		for _, s := range sessions {
			require.NoError(t, run(s, last))
		}
		require.InEpsilon(t, executor.Of[float32](sessions[0].Output(0))[0],
			executor.Of[float32](sessions[1].Output(0))[0], 1e-5)
	}
	require.Equal(t, 3, dbl.Counts().Replays)
	for _, wrong := range []int64{3, -1} {
		require.ErrorContains(t, run(sessions[1], wrong),
			`(SoftmaxCrossEntropyLoss): label 4 of input 1 is out of range, wanted 0 to 2`)
		require.NoError(t, run(sessions[1], 0))
	}
	for _, s := range sessions {
		require.NoError(t, s.Close())
	}
}
