// Package traincmd has the verbs of training jobs: train, export.
package traincmd

import (
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/planner"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/ortfiles"
	"memopt/view/report"
)

func Train(a *cli.App) *cobra.Command {
	var t trainFlags
	cmd := &cobra.Command{
		Use:   "train MODEL --data DATA",
		Short: "Train a model: plan the step, make the job fit, and run it",
		Long: `train makes the training step of a forward model, or takes a step graph, plans
it as the selection flags or ORTMODULE_MEMORY_OPT_LEVEL and
ORTMODULE_MEMORY_OPT_CONFIG say, prints the peak and its parts, trains, and
reports the measured peak beside the predicted one.

DATA is a file of tokens (nanoGPT's .bin), .npy or .npz arrays, folders in ONNX's
test layout, or raw records; docs/training.md says how inputs are found in them.
example:text is a small built-in text.

Names and defaults of flags are those of Hugging Face's TrainingArguments, where
these have them. Biases and norms have no weight decay.

With -o, the job keeps checkpoints, metrics.jsonl and TensorBoard's events in a
folder. Ctrl-C, SIGTERM and SIGUSR1 end it after the micro-batch that is under
way, with a checkpoint of the last whole update and exit code 9; a second signal
ends it at once. --resume goes on bit for bit, with the model and the flags of the
job where none are given.

--eval-only evaluates the model, or with --resume a checkpoint, and does not
train.

mpirun -n N starts N ranks of one job, each with batches of its own: together
they train as one that accumulates N times the steps (docs/cluster.md).`,
		Example: `  memopt train example:transformer --data example:text --budget 60% --max-steps 50
        a built-in model and text: no other file is needed
  memopt train gpt2.onnx --data train.bin --eval-data val.bin --dim seq=1024 --batch 8 -o job \
      --learning-rate 6e-4 --min-lr 6e-5 --lr-scheduler cosine --warmup-steps 2000 --max-steps 100000
        a language model on files of tokens
  memopt train resnet.onnx --data 'images/*.npz' --batch auto --budget 8GiB -o job
        the largest batch that fits
  memopt train gpt2.onnx --data wiki.bin --blocks documents:50256 --dim seq=64..1024 --budget 12GiB -o job
        documents of different lengths, with a plan for each band of lengths
  memopt train -o job --resume
        go on where the job was stopped, with its model and flags
  memopt train -o job --resume --eval-only
        the loss of the newest checkpoint on the job's evaluation data; other data: --eval-data
  mpirun -n 4 memopt train gpt2.onnx --data train.bin --dim seq=1024 -o job --zero 1
        four processes, which share the optimizer's states`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && t.resume != "" {
				return nil // the checkpoint has it
			}
			return cli.ExactModel(cmd, args)
		},
		RunE: func(_ *cobra.Command, _ []string) error { return trainModel(a, t.given, &t) },
	}
	t.register(cmd.Flags())
	cmd.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		return a.PrepareArguments(cmd, func() ([]string, error) {
			args, err := t.recall(args)
			if len(args) > 0 {
				t.given = args[0]
			}
			return args, err
		})
	}
	return cmd
}

// training is a job that is being prepared.
type training struct {
	*cli.App
	*trainFlags
	name   string
	format report.Format
	model  *memopt.Model
	engine verify.Engine
	recipe train.Recipe
	steps  *train.Steps
	chosen *option.Chosen
	config train.Config
	facts  checkpoint.Data // of config.Source
	view   report.TrainView
	stays  int64 // bytes of states and inputs
	moving memopt.MoveOptions
	ragged ragged
	// histogram is that of a file of --dim; nil: the sizes are counted in the data.
	histogram *planner.Histogram
	sources   []io.Closer
	rankState
	ort *ortfiles.Artefacts // where the model is a folder of onnxruntime-training's; else nil
}

