// Package answercmd has the verbs that answer questions before a run: estimate, fit, diff, doctor, devices.
package answercmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/estimate"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/configs"
	"memopt/graph/precision"
	"memopt/planner"
	"memopt/train"
	"memopt/view/report"
)

// estimateFlags are the flags of an estimate: device, layout and precision.
type estimateFlags struct {
	option.DeviceFlags
	step    gradcmd.StepFlags
	runtime string
	served  allocatorFlags
	chunk   string
	cli.LimitFlags
	check  bool
	states []string
	moves  cli.MoveFlags
	layout layoutFlags
	set    *pflag.FlagSet
}

func Estimate(a *cli.App) *cobra.Command {
	var f estimateFlags
	cmd := &cobra.Command{
		Use:   "estimate MODEL",
		Short: "Say before a run whether a training step fits, and show the parts of its memory",
		Long: `estimate says first whether a training step fits into the memory of a device,
and ends with 0 or 3; then the parts of that memory at its worst moment,
without a plan and with the cheapest one that fits, and other changes that
would make the step fit.

A forward model becomes the whole step, as memopt train makes it, with train's
defaults; a graph that has a backward half is taken as it is. The figures are
those of the same plans and the same simulation as train's promised peak; the
reserve is the memory of the driver, the context and the libraries, and the
rounding of allocators.

--runtime torch estimates PyTorch's own step in eager mode in its place: for a
model that PyTorch exported, or for the file of a step that memopt.torch traced.

--allocator replays the step through the allocator of a runtime, and says how
many bytes that takes of the device, and what an error would read:
  arena  memopt's own, places that are planned
  torch  PyTorch's caching allocator; --allocator-conf has its options in the
         form of PYTORCH_CUDA_ALLOC_CONF
  bfc    the arena of TensorFlow and JAX, growing
  ort    the arena of ONNX Runtime, growing

--precision asks about a step that keeps its values in other types. It counts
sizes and changes no file:
  fp32        everything in float32
  bf16        weights, activations and gradients in bfloat16; master weights
              and moments in float32
  fp16-mixed  the same with float16, and a scale of the loss
  bf16-pure   everything in bfloat16, rounded stochastically, without master
              weights

--check also runs the step on this machine's CPU, with values that are made up.`,
		Example: `  memopt estimate gpt2.onnx --dim batch=16,seq=1024 --gpu 24GiB
        does the step fit into 24 GiB?
  memopt estimate gpt2.onnx --dim batch=16,seq=1024 --device rtx4090 --precision bf16
        and in mixed precision, on a device whose memory and reserve are known?
  memopt estimate gpt2.onnx --dim batch=16,seq=1024 --gpu 24GiB --runtime torch
        does it fit in PyTorch, without memopt?
  memopt estimate gpt2.onnx --dim batch=4,seq=1024 --device t4 --gradient-accumulation-steps 4 -O json
        for scripts`,
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error { return estimateModel(a, args[0], &f) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *estimateFlags) register(s *pflag.FlagSet) {
	f.set = s
	f.DeviceFlags.Register(s, "default: the times of a100")
	f.step.RegisterJob(s)
	f.step.Optimizer.RegisterRate(s)
	s.StringVar(&f.runtime, "runtime", string(estimate.Own), "whose step: memopt, as memopt train runs it, or torch, "+
		"PyTorch's own in eager mode, of a model that it exported or of a step that memopt.torch traced")
	f.served.register(s)
	f.step.Counted = true
	f.LimitFlags.Register(s)
	option.RegisterChunk(s, &f.chunk)
	s.BoolVar(&f.check, "check", false, "also run the step on this machine's CPU, and print predicted beside "+
		"measured bytes; 5 where more was measured")
	s.StringArrayVar(&f.states, "state", nil, "IN=OUT: the output is the next value of this input (repeatable)")
	f.moves.Register(s, option.LinkOfDevice)
	f.step.RegisterHome(s)
	f.layout.register(s)
}

// estimateModel answers whether a step fits.
func estimateModel(a *cli.App, name string, f *estimateFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if err := f.checkHome(); err != nil {
		return err
	}
	traced, hash, err := load.ReadStep(a, name)
	if err != nil {
		return cli.Invalid(cli.Wrap(name, err))
	}
	runtime, err := f.readRuntime(name, traced != nil)
	if err != nil {
		return err
	}
	o, err := f.options(a)
	if err != nil {
		return err
	}
	switch {
	case !o.Moves.Asked():
	case runtime == estimate.Torch:
		return cli.Usage("--host-budget and --runtime torch cannot be combined: PyTorch's own step moves no values")
	case f.layout.several():
		return cli.Usage("--host-budget: on several devices no values move: leave out --dp, --tp, --pp and the like")
	}
	if o.Allocator != estimate.ByRuntime && f.layout.several() {
		return cli.Usage("--allocator serves a step on one device: leave out --dp, --tp, --pp and the like")
	}
	if runtime == estimate.Torch {
		return estimateTorch(a, name, traced, hash, f, o, format)
	}
	plain := !f.layout.several() && !f.check && o.Precision == precision.AsIs && o.Allocator == estimate.ByRuntime
	m, err := load.Model(a, name, load.Reading{States: f.states, Ranged: plain})
	if err != nil {
		return err
	}
	defer m.Close()
	if load.Sizeless(m) && plain {
		return estimateFormulas(a, name, m, f, o, format)
	}
	m, step, err := f.recipe(a, m, o)
	if err != nil {
		return err
	}
	if f.layout.several() {
		if f.check {
			return cli.Usage("--check runs the step on one device: leave out --dp, --tp, --pp and the like")
		}
		return estimateParallel(a, name, m, f, o, format)
	}
	a.Status.Say("estimating the step")
	r, err := estimate.Make(a.Search, m, *o)
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	borrowed(r, o, f)
	if f.check {
		a.Status.Say("running the step")
		if r.Check, err = estimate.Check(a.Ctx, m, *o); err != nil {
			return cli.ClassifyRun(name, err)
		}
	}
	if r.Joint != nil {
		gradcmd.NoteRoles(a, r.Joint)
	}
	if r.Made {
		r.RuntimeHint = "--runtime torch estimates PyTorch's"
		step = f.step.Describe(m, &train.Steps{Joint: r.Joint, Lossless: r.Lossless})
	}
	r.Text = step.Text
	if err := estimate.Report(a.Out, format, r, a.Global.Verbose); err != nil {
		return err
	}
	if err := a.Next(format, afterEstimate(a, name, m, f, r).About(step)); err != nil {
		return err
	}
	if r.Check != nil && r.Check.Above() {
		return &cli.ExitError{Code: cli.ExitAbove, Err: fmt.Errorf("%s: the step took more than was predicted", name)}
	}
	return fits(a, name, r)
}

// borrowed says of a device that is not named that it lends its reserve and its times.
func borrowed(r *estimate.Result, o *estimate.Options, f *estimateFlags) {
	if o.Device == nil || f.Device != "" {
		return
	}
	r.Device, r.DeviceSource = "", ""
	if f.Reserve == "" {
		r.ReserveSource = "the reserve is that of the device with the nearest memory: " + o.Device.Source
	}
}

// fits is the exit code of an answer.
func fits(a *cli.App, name string, r *estimate.Result) error {
	fits, known := r.Fits()
	switch {
	case a.Ctx.Err() != nil:
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: errors.New("interrupted: the search for a plan was cut short")}
	case r.Home.Over():
		return option.HomeFits(r.Home.Bytes(), r.Home.Budget)
	case !known || fits:
		return nil
	}
	return &cli.ExitError{Code: cli.ExitInfeasible, Err: fmt.Errorf("%s: does not fit as it is: %s of %s", name,
		report.Bytes(r.Plain.Total()), report.Bytes(r.Memory))}
}

// options makes options of the flags, without the recipe.
func (f *estimateFlags) options(a *cli.App) (*estimate.Options, error) {
	o := &estimate.Options{Advise: true, Seed: a.Global.Seed, Threads: a.Global.Threads, Found: a.Keeper.Keep}
	var err error
	if o.Precision, err = f.step.Precision(); err != nil {
		return nil, err
	}
	if f.check && o.Precision != precision.AsIs {
		return nil, cli.Usage("--check and --precision cannot be combined: the step is run in the graph's own types")
	}
	at, err := f.Memory(a)
	if err != nil {
		return nil, err
	}
	o.Memory, o.Device, o.Reserve = at.Bytes, at.Profile, &at.Reserve
	if err := f.readMoves(a, o, at.Near); err != nil {
		return nil, err
	}
	if o.Moves.Asked() && o.Memory == 0 && f.step.HostDir == "" {
		return nil, cli.Usage("--host-budget: values move where a step does not fit: name the memory to fit with " +
			"--gpu SIZE, or a device with --device NAME")
	}
	if err := f.served.read(o, estimate.Runtime(f.runtime)); err != nil {
		return nil, err
	}
	o.Effort = f.Work()
	o.Chunk, err = option.ChunkMode(f.chunk)
	return o, err
}

// readMoves reads the flags of values that move to the host, and of states that lie there. nearest says that no device
// is named.
func (f *estimateFlags) readMoves(a *cli.App, o *estimate.Options, nearest bool) (err error) {
	if f.step.HostDir != "" {
		o.Moves, o.HostBudget, err = option.ReadHome(&f.moves, f.step.HostDir)
		return err
	}
	if o.Moves, err = option.ReadMoves(a, &f.moves, f.DeviceFlags, ""); err != nil {
		return err
	}
	if o.HostBudget = o.Moves.HostBudget; nearest {
		o.HomeOn, err = configs.LoadDevice(option.CpuDevice)
	}
	return err
}

// checkHome refuses flags that do not go together with a home, which is for the CPU.
func (f *estimateFlags) checkHome() error {
	if f.step.HostDir == "" {
		return nil
	}
	switch {
	case f.check:
		return cli.Usage("--check and --host-dir cannot be combined: the step is run with its states in memory; " +
			"memopt train measures one with a home")
	case f.layout.several():
		return cli.Usage("--host-dir: the states of several devices stay: leave out --dp, --tp, --pp and the like")
	case f.runtime == string(estimate.Torch):
		return cli.Usage("--host-dir and --runtime torch cannot be combined: PyTorch's own step has its states on " +
			"the device")
	}
	return option.HomeDevice(&f.DeviceFlags)
}

// recipe says which step is made of a forward model; a model with a backward half is taken as it is, or
// with an update that was asked for, and described. The step of a forward model is nil: it is not made yet.
func (f *estimateFlags) recipe(a *cli.App, m *memopt.Model, o *estimate.Options) (*memopt.Model, *report.Step, error) {
	var err error
	// As train does: on the CPU the loop itself ends a step before it writes.
	o.Recipe, err = f.step.Recipe(m, a.Global.Seed, f.Device != "" && f.Device != option.CpuDevice)
	if err == nil && train.HasBackward(m) && !f.layout.several() {
		taken, step, err := gradcmd.TakeStep(a, m, &f.step)
		if f.step.HostDir != "" && err == nil {
			taken = m // the estimate makes the step, with the home of its states
		}
		return taken, step, err
	}
	return m, nil, err
}

// afterEstimate looks for the largest batch of a step that fits, writes the plan's file where one makes it fit, and
// else looks for a device. No other verb counts in another precision.
func afterEstimate(a *cli.App, name string, m *memopt.Model, f *estimateFlags, r *estimate.Result) *cli.NextCommand {
	if r.Precision != precision.AsIs {
		return nil
	}
	devices := &cli.NextCommand{Verb: "fit", Args: []string{name}, Set: [][2]string{{"vary", option.DeviceName}},
		Drop: ofOneDevice}
	fits, known := r.Fits()
	switch batch := m.BatchSymbol(); {
	case r.Home != nil && !fits:
		return nil // memopt train follows it
	case !known:
		return devices
	case fits && batch != "":
		return &cli.NextCommand{Verb: "fit", Args: []string{name}, Free: []string{batch},
			Set: [][2]string{{"vary", batch}}}
	case fits:
		return &cli.NextCommand{Verb: "explain", Args: []string{name}}
	case r.Planned != nil:
		n := cli.Applied(name)
		n.Set = append(n.Set, [2]string{"gpu", report.Exact(r.Memory)})
		return n
	}
	return devices
}

// estimateFormulas estimates a step without sizes.
func estimateFormulas(a *cli.App, name string, m *memopt.Model, f *estimateFlags, o *estimate.Options,
	format report.Format) error {
	made, step, err := gradcmd.MakeStep(a, m, &f.step, f.Device != "" && f.Device != option.CpuDevice)
	if err != nil {
		return err
	}
	a.Status.Say("looking for formulas of the peak")
	p, err := made.Plan(a.Search, nil, memopt.PlanOptions{Options: planner.Options{Profile: o.Device,
		Ranges: a.Ranges(), CheckSeed: a.Global.Seed}})
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.Warn("%s", w)
	}
	return plancmd.Formulas(a, format, name, p, &option.Chosen{File: m, Step: step})
}
