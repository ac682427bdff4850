package train_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/resident"
	"memopt/graph"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/data"
	"memopt/train/schedule"
)

// netText is a network with what a job has to keep right: a norm of batches, whose statistics are
// states, dropout, which draws by the step's number, and a tied weight.
const netText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 16] w1, float[16] b1, float[16] scale, float[16] shift,
	float[16] mean, float[16] var, float[16, 16] w2, float[16, 4] w3) => (float loss)
	<float ratio = {0.25}, bool training = {1}> {
	a = MatMul(x, w1)  h = Add(a, b1)
	n, m2, v2 = BatchNormalization<training_mode = 1, momentum = 0.8>(h, scale, shift, mean, var)
	r = Relu(n)  d, mask = Dropout(r, ratio, training)
	e = MatMul(d, w2)  t = Tanh(e)  f = MatMul(t, w2)  g = Add(f, d)
	o = MatMul(g, w3)
	loss = SoftmaxCrossEntropyLoss(o, y)
}`

// model parses a network, and makes up weights for its inputs of static shape.
func model(t testing.TB, text string) (*memopt.Model, map[string]*executor.Tensor) {
	t.Helper()
	g, err := graph.Parse(text, "net")
	require.NoError(t, err)
	m, err := memopt.New(g, memopt.Options{})
	require.NoError(t, err)
	rng, begin := rand.New(rand.NewPCG(1, 2)), map[string]*executor.Tensor{}
	for _, d := range g.Graph.Inputs {
		shape := executor.EvalShape(d.Type, nil)
		if shape == nil {
			continue // data
		}
		n, _ := d.Type.Shape.Elements().Const()
		elems, name := make([]float32, n), g.Graph.ValueName(d.Value)
		for i := range elems {
			if elems[i] = float32(0.4 * rng.NormFloat64()); name == "var" || name == "scale" {
				elems[i] = 1 + elems[i]/4
			}
		}
		begin[name] = executor.NewTensor(graph.Float32, shape, elems...)
	}
	return m, begin
}

// samples is a source of made-up samples: the label follows from the features.
type samples struct {
	n      int64
	inputs []data.Input
	poison int64 // the sample with a feature that is not finite; -1: none
}

func (s *samples) Inputs() []data.Input        { return s.inputs }
func (s *samples) Samples() int64              { return s.n }
func (s *samples) Tokens() int64               { return 0 }
func (s *samples) Check(context.Context) error { return nil }
func (s *samples) Identity() (string, error)   { return fmt.Sprint(s.n), nil }
func (s *samples) Close() error                { return nil }

func (s *samples) Fill(i int64, row int, batch []*executor.Tensor) error {
	i %= s.n
	rng := rand.New(rand.NewPCG(uint64(i), 7))
	x := executor.Of[float32](batch[0])[row*6 : row*6+6]
	for k := range x {
		x[k] = float32(rng.NormFloat64())
	}
	label := int64(0)
	if x[0] > 0 {
		label++
	}
	if x[1] > 0 {
		label += 2
	}
	if i == s.poison {
		x[3] = float32(math.Inf(1))
	}
	executor.Of[int64](batch[1])[row] = label
	return nil
}

// watcher is an Observer that remembers, and may end the job after an update.
type watcher struct {
	losses   []float64
	evals    []float64
	logged   []int64
	warnings []string
	ready    train.Prediction
	after    int64 // of so many updates
	end      func()
	saveErr  error
}

func (w *watcher) Ready(p train.Prediction) { w.ready = p }
func (w *watcher) Updated(done int64, m *train.Metrics) {
	w.losses = append(w.losses, m.Loss)
	if w.end != nil && done == w.after {
		w.end()
	}
}
func (w *watcher) Logged(m *train.Metrics)         { w.logged = append(w.logged, m.Step) }
func (w *watcher) Evaluated(_ int64, loss float64) { w.evals = append(w.evals, loss) }
func (w *watcher) Saved(_ string, err error)       { w.saveErr = err }
func (w *watcher) Warn(text string)                { w.warnings = append(w.warnings, text) }

// task is a job to be varied.
type task struct {
	model  *memopt.Model
	recipe train.Recipe
	sel    train.Selection
	config train.Config
	source *samples
	batch  int64
	watch  *watcher
	ctx    context.Context // of a rank
}

// newTask is a job of 3 epochs of 22 samples in batches of 4, so that the last one has 2.
func newTask(t testing.TB, text string) *task {
	k := &task{batch: 4, ctx: context.Background(), watch: &watcher{}, source: &samples{n: 22, poison: -1},
		recipe: train.Recipe{Optimizer: autograd.Optimizer{Kind: "adamw", WeightDecay: 0.01, MaxNorm: 1}, Seed: 5}}
	k.model, k.config.Begin = model(t, text)
	k.recipe.Optimizer.NoDecay = autograd.NoDecayOfVectors(k.model.Model)
	k.config.Engine = resident.On(cpu.Device{})
	k.config.Session.Seed = 5
	k.config.Micros = 1
	k.config.Schedule = schedule.Schedule{Kind: schedule.Linear, LR: 0.02, Warmup: 3, Total: 18}
	k.config.Updates = 18
	k.sel.Traits = k.config.Engine.Traits()
	return k
}

// prepare makes and plans the steps.
func (k *task) prepare(t testing.TB) {
	t.Helper()
	steps, err := train.Make(k.model, k.recipe)
	require.NoError(t, err)
	k.source.inputs, err = steps.Describe()
	require.NoError(t, err)
	c := &k.config
	c.Steps, c.Source, c.Inputs, c.Observer = steps, k.source, k.source.inputs, k.watch
	c.Order = data.Order{Samples: k.source.n, Batch: int(k.batch), Seed: 3, Shuffle: true}
	c.Plans, err = steps.Plan(context.Background(), k.batch, k.source.n%k.batch, k.sel)
	require.NoError(t, err)
}

// run runs the job in a folder and returns the contents of its last checkpoint.
func (k *task) run(t testing.TB, ctx context.Context, dir string) (*train.Result, []byte) {
	t.Helper()
	k.prepare(t)
	folder, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer folder.Close()
	k.config.Folder = folder
	r, err := train.Run(ctx, &k.config)
	require.NoError(t, err)
	require.NoError(t, k.watch.saveErr)
	if len(k.watch.losses) > 6 { // an epoch, with its last batch
		require.Equal(t, r.Predicted.Arena, r.MeasuredArena, "predicted = measured")
	}
	return r, contents(t, r.Saved)
}

// contents are the tensors of a checkpoint.
func contents(t testing.TB, path string) []byte {
	t.Helper()
	c, err := checkpoint.Load(path)
	require.NoError(t, err)
	defer c.Close()
	return slices.Concat(c.Weights.Bytes(), c.Others.Bytes())
}

// TestSameBits: a job ends with the same bits whatever is recomputed, and with any number of threads.
func TestSameBits(t *testing.T) {
	variants := map[string]func(k *task){
		"recomputed": func(k *task) { k.sel.Strategy = memopt.Level(1) },
		"1 thread":   func(k *task) { k.config.Session.Threads = 1 },
		"2 threads":  func(k *task) { k.config.Session.Threads = 2 },
		"no fusion":  func(k *task) { k.config.Session.NoFusion = true },
	}
	for _, micros := range []int{1, 3} {
		change := func(k *task) { k.recipe.Micros, k.config.Micros = micros, int64(micros) }
		base := newTask(t, netText)
		change(base)
		r, want := base.run(t, context.Background(), t.TempDir())
		require.Less(t, r.LossLast, r.LossFirst-0.2, "it learns")
		for name, vary := range variants {
			k := newTask(t, netText)
			change(k)
			vary(k)
			_, got := k.run(t, context.Background(), t.TempDir())
			again := k.config.Plans.Step.Plan.Recompute.Nodes
			require.Equal(t, name == "recomputed", again > 0, "%s: %d nodes run again", name, again)
			require.Equal(t, want, got, "%s, %d micro-batches", name, micros)
			require.Equal(t, base.watch.losses, k.watch.losses)
		}
	}
}

// TestResume: a job that was stopped after any update, in the middle of an epoch too, ends with the
// bits of one that was not.
func TestResume(t *testing.T) {
	for _, micros := range []int{1, 3} {
		make := func() *task {
			k := newTask(t, netText)
			k.recipe.Micros, k.config.Micros = micros, int64(micros)
			return k
		}
		whole := make()
		_, want := whole.run(t, context.Background(), t.TempDir())
		for stop := range whole.config.Updates {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			k := make()
			if k.watch.after, k.watch.end = stop, cancel; stop == 0 {
				cancel()
			}
			r, _ := k.run(t, ctx, dir)
			require.True(t, r.Stopped)
			require.Equal(t, stop, r.Updates)
			next := make()
			c, err := checkpoint.Load(dir)
			require.NoError(t, err)
			next.config.Resume = c
			r, got := next.run(t, context.Background(), dir)
			require.NoError(t, c.Close())
			require.False(t, r.Stopped)
			require.Equal(t, want, got, "stopped after %d updates", stop)
			require.Equal(t, whole.watch.losses, append(k.watch.losses, next.watch.losses...))
		}
	}
}

// stopDuring ends a job while the run of a step is under way, counted from 1.
func (k *task) stopDuring(run int) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	s := k.spied()
	s.during = func() {
		if len(s.runs) == run {
			cancel()
		}
	}
	return ctx
}

// TestResumeInterrupted: a job that is asked to end runs no micro-batch after that under way. An update
// that is not complete then leaves no trace, not even in the running statistics: whoever goes on ends with
// the bits of a job that was left alone.
func TestResumeInterrupted(t *testing.T) {
	make := func() *task {
		k := newTask(t, netText)
		k.config.Updates = 5
		k.recipe.Micros, k.config.Micros = 4, 4 // of 6 batches in an epoch: updates of 4 and of 2
		return k
	}
	whole := make()
	_, want := whole.run(t, context.Background(), t.TempDir())
	for _, run := range []int{1, 3, 4, 5, 6, 7, 11, 15, 17} {
		dir := t.TempDir()
		k := make()
		r, _ := k.run(t, k.stopDuring(run), dir)
		require.True(t, r.Stopped)
		runs, updates := run, int64(0)
		for _, end := range []int{5, 8, 13, 16, 21} { // the runs that apply sums
			if run == end-1 {
				runs = end // the update has all of its micro-batches
			}
			if runs >= end {
				updates++
			}
		}
		require.Len(t, k.config.Engine.(*spy).runs, runs)
		require.Equal(t, updates, r.Updates, "run %d", run)
		c, err := checkpoint.Load(dir)
		require.NoError(t, err)
		next := make()
		next.config.Resume = c
		require.Equal(t, updates, c.Step)
		require.Equal(t, 22*c.Epoch+4*c.Batch, c.Samples)
		_, got := next.run(t, context.Background(), dir)
		require.NoError(t, c.Close())
		require.Equal(t, want, got, "run %d", run)
		require.Equal(t, whole.watch.losses, append(k.watch.losses, next.watch.losses...))
	}
}

// TestAccumulation: three micro-batches of two samples are as one batch of six, but for rounding, if
// nothing is drawn and nothing is normed over the batch.
func TestAccumulation(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 16] w1, float[16] b1, float[16, 4] w3) => (float loss) {
	a = MatMul(x, w1)  h = Add(a, b1)  r = Relu(h)  o = MatMul(r, w3)  loss = SoftmaxCrossEntropyLoss(o, y)
}`
	job := func(batch int64, micros int) *task {
		k := newTask(t, text)
		k.source.n, k.batch, k.recipe.Micros, k.config.Micros = 24, batch, micros, int64(micros)
		k.run(t, context.Background(), t.TempDir())
		return k
	}
	whole, parts := job(6, 1), job(2, 3)
	require.InDeltaSlice(t, whole.watch.losses, parts.watch.losses, 1e-5)
}

