package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/data"
	"memopt/train/schedule"
)

// spy is an engine that notes what steps are opened and run.
type spy struct {
	resident.Engine
	runs    []run
	watches [][]string // of the steps that were opened
	during  func()     // called while a run is under way; nil: no call
}

// run is a run of a step.
type run struct {
	number uint64
	update bool    // it applies sums
	rate   float64 // NaN: the step has no learning rate
}

func (s *spy) Start(ctx context.Context, o executor.Options) (resident.Machine, error) {
	m, err := s.Engine.Start(ctx, o)
	return &spyMachine{m, s}, err
}

type spyMachine struct {
	resident.Machine
	spy *spy
}

func (m *spyMachine) Open(ctx context.Context, side verify.Side, o resident.StepOptions) (resident.Step, error) {
	m.spy.watches = append(m.spy.watches, o.Watch)
	s, err := m.Machine.Open(ctx, side, o)
	return &spyStep{s, m.spy}, err
}

type spyStep struct {
	resident.Step
	spy *spy
}

func (s *spyStep) Run(ctx context.Context, number uint64, inputs []*executor.Tensor) error {
	r := run{number: number, rate: math.NaN(), update: !slices.Contains(s.Inputs(), "x")}
	if i := slices.Index(s.Inputs(), autograd.LRInput); i >= 0 {
		r.rate = float64(executor.Of[float32](inputs[i])[0])
	}
	s.spy.runs = append(s.spy.runs, r)
	if s.spy.during != nil {
		s.spy.during()
	}
	return s.Step.Run(ctx, number, inputs)
}

// spied has a task run on a spy.
func (k *task) spied() *spy {
	s := &spy{Engine: k.config.Engine}
	k.config.Engine = s
	return s
}

// TestLoop: each update has its learning rate, each micro-batch a number of its own, which random
// draws go by, and the last update of an epoch the micro-batches that are left.
func TestLoop(t *testing.T) {
	for _, micros := range []int{1, 4} {
		k := newTask(t, netText)
		k.recipe.Micros, k.config.Micros, k.recipe.Optimizer.LR = micros, int64(micros), 3
		s := k.spied()
		k.run(t, context.Background(), t.TempDir())
		seen := map[uint64]bool{}
		update, since, sizes := int64(0), 0, []int{}
		for _, r := range s.runs {
			if !r.update {
				require.False(t, seen[r.number], "number %d", r.number)
				seen[r.number] = true
				since++
			}
			if !math.IsNaN(r.rate) {
				require.Equal(t, float64(float32(k.config.Schedule.At(update))), r.rate, "update %d", update)
				update++
				sizes, since = append(sizes, since), 0
			}
		}
		require.Equal(t, k.config.Updates, update)
		if micros == 4 {
			require.Equal(t, []int{4, 2, 4, 2}, sizes[:4], "of 6 batches in an epoch")
		}
	}
}

// TestNothingCounts: where all micro-batches of an update are left out, there is no update.
func TestNothingCounts(t *testing.T) {
	k := newTask(t, netText)
	k.recipe.Micros, k.config.Micros, k.source.n, k.source.poison = 2, 2, 1, 0
	k.batch, k.config.Updates, k.config.OnNaN = 1, 3, train.SkipOnNaN
	s := k.spied()
	r, _ := k.run(t, context.Background(), t.TempDir())
	require.Equal(t, int64(3), r.Skipped)
	require.True(t, math.IsNaN(r.LossLast))
	require.False(t, slices.ContainsFunc(s.runs, func(r run) bool { return r.update }))
}

// TestCheckpointContents: sums of gradients, zeros between updates, are not saved; the manifest counts
// what has been trained on.
func TestCheckpointContents(t *testing.T) {
	k := newTask(t, netText)
	k.recipe.Micros, k.config.Micros, k.config.Updates = 3, 3, 3
	r, _ := k.run(t, context.Background(), t.TempDir())
	c, err := checkpoint.Load(r.Saved)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, []int64{3, 1, 3, 34}, []int64{c.Step, c.Epoch, c.Batch, c.Samples},
		"22 samples, and 3 batches of 4")
	for _, e := range c.Others.Entries() {
		require.NotContains(t, e.Name, "_grad_")
		require.NotEqual(t, autograd.CountInput, e.Name)
	}
	for _, name := range []string{"w1", "mean", "var"} {
		_, ok := c.Weights.Tensor(name)
		require.True(t, ok, name)
	}
	_, ok := c.Others.Tensor("w1" + autograd.AvgSuffix)
	require.True(t, ok)
}

