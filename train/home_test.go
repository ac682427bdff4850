package train_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/fileio"
	"memopt/train"
	"memopt/train/checkpoint"
)

// at gives a task's states a home, and runs it there.
func (k *task) at(t testing.TB, ctx context.Context, home string, resume bool) *train.Result {
	t.Helper()
	k.recipe.Home = true
	k.prepare(t)
	h, err := checkpoint.OpenHome(home)
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	if k.config.Home = h; resume {
		k.config.Resume, err = h.Load()
		require.NoError(t, err)
		defer k.config.Resume.Close()
	}
	r, err := train.Run(ctx, &k.config)
	require.NoError(t, err)
	require.NoError(t, k.watch.saveErr)
	require.Equal(t, k.config.Plans.Arena(), r.MeasuredArena)
	return r
}

// tensors are those of a checkpoint but sums of gradients, by name.
func tensors(t testing.TB, path string) map[string][]byte {
	t.Helper()
	c, err := checkpoint.Load(path)
	require.NoError(t, err)
	defer c.Close()
	all := map[string][]byte{}
	for _, e := range c.Weights.Entries() {
		x, _ := c.Weights.Tensor(e.Name)
		all[e.Name] = append([]byte{}, x.Data...)
	}
	for _, e := range c.Others.Entries() {
		x, _ := c.Others.Tensor(e.Name)
		if c.States == nil || !sumName(e.Name) {
			all[e.Name] = append([]byte{}, x.Data...)
		}
	}
	return all
}

// homeTasks are jobs of all kinds of updates.
func homeTasks(t testing.TB) map[string]func() *task {
	list := map[string]func() *task{}
	for _, kind := range []string{"adamw", "sgd", "lion", "adamw8bit", "muon", "adafactor"} {
		for _, micros := range []int{1, 3} {
			for _, norm := range []float64{0, 1} {
				list[fmt.Sprintf("%s, %d micro-batches, norm %g", kind, micros, norm)] = func() *task {
					k := newTask(t, netText)
					k.recipe.Optimizer.Kind, k.recipe.Optimizer.MaxNorm = kind, norm
					if kind == "sgd" {
						k.recipe.Optimizer.WeightDecay = 0
					}
					k.recipe.Micros, k.config.Micros, k.config.Updates = micros, int64(micros), 7
					return k
				}
			}
		}
	}
	return list
}

// TestHome: a job whose states lie in a file has the bits of one whose states lie in memory; the file is a checkpoint
// without a copy, and neither the arena nor the budget has the states.
func TestHome(t *testing.T) {
	for name, job := range homeTasks(t) {
		t.Run(name, func(t *testing.T) {
			whole, dir := job(), t.TempDir()
			r, _ := whole.run(t, context.Background(), dir)
			k, home := job(), t.TempDir()
			got := k.at(t, context.Background(), home, false)
			require.Equal(t, tensors(t, dir), tensors(t, home))
			require.Equal(t, whole.watch.losses, k.watch.losses)
			require.Equal(t, home, got.Saved)
			require.Equal(t, r.Predicted.Arena, got.Predicted.Arena)
			require.Less(t, got.Predicted.States, r.Predicted.States)
			require.GreaterOrEqual(t, got.Predicted.Home, 2*(r.Predicted.States-got.Predicted.States))
			info, err := os.Stat(filepath.Join(home, "states"))
			require.NoError(t, err)
			require.Equal(t, info.Size(), got.Predicted.Home)
		})
	}
}

// copied copies a home as it is at this moment: as a job that is killed leaves it.
func copied(t testing.TB, from string) string {
	to := t.TempDir()
	list, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, e.Name()), data, 0o666))
	}
	return to
}

// TestHomeSurvives: a job that ends at any moment, between any two nodes or in the middle of a commit, goes on from the
// last update that was complete, to the bits of a job that was left alone.
func TestHomeSurvives(t *testing.T) {
	for name, job := range homeTasks(t) {
		t.Run(name, func(t *testing.T) {
			whole, dir := job(), t.TempDir()
			whole.run(t, context.Background(), dir)
			want := tensors(t, dir)
			k, home := job(), t.TempDir()
			var left []string
			moments := 0
			keep := func(every int) {
				if moments++; moments%every == 0 {
					left = append(left, copied(t, home))
				}
			}
			k.config.Session.Probe = func(graph.ValueID, *executor.Tensor) { keep(211) }
			end := fileio.Observe(func(op, path string) {
				if filepath.Dir(path) == home && moments%3 == 0 {
					left = append(left, copied(t, home))
				}
			})
			k.at(t, context.Background(), home, false)
			end()
			require.Equal(t, want, tensors(t, home), "the probes change no bit")
			steps, n := map[int64]bool{}, 0
			for _, home := range left {
				c, err := checkpoint.Load(home)
				if err != nil {
					require.ErrorIs(t, err, checkpoint.ErrNone)
					continue // before the first update began
				}
				done := c.Step
				require.NoError(t, c.Close())
				if n++; steps[done] && n%4 != 0 {
					continue
				}
				steps[done] = true
				next := job()
				r := next.at(t, context.Background(), home, true)
				require.Equal(t, next.config.Updates, r.Updates)
				require.Equal(t, want, tensors(t, home), "after update %d", done)
				require.Equal(t, whole.watch.losses[done:], next.watch.losses)
			}
			require.GreaterOrEqual(t, len(steps), 6, "moments of most updates: %v", steps)
		})
	}
}

