package train_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/collective"
)

// sharedText has a weight that is used twice, so that its gradient is a sum within a batch, too.
const sharedText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 16] w1, float[16] b1, float[16, 16] w2, float[16, 4] w3) => (float loss) {
	a = MatMul(x, w1)  h = Add(a, b1)  r = Relu(h)  c = MatMul(r, w2)  d = Tanh(c)  e = MatMul(d, w2)
	o = MatMul(e, w3)  loss = SoftmaxCrossEntropyLoss(o, y)
}`

// group is a job of several ranks in one process.
type group struct {
	tasks   []*task
	results []*train.Result
	errs    []error
}

// onRanks runs a job on n ranks, of which rank 0 keeps checkpoints in a folder.
func onRanks(t testing.TB, n int, dir string, change func(k *task, rank int)) *group {
	t.Helper()
	return onRanksOf(t, sharedText, n, dir, change)
}

// onRanksOf is onRanks of another model.
func onRanksOf(t testing.TB, text string, n int, dir string, change func(k *task, rank int)) *group {
	t.Helper()
	g := &group{tasks: make([]*task, n), results: make([]*train.Result, n), errs: make([]error, n)}
	groups := collective.Local(n)
	var folder *checkpoint.Job
	if dir != "" {
		var err error
		folder, err = checkpoint.OpenJob(dir)
		require.NoError(t, err)
		defer folder.Close()
	}
	for r := range n {
		k := newTask(t, text)
		k.recipe.Optimizer.Ranks.Count = n
		k.config.Session.Threads = 1
		change(k, r)
		k.prepare(t)
		if k.config.Ranks, k.config.Keeps = groups[r], dir != ""; r == 0 {
			k.config.Folder = folder
		}
		g.tasks[r] = k
	}
	var all sync.WaitGroup
	for r, k := range g.tasks {
		all.Go(func() {
			if g.results[r], g.errs[r] = train.Run(k.ctx, &k.config); g.errs[r] != nil {
				groups[r].Abort(1)
			}
		})
	}
	all.Wait()
	return g
}

// noErrors requires all ranks to have ended well, with equal losses.
func (g *group) noErrors(t testing.TB) *group {
	t.Helper()
	for r := range g.tasks {
		require.NoError(t, g.errs[r])
		require.Equal(t, g.tasks[0].watch.losses, g.tasks[r].watch.losses, "rank %d", r)
		require.Equal(t, g.results[r].Predicted.Arena, g.results[r].RankArenas[r], "rank %d", r)
	}
	return g
}

// reference runs the job of n ranks on one, which accumulates.
func reference(t testing.TB, n int, change func(k *task, rank int)) (*task, []byte) {
	t.Helper()
	return referenceOf(t, sharedText, n, change)
}

// referenceOf is reference of another model.
func referenceOf(t testing.TB, text string, n int, change func(k *task, rank int)) (*task, []byte) {
	t.Helper()
	k := newTask(t, text)
	change(k, 0)
	k.recipe.Optimizer.Ranks.Zero = 0
	k.recipe.Micros, k.recipe.Apart = n*max(k.recipe.Micros, 1), true
	k.config.Micros = int64(k.recipe.Micros)
	_, state := k.run(t, context.Background(), t.TempDir())
	return k, state
}

// TestRanksEqualAccumulation: bit for bit, with the batches of an epoch that do not go round.
func TestRanksEqualAccumulation(t *testing.T) {
	for _, n := range []int{2, 3, 4} {
		for _, c := range []struct {
			kind    string
			zero    int
			maxNorm float64
		}{{"adamw", 0, 1}, {"adamw", 1, 1}, {"sgd", 0, 0}, {"sgd", 2, 0}, {"adam", 1, 0}} {
			t.Run(fmt.Sprint(n, c), func(t *testing.T) {
				change := func(k *task, _ int) {
					k.recipe.Optimizer.Kind, k.recipe.Optimizer.MaxNorm = c.kind, c.maxNorm
					k.recipe.Optimizer.Ranks.Zero, k.recipe.Optimizer.Ranks.BucketBytes = c.zero, 600
					if c.kind == "sgd" {
						k.recipe.Optimizer.Momentum = 0.9
					}
				}
				dir := t.TempDir()
				g := onRanks(t, n, dir, change).noErrors(t)
				one, want := reference(t, n, change)
				require.Equal(t, one.watch.losses, g.tasks[0].watch.losses)
				require.Equal(t, want, contents(t, g.results[0].Saved))
				for r := range n {
					require.Equal(t, g.results[0].Saved, g.results[r].Saved)
				}
			})
		}
	}
}

// TestRanksDraw: each rank draws what the micro-step in its place draws, which no other one does.
func TestRanksDraw(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 64] w1, float[64, 4] w2) => (float loss) {
	a = MatMul(x, w1)  share = Constant <value_float = 0.5> ()  on = Constant <value = bool {1}> ()
	d = Dropout(a, share, on)  o = MatMul(d, w2)  loss = SoftmaxCrossEntropyLoss(o, y)
}`
	for _, n := range []int{2, 3} {
		change := func(k *task, _ int) { k.recipe.Optimizer.Kind = "sgd" }
		g := onRanksOf(t, text, n, t.TempDir(), change).noErrors(t)
		one, want := referenceOf(t, text, n, change)
		require.Equal(t, one.watch.losses, g.tasks[0].watch.losses)
		require.Equal(t, want, contents(t, g.results[0].Saved))
	}
	same := newTask(t, text) // one sample again and again, with weights that stay
	same.batch, same.source.n, same.recipe.Optimizer.Kind, same.config.Updates = 1, 1, "sgd", 4
	same.config.Schedule.LR = 0
	same.run(t, context.Background(), t.TempDir())
	differ := map[float64]bool{}
	for _, loss := range same.watch.losses {
		differ[loss] = true
	}
	require.Len(t, differ, 4, "each update draws anew: %v", same.watch.losses)
}

