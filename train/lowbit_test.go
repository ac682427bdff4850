package train_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph"
	"memopt/graph/precision"
	"memopt/internal/lowbit"
	"memopt/train/checkpoint"
)

// wideText has two parameters whose moments are stored in codes, and a small one.
const wideText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 8] w1, float[8, 1088] w2, float[1088, 4] w3) => (float loss) {
	a = MatMul(x, w1)  h = Tanh(a)  b = MatMul(h, w2)  r = Tanh(b)  o = MatMul(r, w3)
	loss = SoftmaxCrossEntropyLoss(o, y)
}`

// TestLowBitGoesOn: a job with moments of few bits learns, has equal bits with any number of threads and whatever is
// recomputed, goes on from a checkpoint bit for bit, and its checkpoints hold codes and scales of the stated bytes.
func TestLowBitGoesOn(t *testing.T) {
	for _, bits := range []int{8, 4} {
		for _, micros := range []int{1, 3} {
			fresh := func() *task {
				k := newTask(t, wideText)
				k.recipe.Micros, k.config.Micros = micros, int64(micros)
				k.recipe.Optimizer.Kind, k.config.Schedule.LR = fmt.Sprintf("adamw%dbit", bits), 0.002
				return k
			}
			plain := fresh()
			plain.recipe.Optimizer.Kind = "adamw"
			exact, _ := plain.run(t, context.Background(), t.TempDir())
			whole := fresh()
			r, want := whole.run(t, context.Background(), t.TempDir())
			require.InDelta(t, exact.LossLast, r.LossLast, 0.05*exact.LossFirst, "as with moments in float32")
			c, err := checkpoint.Load(r.Saved)
			require.NoError(t, err)
			saved := int64(0)
			for _, name := range []string{"w2_exp_avg", "w2_exp_avg_scale", "w2_exp_avg_sq", "w2_exp_avg_sq_scale"} {
				x, ok := c.Others.Tensor(name)
				require.True(t, ok, name)
				saved += int64(len(x.Data))
			}
			require.Equal(t, 2*lowbit.FormatOf(bits, true).Bytes(8*1088), saved)
			require.NoError(t, c.Close())

			goesOn(t, fmt.Sprintf("%d bits, %d micro-batches", bits, micros), fresh, want)
		}
	}
}

// goesOn requires the bits of a whole job of its twins: one with two threads that recomputes, and one that is stopped
// and goes on from its checkpoint.
func goesOn(t *testing.T, name string, fresh func() *task, want []byte) {
	t.Helper()
	other := fresh()
	other.sel.Strategy, other.config.Session.Threads = memopt.Level(1), 2
	_, got := other.run(t, context.Background(), t.TempDir())
	require.NotZero(t, other.config.Plans.Step.Plan.Recompute.Nodes, name)
	require.Equal(t, want, got, "%s: recomputed, 2 threads", name)

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := fresh()
	stopped.watch.after, stopped.watch.end = 2, cancel
	r, _ := stopped.run(t, ctx, dir)
	require.True(t, r.Stopped)
	next := fresh()
	var err error
	next.config.Resume, err = checkpoint.Load(dir)
	require.NoError(t, err)
	_, got = next.run(t, context.Background(), dir)
	require.NoError(t, next.config.Resume.Close())
	require.Equal(t, want, got, "%s: stopped", name)
}

// TestStochasticGoesOn: a job with weights of bfloat16 learns, has equal bits with any number of threads and whatever
// is recomputed, and goes on bit for bit; another seed rounds otherwise.
func TestStochasticGoesOn(t *testing.T) {
	for _, kind := range []string{"sgd", "adamw", "lion", "adamw8bit", "adamw4bit"} {
		for _, micros := range []int{1, 3} {
			name := fmt.Sprintf("%s, %d micro-batches", kind, micros)
			fresh := func() *task {
				k := newTask(t, wideText)
				k.recipe.Micros, k.config.Micros = micros, int64(micros)
				k.recipe.Optimizer.Kind, k.config.Schedule.LR = kind, 0.002
				if kind == "sgd" {
					k.recipe.Optimizer.Momentum, k.config.Schedule.LR = 0.9, 0.02
				}
				k.recipe.Differentiate.Precision = precision.BF16Pure
				return k
			}
			exact := fresh()
			exact.recipe.Differentiate.Precision = precision.AsIs
			plain, _ := exact.run(t, context.Background(), t.TempDir())
			r, want := fresh().run(t, context.Background(), t.TempDir())
			require.InDelta(t, plain.LossLast, r.LossLast, 0.08*plain.LossFirst, "%s: as in float32", name)
			c, err := checkpoint.Load(r.Saved)
			require.NoError(t, err)
			x, ok := c.Weights.Tensor("w2")
			require.True(t, ok)
			require.Equal(t, graph.BFloat16, x.DType, name)
			require.NoError(t, c.Close())
			goesOn(t, name, fresh, want)
			drawn := fresh()
			drawn.recipe.Seed++
			_, got := drawn.run(t, context.Background(), t.TempDir())
			require.NotEqual(t, want, got, "%s: another seed", name)
		}
	}
}

// largeText has parameters of whole blocks alone.
const largeText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 2048] w1, float[2048, 1024] w2, float[1024, 4] w3) => (float loss) {
	a = MatMul(x, w1)  h = Tanh(a)  b = MatMul(h, w2)  r = Tanh(b)  o = MatMul(r, w3)
	loss = SoftmaxCrossEntropyLoss(o, y)
}`

// TestLowBitBytes: with weights of bfloat16, moments of 8 bits and updates among the backward half, a job takes at most
// 4.1 bytes of a parameter, and the largest gradient, as measured; with 4 bits 3.1. Beside these are activations and
// the blocks in which products are computed.
func TestLowBitBytes(t *testing.T) {
	const elements, largest, beside = 6*2048 + 2048*1024 + 1024*4, 2 * 2048 * 1024, 1 << 18
	for bits, most := range map[int]float64{8: 4.1, 4: 3.1} {
		k := newTask(t, largeText)
		k.recipe.Optimizer.Kind, k.recipe.Optimizer.MaxNorm = fmt.Sprintf("adamw%dbit", bits), 0
		k.recipe.Differentiate.Precision, k.config.Session.Threads = precision.BF16Pure, 1
		k.config.Updates, k.config.Schedule.Total = 7, 7
		r, _ := k.run(t, context.Background(), t.TempDir())
		require.Equal(t, r.Predicted.Arena, r.MeasuredArena)
		states := 2*elements + 2*lowbit.FormatOf(bits, true).Bytes(elements)
		require.GreaterOrEqual(t, r.Predicted.States, states, "%d bits", bits)
		require.Less(t, r.Predicted.States, states+128, "%d bits: the number of the update and constants", bits)
		require.LessOrEqual(t, float64(r.Predicted.States), most*elements)
		require.LessOrEqual(t, r.MeasuredArena, int64(largest+beside))
	}
}
