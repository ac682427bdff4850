package cuda_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cuda/double"
	"memopt/symbolic"
)

// TestCapture: a captured step is done at once, on new inputs too, and only where the host has no part in it.
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
		s, err := executor.Open(m, types, d, executor.Options{Capture: true, Dims: symbolic.Env{"N": 2}})
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
	m, types = parsed(t, `<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { c = Cast<to = 11>(x)  h = Hardmax(c)  y = Cast<to = 1>(h) }`)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(m, types, d, executor.Options{Capture: true})
	require.NoError(t, err)
	require.Contains(t, s.WhyNoCapture(), "the host has a part in node")
	require.NoError(t, s.Close())
}

// TestFaultNamesNode: with Blocking, a fault of the device is reported with the node whose kernel it was.
func TestFaultNamesNode(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { a = Neg(x)  b = Exp(a)  y = Neg(b) }`)
	for _, blocking := range []bool{false, true} {
		d, dbl := opened(t, double.Options{Lazy: true})
		s, err := executor.Open(m, types, d, executor.Options{Blocking: blocking})
		require.NoError(t, err)
		require.NoError(t, s.SetInput("x", float32s([]int{4}, 1, 2, 3, 4)))
		dbl.FailKernel("exp_f32")
		err = s.Run(context.Background())
		require.ErrorContains(t, err, "kernel exp_f32")
		if blocking {
			require.ErrorContains(t, err, "(Exp)")
		} else {
			require.ErrorContains(t, err, "--blocking")
		}
		require.NoError(t, s.Close())
	}
}

// TestRunAllocatesNothing: after the first step, steps on the device allocate nothing on Go's heap.
func TestRunAllocatesNothing(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[5, 8] x, float[8, 8] w, float[8] b) => (float[5, 8] y) { h = Gemm(x, w, b)  r = Relu(h)  p = MatMul(r, w)  y = Add(p, b) }`)
	d, _ := opened(t, double.Options{})
	for _, o := range []executor.Options{{}, {OnDemand: true}} {
		s, err := executor.Open(m, types, d, o)
		require.NoError(t, err)
		for name, x := range made(t, m, nil) {
			require.NoError(t, s.SetInput(name, x))
		}
		require.NoError(t, s.Run(context.Background()))
		least := math.Inf(1)
		for range 5 { // Go's runtime allocates now and then
			least = min(least, testing.AllocsPerRun(5, func() {
				if s.Run(context.Background()) != nil {
					t.Fail()
				}
			}))
		}
		require.Zero(t, least, "%+v", o)
		require.NoError(t, s.Close())
	}
}