// TestRanksWithinRounding: where the order of sums differs, by no more than that: pieces of the norm of
// stage 2, ranks that accumulate. Of four ranks, two have no batch in a turn of an update, and with batches
// of two samples one has none in a whole update.
func TestRanksWithinRounding(t *testing.T) {
	for _, c := range []struct {
		ranks, micros int
		batch         int64
	}{{2, 1, 4}, {2, 2, 4}, {4, 2, 4}, {4, 2, 2}} {
		change := func(k *task, _ int) {
			k.recipe.Optimizer.Ranks.Zero, k.recipe.Optimizer.Ranks.BucketBytes = 2, 1000
			k.recipe.Micros, k.config.Micros, k.batch = c.micros, int64(c.micros), c.batch
		}
		dir := t.TempDir()
		g := onRanks(t, c.ranks, dir, change).noErrors(t)
		one, _ := reference(t, c.ranks, change)
		require.InDeltaSlice(t, one.watch.losses, g.tasks[0].watch.losses, 1e-4, "%+v", c)
		saved, err := checkpoint.Load(dir)
		require.NoError(t, err)
		require.Equal(t, int64(c.ranks*c.micros), saved.Accumulation, "micro-batches of an update")
		require.NoError(t, saved.Close())
	}
}

// TestRanksSaveMemory: states of sharded optimizers take their part of the bytes, and are predicted.
func TestRanksSaveMemory(t *testing.T) {
	states := func(n, zero int) int64 {
		g := onRanks(t, n, "", func(k *task, _ int) {
			k.config.Updates, k.recipe.Optimizer.Ranks.Zero = 2, zero
		}).noErrors(t)
		return g.results[0].Predicted.States
	}
	const params = 4 * (6*16 + 16 + 16*16 + 16*4)
	whole := states(4, 0)
	const constants = 100 // at most: where parameters begin in their buckets
	require.InDelta(t, whole-2*params+2*params/4, states(4, 1), constants)
	require.InDelta(t, states(4, 1), states(4, 2), constants)
}

