package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/fit"
	"memopt/configs"
	"memopt/executor/cpu"
	"memopt/planner"
	"memopt/view/report"
)

// fitFlags are the varied symbols and the memory to fit.
type fitFlags struct {
	deviceFlags
	vary, overhead string
	limitFlags
	order  string
	states []string
	chunk  string
	step   stepFlags
}

func (a *app) fitCommand() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit MODEL --gpu SIZE --vary SYMBOL",
		Short: "The largest size that fits a device, or the smallest device that fits",
		Long: `fit finds the largest value of a symbol, such as batch, at which a training
step fits a device: without a plan, with level 1, and with the best plan whose
overhead is allowed. All other symbols are bound by --dim.

The peak is a formula over all sizes, so that the largest one follows by
algebra; it is then packed, and verified: one above it does not fit. With a
plan that means that no plan was found.

Of two symbols it prints the frontier: for 1, 2, 4, … of the first the largest
of the second. With --vary device it finds the smallest of the devices that it
knows (memopt plan --device lists them). --dim batch=8..64 says between which
values to look. If nothing fits, fit ends with 3 and the least that was reached.`,
		Example: `  memopt fit gpt2.onnx --optimizer adamw --dim seq=1024 --gpu 24GiB --vary batch
        the largest batch of a whole training step
  memopt fit gpt2.onnx --optimizer adamw --device rtx4090 --vary batch,seq
        the longest sequence for every batch
  memopt fit gpt2.onnx --optimizer adamw --dim batch=8,seq=1024 --vary device
        the smallest device`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error { return a.fit(args[0], &f) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *fitFlags) register(s *pflag.FlagSet) {
	f.deviceFlags.register(s, "default: the times of a100")
	s.StringVar(&f.vary, "vary", "", "the symbol to vary, two of them (batch,seq), or device")
	s.StringVar(&f.overhead, "max-overhead", "20%", "how much longer a step may take with a plan")
	f.limitFlags.register(s)
	s.StringVar(&f.order, "order", "auto", "order of execution: auto, file or ort")
	s.StringArrayVar(&f.states, "state", nil, "IN=OUT: the output is the next value of this input (repeatable)")
	registerChunk(s, &f.chunk)
	f.step.registerJob(s)
	f.step.optimizer.registerRate(s)
}

// fit answers the question of the flags.
func (a *app) fit(name string, f *fitFlags) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	o, err := f.options(a)
	if err != nil {
		return err
	}
	if f.vary != deviceName && isOperatorPlan(name) {
		return usage("%s is a plan of operators, made for one batch: --vary %s needs a model; memopt.torch.plan makes "+
			"plans of other batches, and --vary device finds the smallest device", name, f.vary)
	}
	target, err := f.target(a, o)
	if err != nil {
		return err
	}
	m, err := a.load(name, reading{states: f.states, ranged: true})
	if err != nil {
		return err
	}
	defer m.Close()
	o.Ranges = a.ranges()
	m, step, err := a.step(m, &f.step, f.device != "" && f.device != cpuDevice)
	if err != nil {
		return err
	}
	if f.vary == deviceName {
		return a.fitDevices(name, m, step, o, format)
	}
	if o.Limit = target.Memory - target.Reserve; o.Limit <= 0 {
		return usage("--gpu %s: its %s are less than the %s that no step can have", f.gpu, report.Bytes(target.Memory),
			report.Bytes(target.Reserve))
	}
	r, err := fit.Largest(a.search, m, *o)
	if err != nil {
		return a.classifyPlan(name, err)
	}
	if err := fit.Report(a.out, format, r, target, step); err != nil {
		return err
	}
	if err := a.next(format, a.afterFit(name, r, target).of(step)); err != nil {
		return err
	}
	if r.Fits() != nil {
		return &exitError{exitInfeasible, fmt.Errorf("%s: %s", name, strings.TrimSuffix(r.Answer(target), "."))}
	}
	return nil
}

// fitDevices looks for the smallest device.
func (a *app) fitDevices(name string, m *memopt.Model, step *report.Step, o *fit.Options,
	format report.Format) error {
	var profiles []*planner.Profile
	for _, device := range configs.DeviceNames() {
		p, err := configs.LoadDevice(device)
		if err != nil {
			return err
		}
		profiles = append(profiles, p)
	}
	d, err := fit.OnDevices(a.search, m, profiles, *o)
	if err != nil {
		return a.classifyPlan(name, err)
	}
	if err := d.Report(a.out, format, step); err != nil {
		return err
	}
	if err := a.next(format, afterDevices(name, d).of(step)); err != nil {
		return err
	}
	if d.Smallest(fit.Best) == nil && d.Smallest(fit.Level1) == nil {
		return &exitError{exitInfeasible, fmt.Errorf("%s: fits none of the devices", name)}
	}
	return nil
}

