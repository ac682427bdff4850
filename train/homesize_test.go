package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/train"
)

// TestHomeSize: the parts of a home add up to the file that a job has, and are those of its states.
func TestHomeSize(t *testing.T) {
	for name, job := range homeTasks(t) {
		t.Run(name, func(t *testing.T) {
			k := job()
			k.recipe.Home = true
			steps, err := train.Make(k.model, k.recipe)
			require.NoError(t, err)
			require.True(t, steps.Homed)
			h, err := steps.HomeSize(k.batch, k.recipe.Micros)
			require.NoError(t, err)
			file, err := steps.HomeBytes(k.batch)
			require.NoError(t, err)
			require.Equal(t, file, h.Bytes())
			var weights, sums, moments, changed int64
			for _, s := range steps.States {
				n, known := s.Type.Bytes().Const()
				require.True(t, known)
				twice := 2 * ((n + executor.PlaceAlignment - 1) / executor.PlaceAlignment * executor.PlaceAlignment)
				switch {
				case sumName(s.Name):
					sums += twice
				case s.Model:
					weights += twice
				default:
					moments += twice
				}
				if s.Next {
					changed += n
				}
			}
			require.Equal(t, []int64{weights, sums, moments}, []int64{h.Weights, h.Gradients, h.Moments})
			if k.recipe.Micros == 1 {
				require.Equal(t, changed, h.Written)
			}
		})
	}
}

// TestHomeTraffic counts by hand the bytes that an update of two layers reads and writes: forward both weights;
// backward the second one for the gradient of its input, and where the step updates both, each with two moments. Of
// three micro-steps each also reads and writes the sums, which the update reads and sets to zero.
func TestHomeTraffic(t *testing.T) {
	const w1, w2 = 4 * 64 * 128, 4 * 128 * 32
	for micros, want := range map[int][2]int64{
		1: {2*w1 + 2*w2 + 2*(w1+w2), 3 * (w1 + w2)},
		3: {3*(w1+2*w2+w1+w2) + 4*(w1+w2), 3*(w1+w2) + 4*(w1+w2)},
	} {
		m, _ := model(t, `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 64] x, int64[B] y, float[64, 128] w1, float[128, 32] w2) => (float loss) {
	a = MatMul(x, w1)  r = Relu(a)  o = MatMul(r, w2)  loss = SoftmaxCrossEntropyLoss(o, y)
}`)
		k := newTask(t, netText)
		k.recipe.Home, k.recipe.Micros, k.recipe.Optimizer.MaxNorm = true, micros, 0
		steps, err := train.Make(m, k.recipe)
		require.NoError(t, err)
		h, err := steps.HomeSize(1, micros)
		require.NoError(t, err)
		const numbers = 256 // such as counts of steps
		require.InDelta(t, want[0], h.Read, numbers)
		require.InDelta(t, want[1], h.Written, numbers)
	}
}
