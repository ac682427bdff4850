package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/internal/memlimit"
	"memopt/planner"
	"memopt/report"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/data"
	"memopt/train/events"
	"memopt/train/ortfiles"
)

func (a *app) trainCommand() *cobra.Command {
	var t trainFlags
	cmd := &cobra.Command{
		Use:   "train MODEL --data DATA",
		Short: "Train a model: plan the step, make the job fit, and run it",
		Long: `train makes the training step of a forward model, or takes a step graph, plans
it as the selection flags or ORTMODULE_MEMORY_OPT_LEVEL and
ORTMODULE_MEMORY_OPT_CONFIG say, prints the peak and what it is made of, trains,
and reports the measured peak beside the predicted one.

DATA is a file of tokens (nanoGPT's .bin), .npy or .npz arrays, folders in ONNX's
test layout, or raw records; docs/training.md says how inputs are found in them.
example:text is a small built-in text.

Names and defaults of flags are those of Hugging Face's TrainingArguments, where
these have them. Biases and norms have no weight decay.

With -o, the job keeps checkpoints, metrics.jsonl and TensorBoard's events in a
folder. Ctrl-C, SIGTERM and SIGUSR1 end it after the update that is under way,
with a checkpoint and exit code 9; a second signal ends it at once. --resume goes
on bit for bit.`,
		Example: `  memopt train example:transformer --data example:text --budget 60% --max-steps 50
        a built-in model and text: nothing else is needed
  memopt train gpt2.onnx --data train.bin --eval-data val.bin --dim seq=1024 --batch 8 -o job \
      --learning-rate 6e-4 --min-lr 6e-5 --lr-scheduler cosine --warmup-steps 2000 --max-steps 100000
        a language model on files of tokens
  memopt train resnet.onnx --data 'images/*.npz' --batch auto --budget 8GiB -o job
        the largest batch that fits
  memopt train gpt2.onnx --data train.bin --dim seq=1024 -o job --resume
        go on where the job was stopped`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error { return a.train(args[0], &t) },
	}
	t.register(cmd.Flags())
	return cmd
}

// training is a job that is being prepared.
type training struct {
	*app
	*trainFlags
	name    string
	format  report.Format
	model   *memopt.Model
	engine  verify.Engine
	recipe  train.Recipe
	steps   *train.Steps
	chosen  *chosen
	config  train.Config
	view    report.TrainView
	stays   int64 // bytes of states and inputs
	sources []io.Closer
	ort     *ortfiles.Artefacts // where the model is a folder of onnxruntime-training's; else nil
}

// train runs a job.
func (a *app) train(name string, flags *trainFlags) (err error) {
	t := &training{app: a, trainFlags: flags, name: name}
	defer func() {
		for _, c := range slices.Backward(t.sources) {
			c.Close()
		}
	}()
	for _, prepare := range []func() error{t.check, t.open, t.makeSteps, t.openData, t.openFolder, t.plan, t.begin,
		t.describe, t.openMetrics} {
		if err := prepare(); err != nil {
			return err
		}
		if a.ctx.Err() != nil {
			return classify(context.Canceled)
		}
	}
	return t.run()
}

// check refuses flags that do not go together.
func (t *training) check() (err error) {
	if t.format, err = report.ParseFormat(t.global.output); err != nil {
		return usage("%w", err)
	}
	if len(t.data.paths) == 0 {
		return usage("train: --data is missing: name files of samples, or example:text")
	}
	if t.resume != "" && t.out == "" && t.resume == newest {
		return usage("--resume goes on after the newest checkpoint of a job: name its folder with -o, or " +
			"a checkpoint with --resume=PATH")
	}
	if t.resume != "" && t.init != "" {
		return usage("--init and --resume cannot be combined: a checkpoint has all weights")
	}
	if t.evalEvery > 0 && len(t.data.eval) == 0 {
		return usage("--eval-every needs --eval-data, the samples for evaluation")
	}
	if t.config.OnNaN, err = t.nan(); err != nil {
		return err
	}
	if !t.set.Changed("seed") {
		t.global.seed = defaultSeed
	}
	return nil
}

// defaultSeed is the seed of TrainingArguments.
const defaultSeed = 42