// TestRanksGoOn: a checkpoint is gone on with by as many ranks, sharded in another way, bit for bit, and
// by another number of ranks.
func TestRanksGoOn(t *testing.T) {
	change := func(zero int, updates int64) func(k *task, _ int) {
		return func(k *task, _ int) {
			k.recipe.Optimizer.Ranks.Zero, k.recipe.Optimizer.Ranks.BucketBytes = zero, 500*int64(zero+1)
			k.config.Updates = updates
		}
	}
	whole := onRanks(t, 2, t.TempDir(), change(0, 9)).noErrors(t)
	for _, zero := range []int{0, 1} {
		dir := t.TempDir()
		onRanks(t, 2, dir, change(1-zero, 4)).noErrors(t)
		resumed := func(zero int) func(k *task, rank int) {
			return func(k *task, rank int) {
				change(zero, 9)(k, rank)
				var err error
				k.config.Resume, err = checkpoint.Load(dir)
				require.NoError(t, err)
				t.Cleanup(func() { k.config.Resume.Close() })
			}
		}
		g := onRanks(t, 2, t.TempDir(), resumed(zero)).noErrors(t)
		require.Equal(t, contents(t, whole.results[0].Saved), contents(t, g.results[0].Saved))
		for _, n := range []int{3, 4} {
			other := onRanks(t, n, "", resumed(1)).noErrors(t)
			require.Len(t, other.tasks[0].watch.losses, 5)
		}
	}
}

// TestRanksNotFinite: a batch that is not finite ends the job on all ranks, where it is; or all leave the
// update out.
func TestRanksNotFinite(t *testing.T) {
	for _, micros := range []int{1, 2} {
		change := func(skip bool) func(k *task, rank int) {
			return func(k *task, _ int) {
				k.source.poison, k.recipe.Micros, k.config.Micros = 9, micros, int64(micros)
				if skip {
					k.config.OnNaN = train.SkipOnNaN
				}
			}
		}
		g := onRanks(t, 2, "", change(false))
		owners := 0
		for r := range 2 {
			var bad *train.NotFiniteError
			require.ErrorAs(t, g.errs[r], &bad)
			var elsewhere *train.ElsewhereError
			if e, ok := g.errs[r].(*train.ElsewhereError); ok {
				elsewhere = e
				require.Equal(t, 1-r, elsewhere.Rank)
			} else {
				owners++
				require.Equal(t, int64(r), bad.Batch%2, "its own batch")
			}
		}
		require.Equal(t, 1, owners)
		s := onRanks(t, 2, "", change(true)).noErrors(t)
		require.False(t, math.IsNaN(s.results[0].LossLast))
		warnings := len(s.tasks[0].watch.warnings) + len(s.tasks[1].watch.warnings)
		require.Positive(t, warnings)
		if micros == 1 {
			require.Equal(t, int64(warnings), s.results[0].Skipped)
		}
	}
}

// TestRanksEvaluate: evaluations of several ranks are those of one; with running statistics, those of
// rank 0.
func TestRanksEvaluate(t *testing.T) {
	change := func(k *task, _ int) {
		k.recipe.Optimizer.Ranks.BucketBytes, k.config.EvalEvery = 700, 4
		k.config.Updates = 8
	}
	run := func(n int, text string) *group {
		return onRanks(t, n, "", func(k *task, r int) {
			*k = *newTask(t, text)
			k.recipe.Optimizer.Ranks.Count = n
			change(k, r)
			k.prepare(t)
			k.config.Eval = &samples{n: 11, inputs: k.source.inputs, poison: -1}
		})
	}
	g := run(2, sharedText).noErrors(t)
	one := newTask(t, sharedText)
	change(one, 0)
	one.recipe.Micros, one.config.Micros, one.recipe.Apart = 2, 2, true
	one.prepare(t)
	one.config.Eval = &samples{n: 11, inputs: one.source.inputs, poison: -1}
	_, err := train.Run(context.Background(), &one.config)
	require.NoError(t, err)
	require.Equal(t, one.watch.evals, g.tasks[0].watch.evals)
	s := run(3, netText).noErrors(t)
	for r := range 3 {
		require.Equal(t, s.tasks[0].watch.evals, s.tasks[r].watch.evals)
		require.Len(t, s.tasks[r].watch.evals, 2)
	}
}