// trainModel runs a job.
func trainModel(a *cli.App, name string, flags *trainFlags) (err error) {
	// A job changes its own copies alone: ranks, artefacts and the defaults of a job have values that the flags did
	// not.
	own, request := *a, *flags
	t := &training{App: &own, trainFlags: &request, name: name}
	defer func() {
		t.StopClock()
		a.Global.Quiet, a.Model = own.Global.Quiet, own.Model // for the end of the program
	}()
	defer func() {
		for _, c := range slices.Backward(t.sources) {
			c.Close()
		}
	}()
	defer func() { err = t.leave(err) }()
	steps := []func() error{t.openRanks, t.compareFlags, t.check, t.checkRanks, t.takeSizes, t.open,
		t.makeSteps, t.vary, t.openData, t.openFolder,
		t.choosePlan, t.plan, t.begin, t.compareRanks, t.describe, t.openMetrics}
	if t.evalOnly {
		steps = []func() error{t.openRanks, t.compareFlags, t.check, t.checkRanks, t.takeSizes, t.open,
			t.makeSteps, t.vary, t.openData, t.openFolder, t.sizeEvaluation, t.beginEvaluation, t.compareRanks}
	}
	for _, prepare := range steps {
		err := prepare()
		if err == nil {
			err = t.canceled()
		}
		if err = t.agree(err); err != nil {
			return err
		}
	}
	switch {
	case t.dryRun:
		return t.onFirst(t.foretell())
	case t.evalOnly:
		return t.evaluate()
	}
	return t.run()
}

// check refuses flags that do not go together.
func (t *training) check() (err error) {
	if t.format, err = report.ParseFormat(t.Global.Output); err != nil {
		return cli.Usage("%w", err)
	}
	if t.evalOnly {
		if err := t.checkEvalOnly(); err != nil {
			return err
		}
	}
	if len(t.data.paths) == 0 {
		return cli.Usage("train: --data is missing: name files of samples, or example:text")
	}
	if t.evalEvery > 0 && len(t.data.eval) == 0 {
		return cli.Usage("--eval-every needs --eval-data, the samples for evaluation")
	}
	if t.config.OnNaN, err = t.nan(); err != nil {
		return err
	}
	if err := t.checkHome(); err != nil {
		return err
	}
	if !t.set.Changed("seed") {
		t.Global.Seed = defaultSeed
	}
	if r := t.selection.MovedPlan(); r != nil {
		own := *r // whose random nodes have the seeds of the job
		own.Seed = t.Global.Seed
		return t.selection.AgreeMoves(t.App, &t.moves, t.set, &own)
	}
	if t.hostDir != "" && !t.moves.Given() {
		return nil // --host-budget is for the states alone
	}
	t.moving, _, err = t.selection.Moves(t.App, &t.moves, t.executes())
	return err
}

// executes is the device that the job runs on, as far as times count.
func (t *training) executes() string {
	if t.trainFlags.engine.Backend == option.CpuDevice {
		return option.CpuDevice
	}
	return ""
}

// defaultSeed is the seed of TrainingArguments.
const defaultSeed = 42

// open reads the model and readies the engine.
func (t *training) open() (err error) {
	if err := t.openArtefacts(); err != nil {
		return err
	}
	t.smallExample()
	if t.model, err = load.Model(t.App, t.name, load.Reading{States: t.selection.States}); err != nil {
		return err
	}
	t.sources = append(t.sources, t.model)
	if t.engine, err = t.trainFlags.engine.Engine(t.App); err != nil {
		return err
	}
	if t.engine.Traits().Virtual {
		return cli.Usage("train -e %s: the device does not compute; memopt plan shows the memory of a step",
			t.trainFlags.engine.Backend)
	}
	if err := t.checkHomeOn(); err != nil {
		return err
	}
	if t.config.Engine, err = residentOf(t.engine); err != nil {
		return err
	}
	if err := t.trainFlags.engine.Session(t.App, t.engine, &t.config.Session); err != nil {
		return err
	}
	if t.engine.Traits().Reorders && t.moving.Asked() {
		return cli.Usage("train -e %s: ONNX Runtime moves no values to the host: leave out --link and --host-budget",
			t.trainFlags.engine.Backend)
	}
	if t.engine.Traits().Reorders && t.selection.MovedPlan() != nil {
		return cli.Usage("train -e %s: ONNX Runtime moves no values to the host, as --plan %s does",
			t.trainFlags.engine.Backend, t.selection.Plan)
	}
	if t.engine.Traits().Reorders && !t.set.Changed("mem-pattern") {
		// From the second step on, its pattern takes up to twice the memory of the first step.
		t.config.Session.OnDemand = true
	}
	return nil
}