// TestEvaluationWeighs: batches of fewer samples count less, so that the size of batches does not
// matter; a loss that is not finite is a result and no fault.
func TestEvaluationWeighs(t *testing.T) {
	evaluated := func(batch, poison int64) float64 {
		k := newTask(t, netText)
		k.batch, k.config.Updates = batch, 0
		s := k.spied()
		k.prepare(t)
		k.config.Eval = &samples{n: 11, inputs: k.source.inputs, poison: poison}
		r, err := train.Run(context.Background(), &k.config)
		require.NoError(t, err)
		require.Empty(t, s.watches[len(s.watches)-1], "of evaluation")
		return r.EvalLast
	}
	require.InDelta(t, evaluated(11, -1), evaluated(4, -1), 1e-6)
	require.False(t, evaluated(4, 5) < 1e30)
}

// TestLogged: metrics are reported after the first update, every so many, and at the end.
func TestLogged(t *testing.T) {
	k := newTask(t, netText)
	k.config.Logging = 5
	k.run(t, context.Background(), t.TempDir())
	require.Equal(t, []int64{1, 5, 10, 15, 18}, k.watch.logged)
}

// TestRest: the step of the last batch does not take more than that of the others.
func TestRest(t *testing.T) {
	k := newTask(t, netText)
	k.sel.Strategy, k.batch, k.source.n = memopt.Level(1), 200, 399
	k.prepare(t)
	p := k.config.Plans
	require.NotNil(t, p.Rest)
	require.LessOrEqual(t, p.Rest.Arena, p.Step.Arena)
	require.Greater(t, p.Rest.Plan.Base.Peak.Bytes, p.Step.Plan.Planned.Peak.Bytes, "the test is worth nothing else")
}

// TestBudgetForEverything: while gradients are accumulated, moments count, though the step has none.
func TestBudgetForEverything(t *testing.T) {
	k := newTask(t, netText)
	k.recipe.Micros, k.config.Micros, k.batch, k.source.n = 2, 2, 200, 400
	k.prepare(t)
	limit := k.config.Plans.Total() * 97 / 100
	k.sel.Strategy = memopt.Budget{Total: limit, Solver: "auto"}
	k.prepare(t)
	require.LessOrEqual(t, k.config.Plans.Total(), limit)
	require.Positive(t, k.config.Plans.Step.Plan.Recompute.Nodes)
	k.sel.Strategy = memopt.Budget{Total: 2000, Solver: "auto"}
	_, err := k.config.Steps.Plan(context.Background(), 200, 0, k.sel)
	require.True(t, train.Infeasible(err), "%v", err)
}

// TestResumeScale: a loss scale goes on from where it was: how many good updates it has had, too.
func TestResumeScale(t *testing.T) {
	job := func() *task {
		k := newTask(t, netText)
		k.recipe.LossScale = "loss_scale"
		k.config.Scale = &schedule.Scale{Value: 1 << 10, Growth: 2, Backoff: 0.5, Interval: 4}
		return k
	}
	whole := job()
	_, want := whole.run(t, context.Background(), t.TempDir())
	require.Equal(t, float64(1<<14), whole.config.Scale.Value)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	k := job()
	k.watch.after, k.watch.end = 7, cancel
	k.run(t, ctx, dir)
	c, err := checkpoint.Load(dir)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, &checkpoint.LossScale{Scale: 1 << 11, Good: 3}, c.LossScale)
	next := job()
	next.config.Resume = c
	_, got := next.run(t, context.Background(), dir)
	require.Equal(t, want, got)
	require.Equal(t, whole.config.Scale, next.config.Scale)
}