// alike is a source of which all samples are the first.
type alike struct{ samples }

func (s *alike) Fill(_ int64, row int, batch []*executor.Tensor) error {
	return s.samples.Fill(0, row, batch)
}

// TestRanksEvaluateAlike: all ranks evaluate with the running statistics of rank 0: the loss of equal
// samples is the same where rank 0 finds all of it and where others help.
func TestRanksEvaluateAlike(t *testing.T) {
	eval := func(n int64) []float64 {
		g := onRanksOf(t, netText, 3, "", func(k *task, _ int) {
			k.config.EvalEvery, k.config.Updates = 3, 6
			k.config.Eval = &alike{samples{n: n, inputs: k.source.inputs, poison: -1}}
		})
		for _, err := range g.errs {
			require.NoError(t, err)
		}
		return g.tasks[0].watch.evals
	}
	require.InDeltaSlice(t, eval(4), eval(12), 1e-6)
}

// TestRanksStop: a rank that is asked to stop ends the job on all after the same update, with a
// checkpoint, be it between updates, in the middle of one that accumulates, or in an evaluation; whoever goes on
// ends with the bits of a job that was left alone.
func TestRanksStop(t *testing.T) {
	type stop struct {
		micros, zero int
		run          int // of rank 1, during which it is asked
		updates      int64
	}
	job := func(s stop) func(k *task, _ int) {
		return func(k *task, _ int) {
			k.recipe.Optimizer.Ranks.Zero, k.config.Updates = s.zero, 6
			k.recipe.Micros, k.config.Micros = s.micros, int64(s.micros)
			k.prepare(t)
			k.config.Eval, k.config.EvalEvery = &samples{n: 22, inputs: k.source.inputs, poison: -1}, 2
		}
	}
	for _, s := range []stop{
		{1, 1, 1, 1},
		{1, 1, 3, 2}, // of an evaluation
		{2, 0, 1, 0}, // the first of two micro-batches; then the step that combines sums, and the update
		{2, 0, 2, 1},
		{2, 1, 4, 1},
		{2, 0, 8, 2}, // behind updates of two micro-batches and of one; the evaluation
	} {
		whole := onRanks(t, 2, t.TempDir(), job(s)).noErrors(t)
		dir := t.TempDir()
		g := onRanks(t, 2, dir, func(k *task, r int) {
			if job(s)(k, r); r == 1 {
				k.ctx = k.stopDuring(s.run)
			}
		})
		for r := range 2 {
			require.NoError(t, g.errs[r])
			require.True(t, g.results[r].Stopped)
			require.Equal(t, s.updates, g.results[r].Updates, "%+v", s)
			require.Equal(t, g.results[0].Saved, g.results[r].Saved)
		}
		c, err := checkpoint.Load(dir)
		require.NoError(t, err)
		next := onRanks(t, 2, t.TempDir(), func(k *task, r int) {
			job(s)(k, r)
			k.config.Resume = c
		}).noErrors(t)
		require.Equal(t, contents(t, whole.results[0].Saved), contents(t, next.results[0].Saved), "%+v", s)
		require.NoError(t, c.Close())
	}
}

