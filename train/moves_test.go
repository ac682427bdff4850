package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner/offload"
	"memopt/train"
	"memopt/train/checkpoint"
)

// moving lets a task's values move to the host, for a share of the arena.
func (k *task) moving(share float64) {
	k.sel.Strategy = memopt.Budget{Share: share, Effort: 0.01}
	k.sel.Moves = memopt.MoveOptions{Link: offload.Link{BytesPerSecond: 1e12}, HostBudget: 1 << 20}
	k.source.n, k.batch = 130, 60 // so that activations are much of the peak, and the last batch of an epoch has 10
}

// moves requires a job to have moved values, in the memory that was foretold.
func (k *task) moves(t *testing.T, r *train.Result) {
	t.Helper()
	require.NotEmpty(t, k.config.Plans.Step.Moving.Moves)
	require.Positive(t, r.MeasuredHost)
	require.Equal(t, k.config.Plans.Host(), r.Predicted.Host)
	require.Equal(t, r.Predicted.Host, r.MeasuredHost, "on the host, predicted = measured")
	require.LessOrEqual(t, r.MeasuredHost, k.sel.Moves.HostBudget)
	require.Equal(t, k.config.Plans.Arena(), r.MeasuredArena)
	require.Equal(t, r.Predicted.Arena, r.MeasuredArena)
}

// TestMoving: a job whose values move to the host has the bits of one that keeps them, and takes the memory that
// was foretold on both sides, with a last batch of an epoch that moves values, too.
func TestMoving(t *testing.T) {
	for _, micros := range []int{1, 3} {
		for _, share := range []float64{0.8, 0.6} {
			job := func() *task {
				k := newTask(t, netText)
				k.moving(share)
				k.recipe.Micros, k.config.Micros, k.config.Updates = micros, int64(micros), 7
				return k
			}
			whole := job()
			whole.sel.Strategy = nil
			_, want := whole.run(t, context.Background(), t.TempDir())
			k := job()
			r, got := k.run(t, context.Background(), t.TempDir())
			require.Equal(t, want, got, "%d micro-batches, %g of the arena", micros, share)
			require.Equal(t, whole.watch.losses, k.watch.losses)
			k.moves(t, r)
			require.Less(t, r.MeasuredArena, whole.config.Plans.Arena())
		}
	}
}

// TestMovingGoesOn: a job that was stopped goes on with moves, or without, to the bits of one that was left alone.
func TestMovingGoesOn(t *testing.T) {
	job := func() *task {
		k := newTask(t, netText)
		k.moving(0.7)
		k.recipe.Micros, k.config.Micros, k.config.Updates = 2, 2, 5
		return k
	}
	whole := job()
	_, want := whole.run(t, context.Background(), t.TempDir())
	for _, run := range []int{1, 2, 5, 7} {
		for _, moves := range []bool{true, false} {
			dir := t.TempDir()
			k := job()
			r, _ := k.run(t, k.stopDuring(run), dir)
			require.True(t, r.Stopped)
			c, err := checkpoint.Load(dir)
			require.NoError(t, err)
			next := job()
			if next.config.Resume = c; !moves {
				next.sel.Strategy = nil
			}
			_, got := next.run(t, context.Background(), dir)
			require.NoError(t, c.Close())
			require.Equal(t, want, got, "run %d", run)
			require.Equal(t, whole.watch.losses, append(k.watch.losses, next.watch.losses...))
		}
	}
}

// TestMovingNotFinite: where a number is not finite, a job with moves says where it comes from, as one without
// does, and goes on as if the batch had never been there.
func TestMovingNotFinite(t *testing.T) {
	for _, micros := range []int{1, 2} {
		for _, stop := range []bool{true, false} {
			var texts []string
			var states [][]byte
			for _, moves := range []bool{false, true} {
				k := newTask(t, netText)
				if k.moving(0.7); !moves {
					k.sel.Strategy = nil
				}
				k.recipe.Micros, k.config.Micros, k.source.poison = micros, int64(micros), 9
				if !stop {
					k.config.OnNaN = train.SkipOnNaN
					_, state := k.run(t, context.Background(), t.TempDir())
					texts, states = append(texts, k.watch.warnings...), append(states, state)
					continue
				}
				k.prepare(t)
				_, err := train.Run(context.Background(), &k.config)
				var bad *train.NotFiniteError
				require.ErrorAs(t, err, &bad)
				texts = append(texts, err.Error())
			}
			require.Equal(t, texts[:len(texts)/2], texts[len(texts)/2:])
			require.NotEmpty(t, texts)
			if !stop {
				require.Equal(t, states[0], states[1])
			}
		}
	}
}

// TestMovingRanks: values move on several ranks to the bits of those that keep them, and never while ranks work on
// them together.
func TestMovingRanks(t *testing.T) {
	for _, zero := range []int{0, 1, 2} {
		for _, micros := range []int{1, 2} {
			run := func(moves bool) *group {
				return onRanksOf(t, netText, 2, t.TempDir(), func(k *task, _ int) {
					if k.moving(0.75); !moves {
						k.sel.Strategy = nil
					}
					k.source.n = 300
					k.recipe.Micros, k.config.Micros, k.config.Updates = micros, int64(micros), 5
					k.recipe.Optimizer.Ranks.Zero, k.recipe.Optimizer.Ranks.BucketBytes = zero, 300
				}).noErrors(t)
			}
			want, got := run(false), run(true)
			require.Equal(t, contents(t, want.results[0].Saved), contents(t, got.results[0].Saved))
			require.Equal(t, want.tasks[0].watch.losses, got.tasks[0].watch.losses)
			for rank, r := range got.results {
				got.tasks[rank].moves(t, r)
				require.Equal(t, []int64{r.MeasuredHost, r.MeasuredHost}, r.RankHosts)
			}
		}
	}
}
