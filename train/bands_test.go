package train_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/planner"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/data"
)

// wordsText is a model of the next token, with attention to all tokens of a row and dropout.
const wordsText = `<ir_version: 8, opset_import: ["" : 17]>
net (int64[B, T] input_ids, int64[B, T] labels, float[128, 16] w0, float[16, 16] w1, float[16, 16] w2,
	float[16, 128] w3) => (float loss)
	<float ratio = {0.25}, bool training = {1}> {
	x = Gather(w0, input_ids)
	a = MatMul(x, w1)  b = Tanh(a)  c, mask = Dropout(b, ratio, training)
	k = Transpose<perm = [0, 2, 1]>(c)  s = MatMul(c, k)  p = Softmax(s)  q = MatMul(p, c)
	d = MatMul(q, w2)  e = Tanh(d)  f = Add(e, c)
	o = MatMul(f, w3)  scores = Transpose<perm = [0, 2, 1]>(o)
	loss = SoftmaxCrossEntropyLoss<ignore_index = -100>(scores, labels)
}`

// wordwiseText is wordsText without attention, so that padding has no effect on a token.
const wordwiseText = `<ir_version: 8, opset_import: ["" : 17]>
net (int64[B, T] input_ids, int64[B, T] labels, float[128, 16] w0, float[16, 16] w1, float[16, 128] w3) => (float loss) {
	x = Gather(w0, input_ids)  a = MatMul(x, w1)  b = Tanh(a)
	o = MatMul(b, w3)  scores = Transpose<perm = [0, 2, 1]>(o)
	loss = SoftmaxCrossEntropyLoss<ignore_index = -100>(scores, labels)
}`

// longest is the most tokens of a row, shortest the least that rows are filled up to.
const longest, shortest = 24, 3

