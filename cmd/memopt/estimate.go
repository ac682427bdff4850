package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/estimate"
	"memopt/answers/estimate/parts"
	"memopt/planner"
	"memopt/train"
	"memopt/view/report"
)

// estimateFlags are the flags of an estimate: device, layout and precision.
type estimateFlags struct {
	deviceFlags
	step      stepFlags
	runtime   string
	precision string
	chunk     string
	limitFlags
	check  bool
	states []string
	layout layoutFlags
	set    *pflag.FlagSet
}

func (a *app) estimateCommand() *cobra.Command {
	var f estimateFlags
	cmd := &cobra.Command{
		Use:   "estimate MODEL",
		Short: "Say before a run whether a training step fits, and what its memory is made of",
		Long: `estimate says first whether a training step fits into the memory of a device,
and ends with 0 or 3; then what that memory is made of when it is at its worst,
without a plan and with the cheapest one that fits, and what else would make
the step fit.

Of a forward model the whole step is made, as memopt train makes it, with
train's defaults; a graph that has a backward half is taken as it is. The
figures are those of the same plans and the same simulation by which train
promises its peak; the reserve is what the driver, the context and the
libraries take, and what allocators round up.

--runtime torch estimates PyTorch's own step in eager mode in its place: of a
model that PyTorch exported, or of the file of a step that memopt.torch traced.

--precision asks what if the step kept its values in other types. It counts
sizes and changes no file:
  fp32        everything in float32
  bf16        weights, activations and gradients in bfloat16; master weights
              and moments in float32
  fp16-mixed  the same with float16, and a scale of the loss
  bf16-pure   everything in bfloat16, without master weights

--check also runs the step on this machine's CPU, with values that are made up.`,
		Example: `  memopt estimate gpt2.onnx --dim batch=16,seq=1024 --gpu 24GiB
        does the step fit into 24 GiB?
  memopt estimate gpt2.onnx --dim batch=16,seq=1024 --device rtx4090 --precision bf16
        and in mixed precision, on a device whose memory and reserve are known?
  memopt estimate gpt2.onnx --dim batch=16,seq=1024 --gpu 24GiB --runtime torch
        does it fit in PyTorch, without memopt?
  memopt estimate gpt2.onnx --dim batch=4,seq=1024 --device t4 --gradient-accumulation-steps 4 -O json
        for scripts`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error { return a.estimate(args[0], &f) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *estimateFlags) register(s *pflag.FlagSet) {
	f.set = s
	f.deviceFlags.register(s, "default: the times of a100")
	f.step.registerJob(s)
	f.step.optimizer.registerRate(s)
	s.StringVar(&f.runtime, "runtime", string(estimate.Own), "whose step: memopt, as memopt train runs it, or torch, "+
		"PyTorch's own in eager mode, of a model that it exported or of a step that memopt.torch traced")
	s.StringVar(&f.precision, "precision", "", "count values as if they were kept in fp32, bf16, fp16-mixed or "+
		"bf16-pure")
	f.limitFlags.register(s)
	registerChunk(s, &f.chunk)
	s.BoolVar(&f.check, "check", false, "also run the step on this machine's CPU, and print predicted beside "+
		"measured bytes; 5 where more was measured")
	s.StringArrayVar(&f.states, "state", nil, "IN=OUT: the output is the next value of this input (repeatable)")
	f.layout.register(s)
}

// estimate answers whether a step fits.
func (a *app) estimate(name string, f *estimateFlags) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	traced, hash, err := a.readStep(name)
	if err != nil {
		return invalid(wrap(name, err))
	}
	runtime, err := f.readRuntime(name, traced != nil)
	if err != nil {
		return err
	}
	o, err := f.options(a)
	if err != nil {
		return err
	}
	if runtime == estimate.Torch {
		return a.estimateTorch(name, traced, hash, f, o, format)
	}
	plain := !f.layout.several() && !f.check && o.Precision == parts.AsIs
	m, err := a.load(name, reading{states: f.states, ranged: plain})
	if err != nil {
		return err
	}
	defer m.Close()
	if sizeless(m) && plain {
		return a.estimateFormulas(name, m, f, o, format)
	}
	m, step, err := f.recipe(a, m, o)
	if err != nil {
		return err
	}
	if f.layout.several() {
		if f.check {
			return usage("--check runs the step on one device: leave out --dp, --tp, --pp and the like")
		}
		return a.estimateParallel(name, m, f, o, format)
	}
	a.status.say("estimating the step")
	r, err := estimate.Make(a.search, m, *o)
	if err != nil {
		return a.classifyPlan(name, err)
	}
	borrowed(r, o, f)
	if f.check {
		a.status.say("running the step")
		if r.Check, err = estimate.Check(a.ctx, m, *o); err != nil {
			return classifyRun(name, err)
		}
	}
	if r.Joint != nil {
		a.noteRoles(r.Joint)
	}
	if r.Made {
		r.RuntimeHint = "--runtime torch estimates PyTorch's"
		step = f.step.describe(m, &train.Steps{Joint: r.Joint, Lossless: r.Lossless})
	}
	r.Text = step.Text
	if err := estimate.Report(a.out, format, r, a.global.verbose); err != nil {
		return err
	}
	if err := a.next(format, a.afterEstimate(name, m, f, r).of(step)); err != nil {
		return err
	}
	if r.Check != nil && r.Check.Above() {
		return &exitError{exitAbove, fmt.Errorf("%s: the step took more than was predicted", name)}
	}
	return a.fits(name, r)
}

// borrowed says of a device that is not named that it lends its reserve and its times.
func borrowed(r *estimate.Result, o *estimate.Options, f *estimateFlags) {
	if o.Device == nil || f.device != "" {
		return
	}
	r.Device, r.DeviceSource = "", ""
	if f.reserve == "" {
		r.ReserveSource = "the reserve is that of the device with the nearest memory: " + o.Device.Source
	}
}

// fits is the exit code of an answer.
func (a *app) fits(name string, r *estimate.Result) error {
	fits, known := r.Fits()
	switch {
	case a.ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted: the search for a plan was cut short")}
	case !known || fits:
		return nil
	}
	return &exitError{exitInfeasible, fmt.Errorf("%s: does not fit as it is: %s of %s", name,
		report.Bytes(r.Plain.Total()), report.Bytes(r.Memory))}
}

// options makes options of the flags, without the recipe.
func (f *estimateFlags) options(a *app) (*estimate.Options, error) {
	o := &estimate.Options{Advise: true, Seed: a.global.seed, Threads: a.global.threads, Found: a.keeper.keep}
	var err error
	if o.Precision, err = parts.ParsePrecision(f.precision); err != nil {
		return nil, usage("--precision: %w", err)
	}
	if f.check && o.Precision != parts.AsIs {
		return nil, usage("--check and --precision cannot be combined: the step is run in the graph's own types")
	}
	at, err := f.memory(a)
	if err != nil {
		return nil, err
	}
	o.Memory, o.Device, o.Reserve = at.bytes, at.profile, &at.reserve
	o.Effort = f.work()
	o.Chunk, err = chunkMode(f.chunk)
	return o, err
}

// recipe says which step is made of a forward model; a model with a backward half is taken as it is, or
// with an update that was asked for, and described. The step of a forward model is nil: it is not made yet.
func (f *estimateFlags) recipe(a *app, m *memopt.Model, o *estimate.Options) (*memopt.Model, *report.Step, error) {
	var err error
	// As train does: on the CPU the loop itself ends a step before it writes.
	o.Recipe, err = f.step.recipe(m, a.global.seed, f.device != "" && f.device != cpuDevice)
	if o.Precision == parts.FP16Mixed && f.step.updates() {
		o.Recipe.LossScale, o.Recipe.Optimizer.Guard = lossScaleInput, false
	}
	if err == nil && train.HasBackward(m) && !f.layout.several() {
		return a.takeStep(m, &f.step)
	}
	return m, nil, err
}

// afterEstimate looks for the largest batch of a step that fits, writes the plan's file where one makes it fit, and
// else looks for a device. No other verb counts in another precision.
func (a *app) afterEstimate(name string, m *memopt.Model, f *estimateFlags, r *estimate.Result) *nextCommand {
	if r.Precision != parts.AsIs {
		return nil
	}
	devices := &nextCommand{verb: "fit", args: []string{name}, set: [][2]string{{"vary", deviceName}},
		drop: []string{"gpu", "device", "reserve"}}
	fits, known := r.Fits()
	switch batch := m.BatchSymbol(); {
	case !known:
		return devices
	case fits && batch != "":
		return &nextCommand{verb: "fit", args: []string{name}, free: []string{batch}, set: [][2]string{{"vary", batch}}}
	case fits:
		return &nextCommand{verb: "explain", args: []string{name}}
	case r.Planned != nil:
		n := applied(name)
		n.set = append(n.set, [2]string{"gpu", report.Exact(r.Memory)})
		return n
	}
	return devices
}

// estimateFormulas estimates a step without sizes.
func (a *app) estimateFormulas(name string, m *memopt.Model, f *estimateFlags, o *estimate.Options,
	format report.Format) error {
	made, step, err := a.step(m, &f.step, f.device != "" && f.device != cpuDevice)
	if err != nil {
		return err
	}
	a.status.say("looking for formulas of the peak")
	p, err := made.Plan(a.search, nil, memopt.PlanOptions{Options: planner.Options{Profile: o.Device,
		Ranges: a.ranges(), CheckSeed: a.global.seed}})
	if err != nil {
		return a.classifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.warn("%s", w)
	}
	return a.formulas(format, name, p, &chosen{file: m, step: step})
}
