package cuda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/internal/test/double"
)

// optimizerModel is what follows the gradients of a mixed-precision step: they are scaled back,
// accumulated, measured and clipped, and Adam updates the weights if all are finite.
const optimizerModel = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
step (float rate, int64 count, float scale, float16[5, 9] g, float16[9] h, float[5, 9] w, float[9] v, float[5, 9] sum, float[9] more, float[5, 9] m1, float[9] n1,
	float[5, 9] m2, float[9] n2) => (float[5, 9] w_new, float[9] v_new, float norm, bool finite, float[5, 9] clipped)
<float low = {-0.25}, float high = {0.25}> {
	gs, hs = com.microsoft.MixedPrecisionScale<to = 1>(scale, g, h)
	ga = com.microsoft.InPlaceAccumulator(sum, gs)
	ha = com.microsoft.InPlaceAccumulator(more, hs)
	finite = com.microsoft.IsAllFinite(ga, ha)
	norm = com.microsoft.ReduceAllL2(ga, ha)
	clipped = Clip(ga, low, high)
	c1, m1n, m2n, w_new = com.microsoft.AdamOptimizer(rate, count, w, clipped, m1, m2, , , norm, finite)
	c2, n1n, n2n, v_new = com.microsoft.AdamOptimizer(rate, count, v, ha, n1, n2, , , norm, finite)
}`

// TestOptimizerOnDevice: the update of weights gives what the host gives, and copies nothing from
// the device: its steps can be captured.
func TestOptimizerOnDevice(t *testing.T) {
	m, types := parsed(t, optimizerModel)
	sameAsCPU(t, m, types, nil)
	d, dbl := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: true})
	require.NoError(t, err)
	defer s.Close()
	require.Empty(t, s.WhyNoCapture())
	for name, x := range made(t, m, nil) {
		require.NoError(t, s.SetInput(name, x))
	}
	for range 3 {
		require.NoError(t, s.Run(context.Background()))
	}
	require.Zero(t, dbl.Counts().CopiesOut)
}

// TestRecurrentSession: a session with sequences, small integers and planes keeps to its plan.
func TestRecurrentSession(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 20]>
		g (float[4, 3, 5] x, float[1, 28, 5] w, float[1, 28, 7] r, float[1, 56] b, float[1, 21, 7] wg, float[1, 21, 7] rg, float[2, 2, 4, 5] plane, float[2, 3, 3, 2] grid)
			=> (float[4, 3, 7] q, float[1, 3, 7] last, float[2, 2, 3, 3] s, int32[12, 12] p)
		<float scale = {0.0625}, uint8 zero = {128}, int64[2] flat = {12, 7}, int64[1] one = {1}> {
			h, hl, cl = LSTM<hidden_size = 7>(x, w, r, b)
			steps = Squeeze(h, one)
			u, last = GRU<hidden_size = 7, linear_before_reset = 0>(steps, wg, rg)
			d = QuantizeLinear(steps, scale, zero)
			q = DequantizeLinear(d, scale, zero)
			s = GridSample<mode = "cubic", padding_mode = "border">(plane, grid)
			left = Reshape(d, flat)
			right = Transpose<perm = [1, 0]>(left)
			p = MatMulInteger(left, right, zero, zero)
		}`)
	sameAsCPU(t, m, types, nil)
}