// TestHomeStops: a job with a home that is stopped leaves no trace of an update that is not complete.
func TestHomeStops(t *testing.T) {
	for _, run := range []int{1, 2, 3, 5, 6} {
		job := func() *task {
			k := newTask(t, netText)
			k.recipe.Micros, k.config.Micros, k.config.Updates = 3, 3, 5
			return k
		}
		whole, dir := job(), t.TempDir()
		whole.run(t, context.Background(), dir)
		k, home := job(), t.TempDir()
		r := k.at(t, k.stopDuring(run), home, false)
		require.True(t, r.Stopped)
		next := job()
		next.at(t, context.Background(), home, true)
		require.Equal(t, tensors(t, dir), tensors(t, home), "run %d", run)
	}
}

// TestHomeMovesOn: a job goes on from the home of another folder: its states are copied from there, and the first home
// stays as it was.
func TestHomeMovesOn(t *testing.T) {
	job := func(updates int64) *task {
		k := newTask(t, netText)
		k.config.Updates = updates
		return k
	}
	from, to, whole := t.TempDir(), t.TempDir(), t.TempDir()
	job(3).at(t, context.Background(), from, false)
	before := tensors(t, from)
	job(6).at(t, context.Background(), whole, false)
	k := job(6)
	k.recipe.Home = true
	k.prepare(t)
	var err error
	k.config.Home, err = checkpoint.OpenHome(to)
	require.NoError(t, err)
	k.config.Resume, err = checkpoint.Load(from)
	require.NoError(t, err)
	require.False(t, k.config.Home.Owns(k.config.Resume))
	_, err = train.Run(context.Background(), &k.config)
	require.NoError(t, err)
	require.NoError(t, k.config.Resume.Close())
	require.NoError(t, k.config.Home.Close())
	require.Equal(t, tensors(t, whole), tensors(t, to))
	require.Equal(t, before, tensors(t, from))
}

// TestHomeBudget: a budget that the states alone are above is enough for the arena where they have a home.
func TestHomeBudget(t *testing.T) {
	for _, micros := range []int{1, 3} {
		job := func(total int64) *task {
			k := newTask(t, netText)
			k.source.n, k.batch = 130, 60
			k.recipe.Micros, k.config.Micros, k.config.Updates = micros, int64(micros), 4
			k.sel.Strategy = memopt.Budget{Total: total, Effort: 0.01}
			return k
		}
		whole, dir := job(1<<30), t.TempDir()
		whole.run(t, context.Background(), dir)
		p := whole.config.Plans
		total := p.Inputs + p.Arena()*8/10
		k, home := job(total), t.TempDir()
		r := k.at(t, context.Background(), home, false)
		require.Equal(t, tensors(t, dir), tensors(t, home))
		require.LessOrEqual(t, k.config.Plans.Total(), total)
		require.Less(t, r.MeasuredArena, p.Arena())
		low := job(total / 8)
		low.recipe.Home = true
		steps, err := train.Make(low.model, low.recipe)
		require.NoError(t, err)
		_, err = steps.Plan(context.Background(), low.batch, 0, low.sel)
		require.True(t, train.Infeasible(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprint(total/8))
	}
}

// sumName reports whether a state is a sum of gradients or their count, which are zeros between updates.
func sumName(name string) bool {
	return name == autograd.CountInput || strings.HasSuffix(name, autograd.SumSuffix)
}

// TestHomeMoves: values that move to the host lie in a file of the home, whose name is gone while they do, with equal
// bits and the bytes that were foretold.
func TestHomeMoves(t *testing.T) {
	for _, micros := range []int{1, 3} {
		job := func() *task {
			k := newTask(t, netText)
			k.moving(0.6)
			k.recipe.Micros, k.config.Micros, k.config.Updates = micros, int64(micros), 4
			return k
		}
		whole, dir := job(), t.TempDir()
		whole.sel.Strategy = nil
		whole.run(t, context.Background(), dir)
		k, home := job(), t.TempDir()
		seen := false
		k.config.Session.Probe = func(graph.ValueID, *executor.Tensor) {
			list, err := os.ReadDir(home)
			require.NoError(t, err)
			for _, e := range list {
				require.NotEqual(t, "copies", e.Name())
			}
			maps, err := os.ReadFile("/proc/self/maps")
			seen = seen || err != nil || strings.Contains(string(maps), filepath.Join(home, "copies"))
		}
		r := k.at(t, context.Background(), home, false)
		k.moves(t, r)
		require.True(t, seen)
		require.Equal(t, tensors(t, dir), tensors(t, home))
	}
}