// lines is a text of lines of 1 to 40 letters.
func lines(t testing.TB, count int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	var b strings.Builder
	for range count {
		for range 1 + rng.IntN(1+rng.IntN(40)) {
			b.WriteByte(byte('a' + rng.IntN(6)))
		}
		b.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "lines.txt")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// ragged is a job on documents.
type ragged struct {
	*task
	path  string
	bands int
	alter func(c *train.Config) // once it is planned; nil: no change
}

func newRagged(t testing.TB, text, path string) *ragged {
	k := newTask(t, text)
	k.model.Dims = map[string]int64{"T": longest}
	k.batch, k.config.Updates = 3, 40
	return &ragged{task: k, path: path, bands: 4}
}

// plan makes and plans the steps.
func (k *ragged) plan(t testing.TB) error {
	t.Helper()
	steps, err := train.Make(k.model, k.recipe)
	require.NoError(t, err)
	require.NoError(t, steps.Vary("T", shortest))
	inputs, err := steps.Describe()
	require.NoError(t, err)
	source, err := data.Open([]string{k.path}, inputs, data.Options{Blocks: "documents"})
	require.NoError(t, err)
	t.Cleanup(func() { source.Close() })
	require.NoError(t, steps.Bind(source.Inputs()))
	c := &k.config
	c.Steps, c.Source, c.Inputs, c.Observer = steps, source, source.Inputs(), k.watch
	c.Order = data.Order{Samples: source.Samples(), Batch: int(k.batch), Seed: 3, Shuffle: true}
	c.Order.Vary(source, shortest, 8)
	if k.sel.MostBands = k.bands; k.bands > 0 {
		var sizes []planner.Length
		for _, size := range c.Order.Rungs {
			sizes = append(sizes, planner.Length{Size: size, Share: float64(1 + c.Order.Counts(0)[size])})
		}
		k.sel.Sizes, err = planner.NewHistogram("T", sizes)
		require.NoError(t, err)
	}
	c.Plans, err = steps.Plan(context.Background(), k.batch, source.Samples()%k.batch, k.sel)
	return err
}

// run runs the job in a folder and returns the contents of its last checkpoint.
func (k *ragged) run(t testing.TB, ctx context.Context, dir string) (*train.Result, []byte) {
	t.Helper()
	require.NoError(t, k.plan(t))
	if k.alter != nil {
		k.alter(&k.config)
	}
	folder, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer folder.Close()
	k.config.Folder = folder
	r, err := train.Run(ctx, &k.config)
	require.NoError(t, err)
	require.NoError(t, k.watch.saveErr)
	return r, contents(t, r.Saved)
}

// shapes is an engine that notes the lengths of the rows of each batch.
type shapes struct {
	resident.Engine
	rows   []int
	opened int
}

func (s *shapes) Start(ctx context.Context, o executor.Options) (resident.Machine, error) {
	m, err := s.Engine.Start(ctx, o)
	return &shapesMachine{m, s}, err
}

type shapesMachine struct {
	resident.Machine
	of *shapes
}

func (m *shapesMachine) Open(ctx context.Context, side verify.Side, o resident.StepOptions) (resident.Step, error) {
	m.of.opened++
	s, err := m.Machine.Open(ctx, side, o)
	return &shapesStep{s, m.of}, err
}

type shapesStep struct {
	resident.Step
	of *shapes
}

func (s *shapesStep) Run(ctx context.Context, number uint64, inputs []*executor.Tensor) error {
	for i, name := range s.Inputs() {
		if name == "input_ids" {
			s.of.rows = append(s.of.rows, inputs[i].Shape[1])
		}
	}
	return s.Step.Run(ctx, number, inputs)
}

// TestBands: a job on documents has the bits of the job without plans, whatever plans its bands of lengths have and
// however many micro-batches make an update; the promised arena is the measured one, and within the budget.
func TestBands(t *testing.T) {
	path := lines(t, 150)
	for _, micros := range []int{1, 3} {
		newJob := func() (*ragged, *shapes) {
			k := newRagged(t, wordsText, path)
			k.recipe.Micros, k.config.Micros = micros, int64(micros)
			s := &shapes{Engine: k.config.Engine}
			k.config.Engine = s
			return k, s
		}
		base, seen := newJob()
		r, want := base.run(t, context.Background(), t.TempDir())
		require.Len(t, base.config.Plans.Bands, 1)
		require.Equal(t, r.Predicted.Arena, r.MeasuredArena)
		require.Less(t, r.LossLast, r.LossFirst-0.2, "it learns")
		distinct := map[int]bool{}
		for _, n := range seen.rows {
			distinct[n] = true
		}
		require.Greater(t, len(distinct), 5)
		if micros == 1 {
			require.Equal(t, len(base.config.Order.Rungs), seen.opened, "each length is opened once")
		}
		var saved []train.SavedBand
		limit, total := r.Predicted.Arena*85/100, int64(0)
		for name, strategy := range map[string]memopt.Strategy{"level 1": memopt.Level(1),
			"arena": memopt.Budget{Arena: limit}, "share": memopt.Budget{Share: 0.85},
			"total": memopt.Budget{Total: r.Predicted.States + r.Predicted.Inputs + limit}} {
			k, own := newJob()
			k.sel.Strategy = strategy
			if b, ok := strategy.(memopt.Budget); ok {
				total = b.Total
			}
			got, bits := k.run(t, context.Background(), t.TempDir())
			require.Equal(t, want, bits, "%s, %d micro-batches", name, micros)
			require.Equal(t, base.watch.losses, k.watch.losses)
			require.Equal(t, seen.rows, own.rows)
			require.Equal(t, got.Predicted.Arena, got.MeasuredArena, name)
			bands := k.config.Plans.Bands
			require.LessOrEqual(t, bands[0].Lo, k.config.Order.Rungs[0])
			require.Equal(t, int64(longest), bands[len(bands)-1].Hi)
			again := 0
			for i, b := range bands {
				again += b.Plan.Recompute.Nodes
				require.Equal(t, b.Hi, b.Side.Dims["T"], "%s: the step of a band stays at its largest size", name)
				require.True(t, i == 0 || bands[i-1].Side.Dims["T"] < b.Side.Dims["T"])
			}
			require.Positive(t, again, name)
			if name == "level 1" {
				require.Len(t, bands, 1)
				continue
			}
			require.Greater(t, len(bands), 1, name)
			require.LessOrEqual(t, got.MeasuredArena, limit, name)
			if total > 0 {
				require.LessOrEqual(t, got.Predicted.Total(), total)
			}
			if name == "arena" {
				for _, b := range bands {
					saved = append(saved, train.SavedBand{Lo: b.Lo, Hi: b.Hi, Strategy: b.Plan.Saved()})
				}
			}
		}
		k, _ := newJob()
		k.sel.Saved, k.sel.Strategy = saved, memopt.Level(0)
		got, bits := k.run(t, context.Background(), t.TempDir())
		require.Equal(t, want, bits, "saved plans")
		require.LessOrEqual(t, got.MeasuredArena, limit)
		require.Len(t, k.config.Plans.Bands, len(saved))
	}
}

// TestBandsResume: a job on documents that was stopped after any update ends with the bits of one that was not.
func TestBandsResume(t *testing.T) {
	path := lines(t, 40)
	newJob := func() *ragged {
		k := newRagged(t, wordsText, path)
		k.recipe.Micros, k.config.Micros, k.config.Updates = 2, 2, 12
		k.sel.Strategy = memopt.Budget{Share: 0.9}
		return k
	}
	whole := newJob()
	_, want := whole.run(t, context.Background(), t.TempDir())
	for stop := range whole.config.Updates {
		ctx, cancel := context.WithCancel(context.Background())
		k, dir := newJob(), t.TempDir()
		if k.watch.after, k.watch.end = stop, cancel; stop == 0 {
			k.watch.end = nil
			k.config.Engine = stopping{k.config.Engine, cancel}
		}
		r, err := func() (*train.Result, error) {
			require.NoError(t, k.plan(t))
			folder, err := checkpoint.OpenJob(dir)
			require.NoError(t, err)
			defer folder.Close()
			k.config.Folder = folder
			return train.Run(ctx, &k.config)
		}()
		next := newJob()
		if stop == 0 {
			require.ErrorIs(t, err, context.Canceled, "no update, while the steps are opened")
		} else {
			require.NoError(t, err)
			require.Equal(t, stop, r.Updates)
			c, err := checkpoint.Load(dir)
			require.NoError(t, err)
			next.config.Resume = c
			defer c.Close()
		}
		next.sel.Strategy = nil // other plans have the same bits
		_, got := next.run(t, context.Background(), dir)
		require.Equal(t, want, got, "stopped after %d updates", stop)
		require.Equal(t, whole.watch.losses, append(k.watch.losses, next.watch.losses...))
	}
}

// stopping is an engine that is asked to stop when its machine is there.
type stopping struct {
	resident.Engine
	stop func()
}

func (s stopping) Start(ctx context.Context, o executor.Options) (resident.Machine, error) {
	defer s.stop()
	return s.Engine.Start(ctx, o)
}

// TestBandsWeigh: an update of micro-batches of different lengths is that of all their documents in one batch, each
// token counting once; so is a loss that is evaluated.
func TestBandsWeigh(t *testing.T) {
	path := lines(t, 9)
	var losses, evals [][]float64
	for _, c := range []struct{ batch, micros int }{{1, 12}, {3, 4}, {12, 1}} {
		k := newRagged(t, wordwiseText, path)
		k.recipe.Micros, k.config.Micros, k.batch, k.config.Updates = c.micros, int64(c.micros), int64(c.batch), 4
		k.alter = func(c *train.Config) { c.Eval, c.EvalEvery = c.Source, 1 }
		k.run(t, context.Background(), t.TempDir())
		require.Equal(t, int64(11), k.config.Order.Samples, "an update is an epoch, with an empty row")
		require.Len(t, k.watch.losses, 4)
		losses, evals = append(losses, k.watch.losses), append(evals, k.watch.evals)
	}
	for i := range losses[1:] {
		require.InDeltaSlice(t, losses[0], losses[i+1], 2e-5)
		require.InDeltaSlice(t, evals[0], evals[i+1], 2e-5)
	}
	require.Less(t, losses[0][3], losses[0][0])
}

// TestBandsRefuse: sizes without a plan, and steps that cannot vary, are errors before the first step.
func TestBandsRefuse(t *testing.T) {
	path := lines(t, 40)
	k := newRagged(t, wordsText, path)
	require.NoError(t, k.plan(t))
	s := k.config.Steps
	for _, c := range []struct {
		symbol string
		least  int64
		want   string
	}{{"B", 1, "wanted a range from 1"}, {"X", 1, "wanted a range from 1"}, {"T", 0, "from 0 to 24: wanted a range"},
		{"T", 25, "from 25 to 24"}} {
		require.ErrorContains(t, s.Vary(c.symbol, c.least), c.want)
	}
	s.Step.Dims["B"], s.Step.Dims["X"] = 3, 3
	require.ErrorContains(t, s.Vary("B", 1), "counts the samples of a batch")
	require.ErrorContains(t, s.Vary("X", 1), "is a dim of no input for data")

	run := func(alter func(c *train.Config)) error {
		k := newRagged(t, wordsText, path)
		require.NoError(t, k.plan(t))
		alter(&k.config)
		_, err := train.Run(context.Background(), &k.config)
		return err
	}
	require.ErrorContains(t, run(func(c *train.Config) { c.Plans.Bands[0].Hi = 20 }),
		"batches of T=24 have no plan; there are plans for 3..20")
	require.ErrorContains(t, run(func(c *train.Config) { c.Plans.Bands[0].Lo = 9 }), "there are plans for 9..24")
	require.ErrorContains(t, run(func(c *train.Config) { c.Steps.Ragged = "" }), "wanted steps that vary")
	require.ErrorContains(t, run(func(c *train.Config) { c.Micros, c.Steps.Weights.Doubt = 2, "it adds means" }),
		"it adds means: the mean over batches of different sizes needs the number of labels")
	require.NoError(t, run(func(c *train.Config) { c.Steps.Weights.Doubt, c.Updates = "it adds means", 1 }))

	k = newRagged(t, wordsText, path)
	k.sel.Moves = memopt.MoveOptions{HostBudget: 1 << 20}
	k.sel.Moves.Link.BytesPerSecond = 1e9
	require.ErrorContains(t, k.plan(t), "moves no values to the host")
	k = newRagged(t, wordsText, path)
	k.sel.Strategy = memopt.Budget{Total: 1000}
	require.ErrorIs(t, k.plan(t), planner.ErrInfeasible)
	k = newRagged(t, wordsText, path)
	k.sel.Strategy = memopt.Budget{Arena: 1 << 20, Clusters: true}
	require.ErrorContains(t, k.plan(t), "are to a budget of bytes alone")
}

// TestBandsCompare: a checkpoint goes on with batches of the same sizes alone.
func TestBandsCompare(t *testing.T) {
	k := newRagged(t, wordsText, lines(t, 40))
	k.config.Updates = 2
	r, _ := k.run(t, context.Background(), t.TempDir())
	c, err := checkpoint.Load(r.Saved)
	require.NoError(t, err)
	defer c.Close()
	s := k.config.Settings()
	_, err = train.Compare(c, &c.Manifest, s)
	require.NoError(t, err)
	s.Sizes = s.Sizes[1:]
	_, err = train.Compare(c, &c.Manifest, s)
	require.ErrorContains(t, err, "batches of the sizes [3 6 9 12 15 18 21 24], this one [6 9 12 15 18 21 24]")
}