// TestCompare: a job does not go on from the checkpoint of another one, and says what differs.
func TestCompare(t *testing.T) {
	k := newTask(t, netText)
	k.config.Updates = 2
	k.config.Manifest.Optimizer, k.config.Manifest.Schedule = []byte(`{"kind":"adamw","eps":1}`), []byte(`{}`)
	r, _ := k.run(t, context.Background(), t.TempDir())
	c, err := checkpoint.Load(r.Saved)
	require.NoError(t, err)
	defer c.Close()
	for _, v := range []struct {
		edit func(m *checkpoint.Manifest, s *train.Settings)
		want string // "": it goes on
	}{
		{func(*checkpoint.Manifest, *train.Settings) {}, ""},
		{func(_ *checkpoint.Manifest, s *train.Settings) { s.Batch = 5 }, "Batch 4, this one 5"},
		{func(_ *checkpoint.Manifest, s *train.Settings) { s.Shuffle = false }, "Order.Shuffle"},
		{func(_ *checkpoint.Manifest, s *train.Settings) { s.Last = "drop" }, "Order.Last keep, this one drop"},
		{func(m *checkpoint.Manifest, _ *train.Settings) { m.Data.Identity = "x" }, "data"},
		{func(m *checkpoint.Manifest, _ *train.Settings) { m.Seed = 9 }, "the seed"},
		{func(m *checkpoint.Manifest, _ *train.Settings) { m.DataSeed = 9 }, "the data seed"},
		{func(m *checkpoint.Manifest, _ *train.Settings) { m.Accumulation = 9 }, "Micros"},
		{func(m *checkpoint.Manifest, _ *train.Settings) { m.Model.StructureSHA256 = "x" }, "is not the model"},
		{func(m *checkpoint.Manifest, _ *train.Settings) { m.Optimizer = []byte(`{"kind":"sgd"}`) },
			"the optimizer adamw, this one sgd"},
	} {
		m, s := c.Manifest, k.config.Settings()
		v.edit(&m, &s)
		_, err := train.Compare(c, &m, s)
		if v.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, v.want)
		}
	}
	m := c.Manifest
	m.Optimizer, m.Schedule = []byte(`{"eps": 2, "kind": "adamw"}`), []byte(` { } `)
	changed, err := train.Compare(c, &m, k.config.Settings())
	require.NoError(t, err)
	require.Equal(t, []string{`optimizer: was {"eps":1,"kind":"adamw"}, is {"eps":2,"kind":"adamw"}`}, changed)

	next := newTask(t, netText)
	next.prepare(t)
	c.Batch = 6
	next.config.Resume = c
	_, err = train.Run(context.Background(), &next.config)
	require.ErrorContains(t, err, "its next batch is number 6 of an epoch that has 6")
}

// TestStepGraphs: a graph with gradients, and a whole step, train as the forward model does.
func TestStepGraphs(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 16] w1, float[16] scale, float[16] shift, float[16] mean, float[16] var,
	float[16, 4] w3) => (float loss) {
	a = MatMul(x, w1)
	n, m2, v2 = BatchNormalization<training_mode = 1>(a, scale, shift, mean, var)
	r = Relu(n)  o = MatMul(r, w3)  loss = SoftmaxCrossEntropyLoss(o, y)
}`
	forward := newTask(t, text)
	_, want := forward.run(t, context.Background(), t.TempDir())
	o := autograd.Options{LossOutput: true, Statistics: true}
	whole := forward.recipe.Optimizer
	for name, update := range map[string]*autograd.Optimizer{"gradients": nil, "step": &whole} {
		k := newTask(t, text)
		step, j, err := k.model.Differentiate(o, update)
		require.NoError(t, err)
		k.model = step
		_, got := k.run(t, context.Background(), t.TempDir())
		require.ElementsMatch(t, j.Wrt, k.config.Steps.Params, name)
		require.Equal(t, len(want), len(got), name)
		require.InDeltaSlice(t, forward.watch.losses, k.watch.losses, 1e-6, name)
	}
	k := newTask(t, text)
	micro, _, err := k.model.Differentiate(autograd.Options{Accumulate: true}, nil)
	require.NoError(t, err)
	_, err = train.Make(micro, k.recipe)
	require.Error(t, err)
	_, err = live.FindBoundary(k.model.Model)
	require.ErrorIs(t, err, live.ErrNoBoundary)
}

// TestOverflow: a loss scale with which gradients overflow leaves updates out, and falls, until they
// are finite; what was left out has changed nothing.
func TestOverflow(t *testing.T) {
	for _, micros := range []int{1, 3} {
		k := newTask(t, netText)
		k.recipe.LossScale, k.recipe.Micros, k.config.Micros = "loss_scale", micros, int64(micros)
		k.config.Scale = &schedule.Scale{Value: math.Ldexp(1, 127), Growth: 2, Backoff: 1.0 / (1 << 20), Interval: 2000}
		k.config.Updates = 1
		r, _ := k.run(t, context.Background(), t.TempDir())
		require.Equal(t, int64(1), r.Skipped)
		require.Equal(t, math.Ldexp(1, 107), k.config.Scale.Value)
		require.Equal(t, k.config.Begin["w1"].Data, saved(t, r.Saved, "w1"))
		require.Equal(t, make([]byte, 6*16*4), saved(t, r.Saved, "w1"+autograd.AvgSuffix))
		require.Equal(t, make([]byte, 8), saved(t, r.Saved, autograd.StepInput))

		k = newTask(t, netText)
		k.recipe.LossScale, k.recipe.Micros, k.config.Micros = "loss_scale", micros, int64(micros)
		k.config.Scale = &schedule.Scale{Value: math.Ldexp(1, 127), Growth: 2, Backoff: 1.0 / (1 << 20), Interval: 2000}
		r, _ = k.run(t, context.Background(), t.TempDir())
		require.Positive(t, r.Skipped)
		require.Less(t, r.Skipped, int64(9))
		require.Less(t, r.LossLast, r.LossFirst)
	}
}

// saved is a tensor of a checkpoint.
func saved(t *testing.T, path, name string) []byte {
	t.Helper()
	c, err := checkpoint.Load(path)
	require.NoError(t, err)
	defer c.Close()
	x, ok := c.Weights.Tensor(name)
	if !ok {
		x, ok = c.Others.Tensor(name)
	}
	require.True(t, ok, name)
	return slices.Clone(x.Data)
}

// branchText holds eight values at once in the file's order, and two in the order with the lowest peak.
const branchText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 16] w1, float[6, 16] w2, float[6, 16] w3, float[6, 16] w4,
	float[6, 16] w5, float[6, 16] w6, float[6, 16] w7, float[6, 16] w8) => (float loss) {
	a1 = MatMul(x, w1)  a2 = MatMul(x, w2)  a3 = MatMul(x, w3)  a4 = MatMul(x, w4)
	a5 = MatMul(x, w5)  a6 = MatMul(x, w6)  a7 = MatMul(x, w7)  a8 = MatMul(x, w8)
	o2 = Add(a1, a2)  o3 = Add(o2, a3)  o4 = Add(o3, a4)  o5 = Add(o4, a5)
	o6 = Add(o5, a6)  o7 = Add(o6, a7)  o8 = Add(o7, a8)  loss = SoftmaxCrossEntropyLoss(o8, y)
}`