// TestNotFinite: a job stops before an update by numbers that are not finite, and says where they
// come from; or it leaves the batch out and ends as if it had never been there.
func TestNotFinite(t *testing.T) {
	for _, micros := range []int{1, 2} {
		make := func() *task {
			k := newTask(t, netText)
			k.recipe.Micros, k.config.Micros, k.source.poison = micros, int64(micros), 9
			return k
		}
		k := make()
		k.prepare(t)
		_, err := train.Run(context.Background(), &k.config)
		var bad *train.NotFiniteError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "x", bad.Value)
		require.Equal(t, resident.OfInput, bad.From)
		require.Contains(t, err.Error(),
			fmt.Sprintf("update %d (batch %d of epoch 0): \"x\" is not finite %s. The update",
				bad.Update, bad.Batch, resident.OfInput))

		k = make()
		k.config.OnNaN = train.SkipOnNaN
		r, _ := k.run(t, context.Background(), t.TempDir())
		require.Equal(t, int64(3*micros), r.Skipped, "one batch of each epoch, of which an update made do without it")
		require.Len(t, k.watch.warnings, 3*micros, "one of each epoch")
		require.False(t, math.IsNaN(r.LossLast))
	}
}

// TestEvaluation: the mean loss of all samples, those of the last batch included, is that of one batch
// of all of them, and evaluation changes nothing.
func TestEvaluation(t *testing.T) {
	k := newTask(t, netText)
	_, want := k.run(t, context.Background(), t.TempDir())

	evaluate := func(batch, n int64) (*task, []byte) {
		k := newTask(t, netText)
		k.prepare(t)
		k.config.Eval, k.config.EvalEvery = &samples{n: n, inputs: k.source.inputs, poison: -1}, 5
		k.batch = batch
		folder, err := checkpoint.OpenJob(t.TempDir())
		require.NoError(t, err)
		defer folder.Close()
		k.config.Folder = folder
		r, err := train.Run(context.Background(), &k.config)
		require.NoError(t, err)
		return k, contents(t, r.Saved)
	}
	some, got := evaluate(4, 11)
	require.Equal(t, want, got)
	require.Len(t, some.watch.evals, 4, "after 5, 10 and 15 updates, and at the end")
	all, _ := evaluate(4, 4)
	few, _ := evaluate(4, 3)
	require.Len(t, all.watch.evals, 4)
	for i := range all.watch.evals {
		require.Greater(t, all.watch.evals[i], 0.0)
		require.NotEqual(t, all.watch.evals[i], few.watch.evals[i])
	}
}