// open reads the model and readies what executes.
func (t *training) open() (err error) {
	t.states = t.selection.states
	if err := t.openArtefacts(); err != nil {
		return err
	}
	t.smallExample()
	if t.model, err = t.load(t.name); err != nil {
		return err
	}
	t.sources = append(t.sources, t.model)
	if t.engine, err = t.trainFlags.engine.engine(t.app); err != nil {
		return err
	}
	if t.engine.Traits().Virtual {
		return usage("train -e %s: nothing would be computed; memopt plan says what a step takes",
			t.trainFlags.engine.backend)
	}
	if t.config.Engine, err = residentOf(t.engine); err != nil {
		return err
	}
	if t.engine.Traits().Reorders && !t.set.Changed("mem-pattern") {
		// From the second step on, its pattern takes up to twice what the first step takes.
		t.trainFlags.engine.memPattern = "off"
	}
	return t.trainFlags.engine.session(t.app, t.engine, &t.config.Session)
}

// residentOf is the engine as one that keeps states.
func residentOf(e verify.Engine) (resident.Engine, error) {
	if d := e.Traits().Device; d != nil {
		return resident.On(d), nil
	}
	if own, ok := e.(resident.Engine); ok {
		return own, nil
	}
	return nil, usage("train: -e %s cannot train", e.Name())
}

// smallExample takes the example that stands for a large one where it is trained.
func (t *training) smallExample() {
	name, _ := strings.CutPrefix(t.name, memopt.ExamplePrefix)
	ex, ok := examples.Lookup(name)
	if !ok || ex.Train == "" || !strings.HasPrefix(t.name, memopt.ExamplePrefix) {
		return
	}
	small := memopt.ExamplePrefix + ex.Train
	t.note("%s stands for %s, which trains in seconds; to train the large one, write it with memopt apply %s -o FILE",
		t.name, small, t.name)
	t.name = small
}

// makeSteps makes the steps of the job.
func (t *training) makeSteps() (err error) {
	traits := t.engine.Traits()
	if t.recipe.Optimizer, err = t.optimizer.optimizer(t.model.Model); err != nil {
		return err
	}
	scale, err := t.scale(t.model.Model)
	if err != nil {
		return err
	}
	losses, err := parseLosses(t.loss)
	if err != nil {
		return err
	}
	t.recipe.Differentiate = autograd.Options{Losses: losses, Params: t.optimizer.params, NoGrad: t.optimizer.freeze,
		Unfused: !t.fuse}
	t.recipe.Micros, t.recipe.Seed = t.micros, t.global.seed
	if t.config.Scale = scale; scale != nil {
		t.recipe.LossScale = "loss_scale"
	}
	// memopt's own loop on the CPU ends a step before it writes; elsewhere the graph itself must.
	_, accelerator := traits.Device.(executor.Accelerator)
	t.recipe.Optimizer.Guard = scale == nil && (traits.Device == nil || accelerator)
	if t.steps, err = train.Make(t.model, t.recipe); err != nil {
		return classifyGrad(t.name, err)
	}
	if err := t.evalArtefact(); err != nil {
		return err
	}
	if t.steps.Joint.LossScale == "" {
		t.config.Scale = nil
	}
	if t.steps.Forward != nil {
		t.noteGrad(t.steps.Joint)
	}
	if t.steps.Loss == "" {
		return invalid(fmt.Errorf("%s: no value of the graph is known to be its loss, without which no job can be "+
			"watched", t.name))
	}
	return nil
}

// openData opens the data and settles the batch.
func (t *training) openData() error {
	inputs, err := t.steps.Describe()
	if err != nil {
		return classify(err)
	}
	c := &t.config
	seed := uint64(t.data.seed)
	if !t.set.Changed("data-seed") {
		seed = uint64(t.global.seed)
	}
	if c.Source, err = t.openSource(t.data.paths, inputs, seed); err != nil {
		return usage("--data: %w", err)
	}
	c.Inputs = c.Source.Inputs()
	if err := t.steps.Bind(c.Inputs); err != nil {
		return classify(err)
	}
	if len(t.data.eval) > 0 {
		if c.Eval, err = t.openSource(t.data.eval, c.Inputs, seed); err != nil {
			return usage("--eval-data: %w", err)
		}
	}
	last, err := data.ParseLast(t.data.last)
	if err != nil {
		return usage("--last-batch: %w", err)
	}
	if t.steps.Batch == "" && last == data.Keep {
		last = data.Drop // the file's step takes no other number of rows
	}
	c.Order = data.Order{Samples: c.Source.Samples(), Seed: seed, Shuffle: t.data.shuffle, Last: last}
	return nil
}