// residentOf is the engine as one that keeps states.
func residentOf(e verify.Engine) (resident.Engine, error) {
	if d := e.Traits().Device; d != nil {
		return resident.On(d), nil
	}
	if own, ok := e.(resident.Engine); ok {
		return own, nil
	}
	return nil, cli.Usage("train: -e %s cannot train", e.Name())
}

// begin settles how the job begins: its updates, weights and the position.
func (t *training) begin() (err error) {
	c := &t.config
	c.Steps, c.Micros = t.steps, int64(t.trainFlags.step.Micros)
	together := c.Micros * t.ranks()
	t.view.PerEpoch = (c.Order.Batches() + together - 1) / together
	c.Updates = int64(math.Ceil(t.epochs * float64(t.view.PerEpoch)))
	if t.maxSteps > 0 {
		c.Updates = int64(t.maxSteps)
	}
	if c.Updates < 1 {
		return cli.Usage("--epochs %v: there would be no update", t.epochs)
	}
	if c.Schedule, err = t.schedule.rates(c.Updates); err != nil {
		return err
	}
	c.EvalEvery, c.SaveEvery, c.SaveLimit = int64(t.evalEvery), int64(t.saveEvery), t.saveLimit
	c.Copies = c.Folder != nil && t.set.Changed("save-every")
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
	if err := t.remember(); err != nil {
		return err
	}
	if c.Resume == nil {
		return nil
	}
	changed, err := train.Compare(c.Resume, &c.Manifest, c.Settings())
	if err != nil {
		return cli.Classify(err)
	}
	for _, text := range changed {
		t.Warn("--resume: %s: the job goes on, but not as it would have without the change", text)
	}
	return nil
}

// describe fills in the reports' facts.
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
	v.Ranks, v.Zero = int(t.ranks()), t.zero
	if c.Resume != nil {
		v.Begun = c.Resume.Step
	}
	v.Plan = nil
	if step.Plan != nil {
		v.Plan = step.Plan.Plan
	}
	v.Laid = v.Plan
	if m := step.Moving; m != nil {
		v.Laid, v.Moves = m.Laid, trainMoves(m)
		v.Moves.Host = c.Plans.Host()
	}
	if t.ragged.symbol != "" {
		v.Sizes = &report.TrainSizes{Symbol: t.ragged.symbol, Sizes: c.Order.Rungs}
		for _, b := range c.Plans.Bands {
			v.Sizes.Bands = append(v.Sizes.Bands, report.TrainBand{Lo: b.Lo, Hi: b.Hi, Arena: b.Arena,
				Nodes: b.Plan.Recompute.Nodes, Overhead: b.Plan.Overhead})
		}
	}
	if c.Plans.Update != nil && c.Plans.Update.Arena > step.Arena {
		v.Plan = c.Plans.Update.Plan.Plan
		v.Laid = v.Plan
	}
	v.EvalLast = math.NaN()
	return nil
}

// trainMoves are the moves of a step, as reports have them.
func trainMoves(m *memopt.Moving) *report.TrainMoves {
	o := m.Options
	return &report.TrainMoves{Link: o.Link, HostBudget: o.HostBudget, Moves: len(m.Moves), Moved: m.Moved,
		Overhead: m.Overhead, Measured: -1}
}