// TestEvaluationFits: where the plan has made the arena of the steps small, evaluation takes fewer
// samples at a time, and gives the same loss; a limit that even one sample exceeds is an error.
func TestEvaluationFits(t *testing.T) {
	evaluated := func(order planner.OrderChoice, limit int64) (*train.Result, error) {
		k := newTask(t, branchText)
		k.batch, k.source.n, k.config.Updates = 200, 400, 0
		k.sel.Options.Order = order
		k.prepare(t)
		k.config.Eval = &samples{n: 200, inputs: k.source.inputs, poison: -1}
		k.config.Limit = limit
		return train.Run(context.Background(), &k.config)
	}
	wide, err := evaluated(planner.OrderFile, 0)
	require.NoError(t, err)
	tight, err := evaluated(planner.OrderMemory, 0)
	require.NoError(t, err)
	require.Less(t, tight.Predicted.Arena, wide.Predicted.Eval, "the test is worth nothing else")
	require.LessOrEqual(t, tight.Predicted.Eval, tight.Predicted.Arena)
	require.InDelta(t, wide.EvalLast, tight.EvalLast, 1e-6)
	_, err = evaluated(planner.OrderMemory, tight.Predicted.Total()-1)
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	_, err = evaluated(planner.OrderMemory, tight.Predicted.Total())
	require.NoError(t, err)
}