// openSource opens one set of samples and looks at all of it.
func (t *training) openSource(paths []string, inputs []data.Input, seed uint64) (data.Source, error) {
	o, err := t.data.options(seed)
	if err != nil {
		return nil, err
	}
	source, err := data.Open(paths, inputs, o)
	if err != nil {
		return nil, err
	}
	t.sources = append(t.sources, source)
	return source, source.Check(t.ctx)
}

// openFolder takes the job's folder and the checkpoint to go on with.
func (t *training) openFolder() (err error) {
	c := &t.config
	if t.out != "" {
		if c.Folder, err = checkpoint.OpenJob(t.out); err != nil {
			return fileError("-o %w", err)
		}
		t.sources = append(t.sources, c.Folder)
	} else {
		t.note("no folder is given with -o: checkpoints and metrics are not kept, and the trained weights are " +
			"lost at the end")
	}
	if t.resume == "" {
		return t.refuseOld()
	}
	path := t.resume
	if path == newest {
		path = t.out
	}
	if c.Resume, err = checkpoint.Load(path); err != nil {
		return fileError("--resume: %w", err)
	}
	t.sources = append(t.sources, c.Resume)
	return nil
}

// refuseOld keeps a job from beginning anew in the folder of another one.
func (t *training) refuseOld() error {
	if t.config.Folder == nil {
		return nil
	}
	steps, err := t.config.Folder.Steps()
	if err != nil {
		return fileError("-o %w", err)
	}
	if n := len(steps); n > 0 {
		return usage("-o %s: has the checkpoints of a job, up to update %d: go on with --resume, or name "+
			"another folder", t.out, steps[n-1])
	}
	return nil
}

// plan settles the batch and plans the steps.
func (t *training) plan() (err error) {
	traits := t.engine.Traits()
	t.selection.executes = onCPU(traits)
	if t.chosen, err = t.selection.resolve(t.app, t.steps.Step); err != nil {
		return err
	}
	if b, ok := t.chosen.strategy.(memopt.Budget); ok && !t.set.Changed("effort") && !t.set.Changed("time-limit") {
		// A job should start soon, and with the same plan on every machine that is not far slower.
		b.Effort = planEffort
		t.chosen.strategy = b
	}
	t.chosen.options.Threads = t.global.threads
	sel := train.Selection{Strategy: t.chosen.strategy, Options: t.chosen.options, Traits: traits, Seed: t.global.seed}
	rows, err := t.rows(sel)
	if err != nil {
		return err
	}
	c := &t.config
	c.Order.Batch = int(rows)
	if err := c.Order.Check(); err != nil {
		return usage("--data: %w", err)
	}
	rest := int64(0)
	if batches := c.Order.Batches(); batches > 0 {
		if last := int64(c.Order.Rows(batches - 1)); last != rows {
			rest = last
		}
	}
	if t.stays, err = t.steps.Stays(rows); err != nil {
		return classify(err)
	}
	c.Plans, err = t.steps.Plan(t.ctx, rows, rest, sel)
	if err == nil {
		err = t.fits(c.Plans)
	}
	if train.Unfit(err) && t.ctx.Err() == nil {
		return t.unfit(err, rows, sel)
	}
	if err != nil {
		return t.classifyPlan(t.name, err)
	}
	for _, w := range c.Plans.Step.Plan.Warnings {
		t.warn("%s", w)
	}
	return nil
}

// planEffort is the work of a job's search for a plan to a budget, in seconds of a typical core.
const planEffort = 2

// limit is the bytes for everything: of --budget where that is no share, else what memory is free.
func (t *training) limit() (int64, string) {
	if b, ok := t.chosen.strategy.(memopt.Budget); ok && b.Total > 0 {
		return b.Total, "--budget " + t.selection.budget
	}
	if d, ok := t.engine.Traits().Device.(executor.Accelerator); ok {
		if free, known := d.Memory().Available(); known {
			return free, "the device's free memory"
		}
	}
	if l, ok := memlimit.Available(); ok {
		return l.Bytes, l.By
	}
	return math.MaxInt64, ""
}