// options makes options of the flags, without the limit.
func (f *fitFlags) options(a *app) (*fit.Options, error) {
	o := &fit.Options{Effort: f.work(), Seed: a.global.seed,
		Progress: func(what string) { a.status.say("looking for %s", what) }}
	share, _, err := report.ParseShare(f.overhead)
	if f.overhead == "0" || f.overhead == "0%" {
		err = nil
	} else if err == nil && share == 0 {
		err = errors.New("is no percentage")
	}
	if err != nil {
		return nil, usage("--max-overhead %q: %w; wanted a percentage such as 20%%", f.overhead, err)
	}
	o.MaxOverhead = share
	if o.Plan.Chunk, err = chunkMode(f.chunk); err != nil {
		return nil, err
	}
	if o.Plan.Order = planner.OrderChoice(f.order); !slices.Contains(planner.OrderChoices, o.Plan.Order) ||
		o.Plan.Order == planner.OrderMemory {
		return nil, usage("--order %q: wanted auto, file or ort", f.order)
	}
	if f.vary == "" {
		return nil, usage("--vary is missing: name a symbol such as batch, two of them, or device")
	}
	o.Vary = strings.Split(f.vary, ",")
	for i, name := range o.Vary {
		o.Vary[i] = strings.TrimSpace(name)
	}
	return o, f.step.check()
}

// target returns the device or the memory to fit.
func (f *fitFlags) target(a *app, o *fit.Options) (*fit.Target, error) {
	if f.vary == deviceName {
		for _, x := range []struct{ flag, text string }{{"gpu", f.gpu}, {"device", f.device}, {"reserve", f.reserve}} {
			if x.text != "" {
				return nil, usage("--%s: --vary device looks at all devices; leave it out", x.flag)
			}
		}
		return nil, nil
	}
	at, err := f.memory(a)
	switch {
	case err != nil:
		return nil, err
	case at.bytes == 0 && f.device != "":
		return nil, usage("--device %s: its profile has no memory: name it with --gpu SIZE", f.device)
	case at.bytes == 0:
		return nil, usage("nothing to fit: name the memory with --gpu SIZE, or a device with --device NAME")
	}
	t := &fit.Target{Memory: at.bytes, Reserve: at.reserve}
	switch {
	case !at.near:
		t.Device = at.profile.Name
	case f.reserve == "":
		t.Source = ", as on " + at.profile.Name + ", the nearest device"
	}
	o.Plan.Profile = at.profile
	if f.device == cpuDevice {
		o.Plan.Device, o.Plan.Threads = cpu.Device{}, a.global.threads
	}
	return t, nil
}

// afterFit explains the step at the largest size, or writes its plan's file; where no size fits, it
// looks for a device.
func (a *app) afterFit(name string, r *fit.Result, t *fit.Target) *nextCommand {
	list := r.Frontier
	if r.Sizes != nil {
		list = []*fit.Sizes{r.Sizes}
	}
	last := r.Options.Vary[len(r.Options.Vary)-1]
	for _, s := range list {
		dims := map[string]int64{}
		for _, name := range r.Options.Vary[:len(r.Options.Vary)-1] {
			dims[name] = s.Fixed[name]
		}
		if plain, best := s.By[fit.Plain].Value, s.By[fit.Best].Value; best > plain {
			dims[last] = best
			n := applied(name)
			n.dims, n.set = dims, append(n.set, [2]string{"gpu", report.Exact(t.Memory)})
			n.drop = []string{"effort", "time-limit"} // which were for many searches
			return n
		} else if plain > 0 {
			dims[last] = plain
			verb := "estimate"
			if t.Reserve > 0 { // it counts the allocator's rounding with the reserve, which may be too much there
				verb = "explain"
			}
			return &nextCommand{verb: verb, args: []string{name}, dims: dims}
		}
	}
	if r.Sizes == nil {
		return nil
	}
	return &nextCommand{verb: "fit", args: []string{name}, dims: map[string]int64{last: r.Sizes.By[fit.Plain].Least},
		set: [][2]string{{"vary", deviceName}}, drop: []string{"gpu", "device", "reserve"}}
}

// afterDevices estimates the step on the smallest device, or writes the file of its plan.
func afterDevices(name string, d *fit.Devices) *nextCommand {
	if s := d.Smallest(fit.Plain); s != nil {
		return &nextCommand{verb: "estimate", args: []string{name}, set: [][2]string{{"device", s.Profile.Name}}}
	}
	s := d.Smallest(fit.Best)
	if s == nil {
		return nil
	}
	n := applied(name)
	n.set = append(n.set, [2]string{"device", s.Profile.Name}, [2]string{"gpu", report.Exact(s.Profile.Memory)})
	return n
}