// rootText has a finite loss, and gradients that are no numbers: that of a root at 0 is infinite, and
// is taken from itself.
const rootText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, int64[B] y, float[6, 4] w1) => (float loss) {
	a = MatMul(x, w1)  z = Sub(a, a)  s = Sqrt(z)  o = Add(a, s)  loss = SoftmaxCrossEntropyLoss(o, y)
}`

// TestGradientsNotFinite: gradients that are not finite although the loss is end the job, with sums of
// them and with a loss scale that cannot fall any more, too.
func TestGradientsNotFinite(t *testing.T) {
	for _, micros := range []int{1, 3} {
		for _, scaled := range []bool{false, true} {
			k := newTask(t, rootText)
			k.recipe.Micros, k.config.Micros = micros, int64(micros)
			want := int64(1)
			if scaled {
				k.recipe.LossScale = "loss_scale"
				k.config.Scale = &schedule.Scale{Value: 4, Growth: 2, Backoff: 0.5, Interval: 2000}
				want = 3 // with 4, 2 and 1
			}
			k.prepare(t)
			_, err := train.Run(context.Background(), &k.config)
			var bad *train.NotFiniteError
			require.ErrorAs(t, err, &bad, "%d, %v", micros, scaled)
			require.Equal(t, want, bad.Update)
			require.Equal(t, want*int64(micros)-1, bad.Batch+6*bad.Epoch)
			k.config.OnNaN = train.SkipOnNaN
			r, err := train.Run(context.Background(), &k.config)
			require.NoError(t, err)
			require.Equal(t, k.config.Updates, r.Skipped)
		}
	}
}

// fullDisk is an engine whose states cannot be saved while a job's folder has as many checkpoints as fit.
type fullDisk struct {
	resident.Engine
	dir string
	fit int
}

func (d *fullDisk) Start(ctx context.Context, o executor.Options) (resident.Machine, error) {
	m, err := d.Engine.Start(ctx, o)
	return &fullMachine{m, d}, err
}

type fullMachine struct {
	resident.Machine
	disk *fullDisk
}

func (m *fullMachine) Read(name string, dst []byte) error {
	list, err := filepath.Glob(filepath.Join(m.disk.dir, "checkpoints", "step-*"))
	if err != nil || len(list) >= m.disk.fit {
		return errors.Join(err, fmt.Errorf("write: %w", syscall.ENOSPC))
	}
	return m.Machine.Read(name, dst)
}

// TestFullDisk: a job that may remove old checkpoints does so where a new one does not fit beside them, and goes
// on to save; the only one is never removed, nor is any where all are to be kept.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		fit, limit int
		saved      []int64
		removed    int
	}{
		{fit: 2, limit: 3, saved: []int64{15, 18}, removed: 4},
		{fit: 3, limit: 2, saved: []int64{15, 18}},
		{fit: 1, limit: 3, saved: []int64{3}},
		{fit: 2, limit: 0, saved: []int64{3, 6}},
	} {
		dir := t.TempDir()
		k := newTask(t, netText)
		k.config.Engine = &fullDisk{k.config.Engine, dir, c.fit}
		k.config.SaveEvery, k.config.SaveLimit = 3, c.limit
		k.prepare(t)
		folder, err := checkpoint.OpenJob(dir)
		require.NoError(t, err)
		k.config.Folder = folder
		_, err = train.Run(context.Background(), &k.config)
		if last := c.saved[len(c.saved)-1]; last == k.config.Updates {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
		steps, err := folder.Steps()
		require.NoError(t, err)
		require.Equal(t, c.saved, steps)
		require.Len(t, k.watch.warnings, c.removed)
		for _, text := range k.watch.warnings {
			require.Contains(t, text, "the disk is full: the checkpoint of update")
		}
		require.NoError(t, folder.Close())
	}
}

// TestResumeFarAway: a checkpoint that claims more epochs or samples than can be counted is refused.
func TestResumeFarAway(t *testing.T) {
	dir := t.TempDir()
	k := newTask(t, netText)
	r, _ := k.run(t, context.Background(), dir)
	last := data.MaxEpoch(22)
	for _, c := range []struct {
		want  string // of the error; "": none
		spoil func(m *checkpoint.Manifest)
	}{
		{"its next epoch is number", func(m *checkpoint.Manifest) { m.Epoch = math.MaxInt64 - 1 }},
		{"its next epoch is number", func(m *checkpoint.Manifest) { m.Epoch = last + 1 }},
		{"", func(m *checkpoint.Manifest) { m.Epoch = last }},
		{"more than can be counted", func(m *checkpoint.Manifest) { m.Samples = math.MaxInt64 - 1 }},
		{"more than can be counted", func(m *checkpoint.Manifest) { m.Samples = last*22 + 1 }},
		{"", func(m *checkpoint.Manifest) { m.Samples = last * 22 }},
		{"its next batch is number 6 of an epoch that has 6", func(m *checkpoint.Manifest) { m.Batch = 6 }},
		{"", func(m *checkpoint.Manifest) { m.Batch = 5 }},
	} {
		k := newTask(t, netText)
		k.prepare(t)
		k.config.Updates++
		saved, err := checkpoint.Load(r.Saved)
		require.NoError(t, err)
		c.spoil(&saved.Manifest)
		k.config.Resume = saved
		if _, err = train.Run(context.Background(), &k.config); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
		require.NoError(t, saved.Close())
	}
}