// fits refuses plans that take more than there is.
func (t *training) fits(p *train.Plans) error {
	limit, by := t.limit()
	if total := p.Total(); total > limit {
		return fmt.Errorf("%w: the job takes %d bytes (%d that stay, %d of inputs, an arena of %d), and %d are "+
			"there, by %s",
			executor.ErrOutOfMemory, total, p.Persistent, p.Inputs, p.Arena(), limit, by)
	}
	return nil
}

// rows is the number of samples of a step.
func (t *training) rows(sel train.Selection) (int64, error) {
	if c := t.config.Resume; c != nil && t.steps.Batch != "" && (t.batch == "" || t.batch == "auto") {
		s, err := train.SavedSettings(c) // the job goes on as it began
		return s.Batch, classify(err)
	}
	bound, isBound := t.steps.Step.Dims[t.steps.Batch]
	switch n, err := strconv.ParseInt(t.batch, 10, 64); {
	case t.steps.Batch == "" && t.batch != "" && t.batch != fmt.Sprint(t.steps.Rows):
		return 0, usage("--batch %s: the model has the fixed batch %d", t.batch, t.steps.Rows)
	case t.steps.Batch == "":
		return t.steps.Rows, nil
	case t.batch == "auto":
		return t.largest(sel)
	case t.batch == "" && isBound:
		return bound, nil
	case t.batch == "":
		return min(defaultBatch, t.config.Source.Samples()), nil
	case err != nil || n < 1 || n > math.MaxInt32:
		return 0, usage("--batch %q: wanted a number of samples from 1 on, or auto", t.batch)
	default:
		return n, nil
	}
}

// defaultBatch is per_device_train_batch_size of TrainingArguments.
const defaultBatch = 8

// largest is the most samples of a step that fit.
func (t *training) largest(sel train.Selection) (int64, error) {
	limit, by := t.limit()
	if b, ok := sel.Strategy.(memopt.Budget); ok {
		b.Effort, b.Limit = 0, 0 // for each number of samples, the first plan that fits
		sel.Strategy = b
	}
	rows, _ := train.Largest(t.ctx, t.steps, t.config.Source.Samples(), limit, sel)
	if rows == 0 && t.ctx.Err() == nil {
		_, err := t.steps.Plan(t.ctx, 1, 0, sel)
		if err == nil {
			err = fmt.Errorf("%w: not even one sample fits into %d bytes, by %s", executor.ErrOutOfMemory, limit, by)
		}
		return 0, t.unfit(err, 1, sel)
	}
	t.note("--batch auto: %d samples of a step are the most that fit %s (%s)", rows, report.Bytes(limit), by)
	return rows, nil
}

// unfit says that a job does not fit, and what would make it.
func (t *training) unfit(err error, rows int64, sel train.Selection) error {
	limit, _ := t.limit()
	also := ""
	var low *planner.UnfitError
	if b, ok := sel.Strategy.(memopt.Budget); ok && b.Total == 0 && errors.As(err, &low) {
		// A share is of another baseline where the job is another one.
		limit = t.stays + low.Budget
		also = fmt.Sprintf(" --budget %d", limit)
	}
	remake := func(r train.Recipe) (*train.Steps, error) {
		s, err := train.Make(t.model, r)
		if err == nil {
			err = s.Bind(t.config.Inputs)
		}
		return s, err
	}
	ways := train.Ways(t.ctx, t.steps, t.recipe, rows, limit, sel, remake)
	for _, w := range ways {
		t.say("fits:", fmt.Sprintf("%s takes %s: %s", w.What+also, report.Bytes(w.Total), w.Price))
	}
	if len(ways) == 0 {
		t.say("fits:", "nothing that was tried: smaller batches with accumulation, recomputation, an optimizer "+
			"without state")
	}
	return t.classifyPlan(t.name, err)
}