// TestLargest: the most samples that fit are those that fit by trying all.
func TestLargest(t *testing.T) {
	k := newTask(t, netText)
	k.prepare(t)
	total := func(rows int64) int64 {
		p, err := k.config.Steps.Plan(context.Background(), rows, 0, k.sel)
		require.NoError(t, err)
		return p.Total()
	}
	for _, limit := range []int64{0, total(1) - 1, total(1), total(5), total(6) - 1, total(21), 1 << 40} {
		want := int64(0)
		for rows := int64(1); rows <= 22 && total(rows) <= limit; rows++ {
			want = rows
		}
		got, _ := train.Largest(context.Background(), k.config.Steps, 22, limit, k.sel)
		require.Equal(t, want, got, "%d bytes", limit)
	}
}

// TestWays: where a job does not fit, each way out that is offered does, as it promises.
func TestWays(t *testing.T) {
	k := newTask(t, netText)
	k.batch = 20
	k.prepare(t)
	total := k.config.Plans.Total()
	remake := func(r train.Recipe) (*train.Steps, error) { return train.Make(k.model, r) }
	ways := train.Ways(context.Background(), k.config.Steps, k.recipe, k.batch, total-total/20, k.sel, remake)
	require.NotEmpty(t, ways)
	for _, w := range ways {
		require.LessOrEqual(t, w.Total, total-total/20, w.What)
		require.NotEmpty(t, w.Price)
	}
	require.Empty(t, train.Ways(context.Background(), k.config.Steps, k.recipe, k.batch, 100, k.sel, remake))
}
