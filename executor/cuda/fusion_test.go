package cuda_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/executor/cuda/kernels"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// countedDevice returns a device, the GPU where tests run on it, with a function that returns how
// many kernels have been launched: 0 on the GPU, which does not count.
func countedDevice(t testing.TB, o double.Options) (*cuda.Device, func() int) {
	d := device(t, o)
	if dbl, ok := d.Driver().(*double.Double); ok {
		return d, func() int { return dbl.Counts().Launches }
	}
	return d, func() int { return 0 }
}

// runFused runs a model for some steps and returns its outputs.
func runFused(
	d *cuda.Device, side verify.Side, inputs map[string]*executor.Tensor, o executor.Options, steps int,
) (*verify.Run, error) {
	return verify.Execute(context.Background(), side, inputs,
		verify.Options{Engine: verify.On(d), Session: o, Repeat: steps})
}

// TestRandomFusions: fusion groups give the bits that their nodes give one by one, in the memory
// that is planned, captured or not.
func TestRandomFusions(t *testing.T) {
	d, launches := countedDevice(t, double.Options{})
	fused := 0
	rapid.Check(t, func(t *rapid.T) {
		text, dt := drawFusion(t)
		m, err := graph.Parse(text, "test")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		types, err := op.Infer(m)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		side, inputs := verify.Side{Model: m, Types: types}, fusionInputs(m, dt, rapid.Uint64().Draw(t, "seed"))
		before := launches()
		want, err := runFused(d, side, inputs, executor.Options{NoFusion: true}, 1)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		single := launches() - before
		for _, o := range []executor.Options{{}, {Capture: true}} {
			before, steps := launches(), 1
			if o.Capture {
				steps = 3
			}
			got, err := runFused(d, side, inputs, o, steps)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if !o.Capture && launches()-before < single {
				fused++
			}
			if got.Measured.Arena != got.Predicted.Arena || got.Measured.Live != want.Measured.Live {
				t.Fatalf("measured %+v, predicted %+v, one by one %+v\n%s", got.Measured, got.Predicted,
					want.Measured, text)
			}
			for i, w := range want.Outputs {
				if !sameNumbers(w.Tensor, got.Outputs[i].Tensor) {
					t.Fatalf("output %s differs\n%s", w.Name, text)
				}
			}
		}
	})
	if launches() > 0 {
		require.Positive(t, fused)
	}
}

// TestFusionInTrainingGraphs: random training graphs give the same bits with fusion and without, in
// less launches.
func TestFusionInTrainingGraphs(t *testing.T) {
	d, launches := countedDevice(t, double.Options{Lazy: true})
	var sums [2]int
	for seed := range uint64(8) {
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 7)),
			graphtest.Options{Nodes: 60, Symbolic: true, Layers: seed%2 == 0})
		types, err := op.Infer(m)
		require.NoError(t, err)
		env := symbolic.Env{"N": 5}
		side, inputs := verify.Side{Model: m, Types: types, Dims: env}, made(t, m, env)
		var want *verify.Run
		for i, o := range []executor.Options{{NoFusion: true}, {}, {Capture: true}} {
			before := launches()
			got, err := runFused(d, side, inputs, o, 3)
			require.NoError(t, err)
			if i < 2 {
				sums[i] += launches() - before
			}
			if want == nil {
				want = got
			}
			require.Equal(t, got.Predicted.Arena, got.Measured.Arena)
			require.Equal(t, want.Measured.Live, got.Measured.Live)
			for k, w := range want.Outputs {
				require.True(t, bytes.Equal(w.Tensor.Data, got.Outputs[k].Tensor.Data), "seed %d, %+v: output %q",
					seed, o, w.Name)
			}
		}
	}
	if launches() > 0 {
		require.Less(t, sums[1], sums[0])
	}
	t.Logf("launches: %d one by one, %d fused", sums[0], sums[1])
}