// begin settles how the job begins: its updates, weights and the position.
func (t *training) begin() (err error) {
	c := &t.config
	c.Steps, c.Micros = t.steps, int64(t.micros)
	t.view.PerEpoch = (c.Order.Batches() + c.Micros - 1) / c.Micros
	c.Updates = int64(math.Ceil(t.epochs * float64(t.view.PerEpoch)))
	if t.maxSteps > 0 {
		c.Updates = int64(t.maxSteps)
	}
	if c.Updates < 1 {
		return usage("--epochs %v: there would be no update", t.epochs)
	}
	if c.Schedule, err = t.optimizer.schedule(c.Updates); err != nil {
		return err
	}
	c.EvalEvery, c.SaveEvery, c.SaveLimit = int64(t.evalEvery), int64(t.saveEvery), t.saveLimit
	if c.EvalEvery == 0 {
		c.EvalEvery = t.view.PerEpoch
	}
	if c.Logging = int64(t.logging); c.Logging == 0 {
		c.Logging = min(500, max(1, c.Updates/20))
	}
	if err := t.initial(); err != nil {
		return err
	}
	if err := t.manifest(); err != nil {
		return err
	}
	if c.Resume == nil {
		return nil
	}
	changed, err := train.Compare(c.Resume, &c.Manifest, c.Settings())
	if err != nil {
		return classify(err)
	}
	for _, text := range changed {
		t.warn("--resume: %s: the job goes on, but not as it would have without the change", text)
	}
	return nil
}

// manifest writes down what every checkpoint says of the job.
func (t *training) manifest() (err error) {
	c := &t.config
	m := &c.Manifest
	m.Version, m.Seed, m.DataSeed = thisBuild().Version, uint64(t.global.seed), c.Order.Seed
	if m.Model, err = t.describeModel(); err != nil {
		return fileError("%w", err)
	}
	if m.Data.Identity, err = c.Source.Identity(); err != nil {
		return usage("--data: %w", err)
	}
	m.Data.Paths, m.Data.Samples = t.data.paths, c.Source.Samples()
	m.Accumulation, m.Dims = c.Micros, map[string]int64{}
	for name, n := range c.Plans.Step.Side.Dims {
		m.Dims[name] = n
	}
	o := t.recipe.Optimizer
	m.Optimizer, err = json.Marshal(map[string]any{"kind": o.Kind, "weight_decay": o.WeightDecay,
		"momentum": o.Momentum,
		"nesterov": o.Nesterov, "beta1": o.Beta1, "beta2": o.Beta2, "eps": o.Eps, "max_grad_norm": o.MaxNorm,
		"groups": t.optimizer.groups, "frozen": t.optimizer.freeze, "decay_all": t.optimizer.decayAll})
	if err != nil {
		return err
	}
	s := c.Schedule
	m.Schedule, err = json.Marshal(map[string]any{"kind": s.Kind, "lr": s.LR, "min_lr": s.MinLR, "warmup": s.Warmup,
		"total": s.Total})
	if p := c.Plans.Step.Plan; err == nil && p != nil {
		m.Plan, err = p.File(t.global.seed)
	}
	return err
}

// describeModel says which model is trained, by its file as it is.
func (t *training) describeModel() (checkpoint.Model, error) {
	if t.name == streamName {
		return checkpoint.DescribeModel(t.model.Model, t.steps.IsState)
	}
	m, done, err := checkpoint.OpenModel(t.name)
	if err != nil {
		return checkpoint.Model{}, err
	}
	defer done()
	return checkpoint.DescribeModel(m, t.steps.IsState)
}

// describe fills in what the reports say.
func (t *training) describe() error {
	c, v := &t.config, &t.view
	step := c.Plans.Step
	b := step.Side.BackwardNodes()
	v.Backend, v.Optimizer = t.engine.Name(), t.recipe.Optimizer.Kind
	v.Forward, v.Backward = int64(len(step.Side.Model.Graph.Nodes)-b), int64(b)
	for i := range t.steps.States {
		s := &t.steps.States[i]
		if !slices.Contains(t.steps.Params, s.Name) {
			continue
		}
		v.Trained++
		if n, err := s.Type.Shape.Elements().Eval(step.Side.Dims); err == nil {
			v.Elements += n
		}
	}
	v.Frozen = t.steps.Frozen()
	v.Data = dataText(t.data.paths, c.Source)
	v.Batch, v.Micros, v.Updates = int64(c.Order.Batch), c.Micros, c.Updates
	if c.Resume != nil {
		v.Begun = c.Resume.Step
	}
	v.Plan = nil
	if step.Plan != nil {
		v.Plan = step.Plan.Plan
	}
	if c.Plans.Update != nil && c.Plans.Update.Arena > step.Arena {
		v.Plan = c.Plans.Update.Plan.Plan
	}
	v.EvalLast = math.NaN()
	return nil
}