// TestRanksPlanned: recomputation changes neither the bits nor the sequence of what ranks do together.
func TestRanksPlanned(t *testing.T) {
	run := func(s memopt.Strategy) []byte {
		dir := t.TempDir()
		g := onRanks(t, 2, dir, func(k *task, _ int) {
			k.recipe.Optimizer.Ranks.Zero, k.recipe.Optimizer.Ranks.BucketBytes = 1, 300
			k.sel.Strategy, k.config.Updates = s, 7
			k.source.n, k.batch = 300, 60 // so that activations are much of the peak
		}).noErrors(t)
		return contents(t, g.results[0].Saved)
	}
	want := run(nil)
	require.Equal(t, want, run(memopt.Level(1)))
	require.Equal(t, want, run(memopt.Budget{Share: 0.9}))

	k := newTask(t, sharedText)
	k.recipe.Optimizer.Ranks = autograd.Ranks{Count: 2, Zero: 2, BucketBytes: 300}
	k.sel.Strategy, k.source.n, k.batch = memopt.Budget{Share: 0.9}, 300, 60
	k.prepare(t)
	require.Positive(t, k.config.Plans.Step.Plan.Recompute.Nodes)
	plain, planned := k.config.Steps.Step.Graph, k.config.Plans.Step.Side
	var sequence, got []string
	for _, n := range plain.Nodes {
		if op.Of(n.Kind).Domain == op.DomainMemopt && op.Of(n.Kind).Class == op.Never {
			sequence = append(sequence, n.Name)
		}
	}
	order := planned.Order
	if order == nil {
		var err error
		order, err = graph.Topological(planned.Model.Graph)
		require.NoError(t, err)
	}
	for _, id := range order {
		n := planned.Model.Graph.Nodes[id]
		if op.Of(n.Kind).Domain == op.DomainMemopt && op.Of(n.Kind).Class == op.Never {
			got = append(got, n.Name)
		}
	}
	require.NotEmpty(t, sequence)
	require.Equal(t, sequence, got)
}

// TestRanksNeedGradients: a step that updates its parameters itself is no rank's.
func TestRanksNeedGradients(t *testing.T) {
	k := newTask(t, sharedText)
	step, _, err := k.model.Differentiate(autograd.Options{}, &autograd.Optimizer{Kind: "sgd", LR: 0.1})
	require.NoError(t, err)
	k.recipe.Optimizer.Ranks.Count = 2
	_, err = train.Make(step, k.recipe)
	require.ErrorContains(t, err, "updates its parameters itself, which several ranks cannot do together")
}

// TestRanksOfGradients: a graph of gradients is trained by several ranks as a forward model is.
func TestRanksOfGradients(t *testing.T) {
	for _, micros := range []int{1, 2} {
		change := func(k *task, _ int) {
			step, _, err := k.model.Differentiate(autograd.Options{LossOutput: true}, nil)
			require.NoError(t, err)
			k.model, k.config.Updates = step, 5
			k.recipe.Micros, k.config.Micros = micros, int64(micros)
		}
		g := onRanks(t, 2, "", change).noErrors(t)
		one := newTask(t, sharedText)
		change(one, 0)
		one.recipe.Micros, one.config.Micros = 2*micros, int64(2*micros)
		one.prepare(t)
		_, err := train.Run(context.Background(), &one.config)
		require.NoError(t, err)
		require.InDeltaSlice(t, one.watch.losses, g.tasks[0].watch.losses, 1e-5)
	}
}

// TestRanksGradientsNotFinite: a norm of gradients that is not finite ends the job on all ranks before the update,
// or all leave the update out and go on, as they are asked to.
func TestRanksGradientsNotFinite(t *testing.T) {
	change := func(on train.OnNaN) func(k *task, _ int) {
		return func(k *task, _ int) { k.config.OnNaN, k.config.Updates = on, 3 }
	}
	g := onRanksOf(t, rootText, 2, "", change(train.StopOnNaN))
	for r := range 2 {
		var bad *train.NotFiniteError
		require.ErrorAs(t, g.errs[r], &bad)
		require.Equal(t, int64(1), bad.Update)
		require.Equal(t, autograd.NormOutput, bad.Value)
	}
	s := onRanksOf(t, rootText, 2, "", change(train.SkipOnNaN)).noErrors(t)
	require.Equal(t, int64(3), s.results[0].Skipped)
	require.Len(t, s.tasks[0].watch.warnings, 3)
	require.Empty(t, s.tasks[1].watch.warnings, "rank 0 says it")
}
