package cuda_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/internal/test/double"
	"memopt/symbolic"
)

// TestConvTraining: the training graphs of convolutions and pools give the host's gradients, and
// none of their convolutions and pools runs on the host.
func TestConvTraining(t *testing.T) {
	for name, body := range map[string]string{
		"strides and groups": `(float[3, 4, 9, 10] x, float[6, 2, 3, 3] w, float[6] b) => (float[3, 6, 5, 5] y) {
			y = Conv<group = 2, strides = [2, 2], pads = [1, 1, 1, 1]>(x, w, b) }`,
		"depthwise": `(float[2, 3, 17, 16] x, float[6, 1, 3, 3] w, float[6] b) => (float[2, 6, 17, 16] y) {
			y = Conv<group = 3, pads = [1, 1, 1, 1]>(x, w, b) }`,
		"one channel": `(float[1, 1, 17, 16] x, float[6, 1, 3, 3] w, float[6] b) => (float[1, 6, 8, 7] y) { y = Conv<strides = [2, 2]>(x, w, b) }`,
		"3-d":         `(float[2, 2, 5, 4, 6] x, float[3, 2, 3, 1, 2] w, float[3] b) => (float[2, 3, 3, 4, 5] y) { y = Conv(x, w, b) }`,
		"transposed": `(float[2, 4, 5, 4] x, float[4, 3, 3, 2] w, float[6] b) => (float[2, 6, 11, 8] y) {
			y = ConvTranspose<group = 2, strides = [2, 2]>(x, w, b) }`,
		"one tap": `(float[2, 4, 5, 3] x, float[4, 3, 1, 1] w, float[3] b) => (float[2, 3, 5, 3] y) { y = ConvTranspose(x, w, b) }`,
		"pools": `(float[2, 3, 8, 8] x, float[3, 3, 1, 1] w, float[3] b) => (float[2, 3, 1, 1] y) {
			c = Conv(x, w, b)
			p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(c)
			a = AveragePool<kernel_shape = [2, 2], pads = [1, 1, 0, 0]>(p)
			y = GlobalAveragePool(a) }`,
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> g `+body)
			j, err := autograd.Differentiate(m,
				autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"x", "w", "b"}})
			require.NoError(t, err)
			inputs := made(t, j.Model, symbolic.Env{})
			var want [][]float32
			gpu, _ := opened(t, double.Options{})
			own, _ := opened(t, double.Options{NoConvolutions: true})
			for _, dev := range []executor.Device{cpu.Device{}, gpu, own} {
				s, err := executor.Open(context.Background(), j.Model, j.Types, dev, executor.Options{})
				require.NoError(t, err)
				for name, x := range inputs {
					require.NoError(t, s.SetInput(name, x))
				}
				require.NoError(t, s.Run(context.Background()))
				for i := range j.Model.Graph.Outputs {
					got := executor.Of[float32](s.Output(i))
					if i == len(want) {
						want = append(want, append([]float32{}, got...))
					}
					require.InDeltaSlice(t, want[i], got, 2e-4, i)
				}
				for _, n := range s.HostNodes() {
					what := n.Label[strings.LastIndexByte(n.Label, '/')+1:]
					require.False(t, strings.Contains(what, "Conv") || strings.Contains(what, "Pool"), "%v", n)
				}
				require.NoError(t, s.Close())
			}
		})
	}
}