// dataText says what data are.
func dataText(paths []string, s data.Source) string {
	name := filepath.Base(paths[0])
	if strings.HasPrefix(paths[0], memopt.ExamplePrefix) {
		name = paths[0]
	}
	if n := len(paths) - 1; n > 0 {
		name += fmt.Sprintf(" and %d more", n)
	}
	text := fmt.Sprintf("%s: %s samples", name, report.Thousands(s.Samples()))
	if n := s.Tokens(); n > 0 {
		text += fmt.Sprintf(" of %s tokens", report.Thousands(n))
	}
	return text
}

// openMetrics opens what the job reports to besides the terminal.
func (t *training) openMetrics() (err error) {
	c := &t.config
	if c.Folder == nil {
		return nil
	}
	upTo := int64(0)
	if c.Resume != nil {
		upTo = c.Resume.Step
	}
	if c.Metrics, err = events.OpenMetrics(filepath.Join(t.out, "metrics.jsonl"), upTo); err != nil {
		return fileError("-o: %w", err)
	}
	t.sources = append(t.sources, c.Metrics)
	if c.Board, err = events.OpenTensorBoard(t.out, upTo); err != nil {
		return fileError("-o: %w", err)
	}
	t.sources = append(t.sources, c.Board)
	return nil
}

// run executes the job and reports.
func (t *training) run() error {
	// A job that has begun ends by its own rules: after an update, with a checkpoint.
	t.keeper.stay()
	executor.SettleProcessMemory() // what planning took is no memory of the job
	w := newTrainWatcher(t)
	t.config.Observer = w
	begin := time.Now()
	r, err := train.Run(t.ctx, &t.config)
	w.close()
	if err != nil {
		return t.classifyTrain(err)
	}
	v := &t.view
	v.Took = time.Since(begin)
	v.Done, v.Skipped, v.Stopped, v.Saved = r.Updates, r.Skipped, r.Stopped, r.Saved
	v.LossFirst, v.LossLast, v.EvalLast, v.Measured = r.LossFirst, r.LossLast, r.EvalLast, r.MeasuredArena
	v.Process = r.Process
	v.PerSecond = w.rate()
	if err := report.TrainReport(t.app.out, t.format, v); err != nil {
		return err
	}
	return t.ended(r)
}

// ended is the exit code of a job that has ended without an error.
func (t *training) ended(r *train.Result) error {
	switch {
	case r.Stopped && r.Saved != "":
		return &exitError{exitSaved,
			fmt.Errorf("stopped by a signal after update %d of %d; %s has the checkpoint: go on "+
				"with --resume", r.Updates, t.config.Updates, r.Saved)}
	case r.Stopped:
		return &exitError{exitInterrupted,
			fmt.Errorf("stopped by a signal after update %d of %d; nothing is kept without -o",
				r.Updates, t.config.Updates)}
	}
	promised := max(t.view.Arena, t.view.EvalArena)
	limit := float64(promised) * (1 + t.engine.Traits().PeakTolerance)
	if t.engine.Traits().Reorders { // its arena rounds every value up
		limit += float64(verify.Grain * len(t.config.Plans.Step.Side.Model.Graph.Values))
	}
	if float64(r.MeasuredArena) > limit {
		return &exitError{exitAbove, fmt.Errorf("%s: the measured arena of %d bytes is above the predicted one of %d",
			t.name, r.MeasuredArena, max(t.view.Arena, t.view.EvalArena))}
	}
	return nil
}

// classifyTrain gives an error of a job its exit code.
func (t *training) classifyTrain(err error) error {
	var nan *train.NotFiniteError
	switch {
	case errors.As(err, &nan):
		return &exitError{exitDiffers, fmt.Errorf("%s: %w", t.name, err)}
	case errors.Is(err, live.ErrNoBoundary), errors.Is(err, planner.ErrUnfit):
		return t.classifyPlan(t.name, err)
	}
	return classify(wrap(t.name, err))
}

// parseLosses reads --loss of a job: NAME or NAME=WEIGHT.
func parseLosses(texts []string) (list []autograd.Loss, err error) {
	for _, text := range texts {
		l, err := parseLoss(text)
		if err != nil {
			return nil, err
		}
		if l.Seed {
			return nil, usage("--loss %q: a job needs a loss that is a scalar of the graph", text)
		}
		list = append(list, l)
	}
	return list, nil
}