// TestFusionCopiesBits: what Where passes on keeps the bits that it has, those of unusual NaN too.
func TestFusionCopiesBits(t *testing.T) {
	d := device(t, double.Options{})
	for _, dt := range []string{"float", "float16", "bfloat16"} {
		m, types := parsed(t, fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]>
			g (%[1]s[4, 40] a, %[1]s[4, 40] b, bool[4, 40] c, bool[40] d) => (%[1]s[4, 40] y) { x = Where(c, a, b)  y = Where(d, a, x) }`, dt))
		inputs := made(t, m, nil)
		for _, name := range []string{"a", "b"} {
			for i := range inputs[name].Data {
				inputs[name].Data[i] = 0xff - byte(i%3) // NaN in every type
			}
		}
		side := verify.Side{Model: m, Types: types}
		want, err := runFused(d, side, inputs, executor.Options{NoFusion: true}, 1)
		require.NoError(t, err)
		got, err := runFused(d, side, inputs, executor.Options{}, 1)
		require.NoError(t, err)
		require.Equal(t, want.Outputs[0].Tensor.Data, got.Outputs[0].Tensor.Data)
	}
}

// nodeWatcher notes what an observer is told, but for times.
type nodeWatcher struct{ seen []string }

func (w *nodeWatcher) Node(i int, id graph.NodeID, _ time.Time, took time.Duration, live int64) {
	w.seen = append(w.seen, fmt.Sprint(i, id, live, took >= 0))
}

// geluModel is Gelu of ONNX's own operators with its bias, with constants in between, and the
// gradient of its last product.
const geluModel = `<ir_version: 8, opset_import: ["" : 17]>
	g (float[6, 64] x, float[64] bias, float[6, 64] dy) => (float[6, 64] y, float[6, 64] dx) {
		root = Constant<value = float {1.4142135}>()
		h = Add(x, bias)
		d = Div(h, root)
		one = Constant<value = float {1.0}>()
		e = Erf(d)
		f = Add(e, one)
		m = Mul(h, f)
		half = Constant<value = float {0.5}>()
		y = Mul(m, half)
		n = Mul(dy, half)
		dx = Mul(n, f)
	}`

// TestFusionIsObserved: of nodes in a fusion group an observer is told what it is told of them one
// by one.
func TestFusionIsObserved(t *testing.T) {
	m, types := parsed(t, geluModel)
	var want []string
	for _, o := range []executor.Options{{NoFusion: true}, {}} {
		d, _ := opened(t, double.Options{Lazy: true})
		w := &nodeWatcher{}
		o.Observer = w
		_, err := runFused(d, verify.Side{Model: m, Types: types}, made(t, m, nil), o, 2)
		require.NoError(t, err)
		if want == nil {
			want = w.seen
			require.Len(t, want, 2*8)
		}
		require.Equal(t, want, w.seen)
	}
}

// TestFusionMoves: a fusion group reads what comes from outside once, and writes what is read
// outside.
func TestFusionMoves(t *testing.T) {
	m, types := parsed(t, geluModel)
	d, _ := opened(t, double.Options{})
	for _, c := range []struct {
		o    executor.Options
		want executor.Fused
	}{
		// X, dy, y, dx.
		{executor.Options{}, executor.Fused{Groups: 1, Nodes: 8, Alone: 18 * 6 * 64 * 4, Fused: 4 * 6 * 64 * 4}},
		{executor.Options{NoFusion: true}, executor.Fused{}},
		{executor.Options{Blocking: true}, executor.Fused{}},
		{executor.Options{Guard: true}, executor.Fused{}},
		{executor.Options{OnDemand: true}, executor.Fused{}},
	} {
		s, err := executor.Open(context.Background(), m, types, d, c.o)
		require.NoError(t, err)
		require.Equal(t, c.want, s.Fused(), "%+v", c.o)
		require.NoError(t, s.Close())
	}
}

// TestFusionRegisters: the interpreter's registers are a GPU's; in local memory they would cost
// what fusion groups save.
func TestFusionRegisters(t *testing.T) {
	for _, dt := range []string{"f32", "f16", "bf16"} {
		ptx, err := kernels.PTX("fusion_" + dt)
		require.NoError(t, err)
		require.NotContains(t, string(ptx), ".local")
		require.Contains(t, string(ptx), "ld.global.v4")
		require.Contains(t, string(ptx), "st.global.v4")
	}
}
