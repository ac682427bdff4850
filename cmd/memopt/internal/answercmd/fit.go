package answercmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/fit"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/configs"
	"memopt/executor/cpu"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/view/report"
)

// fitFlags are the varied symbols and the memory to fit.
type fitFlags struct {
	option.DeviceFlags
	vary, overhead string
	cli.LimitFlags
	order  string
	states []string
	chunk  string
	step   gradcmd.StepFlags
	moves  cli.MoveFlags
}

func Fit(a *cli.App) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit MODEL --gpu SIZE --vary SYMBOL",
		Short: "The largest size that fits a device, or the smallest device that fits",
		Long: `fit finds the largest value of a symbol, such as batch, for a training step
that fits a device: without a plan, with level 1, and with the best plan whose
overhead is allowed. All other symbols are bound by --dim.

The peak is a formula over all sizes, so that the largest one follows by
algebra; it is then packed, and verified: one above it does not fit. With a
plan that means that no plan was found.

For two symbols it prints the frontier: for 1, 2, 4, … of the first the largest
of the second. With --vary device it finds the smallest of the devices that it
knows (memopt plan --device lists them). --dim batch=8..64 says between which
values to look. If no size fits, fit ends with 3 and the lowest memory that was
reached.

With --link and --host-budget, values may also move to the host: the table then
has the largest size with such plans, and the bytes that they take there.

With --host-dir and --host-budget, weights and optimizer states lie in a file on
the host, as memopt train --host-dir keeps them on the CPU: --gpu is then for
the inputs and the arena alone.`,
		Example: `  memopt fit gpt2.onnx --optimizer adamw --dim seq=1024 --gpu 24GiB --vary batch
        the largest batch of a whole training step
  memopt fit gpt2.onnx --optimizer adamw --device rtx4090 --vary batch,seq
        the longest sequence for every batch
  memopt fit gpt2.onnx --optimizer adamw --dim seq=1024 --gpu 24GiB --vary batch --link 25GB/s --host-budget 64GiB
        the same where values may move to the host
  memopt fit gpt2.onnx --optimizer adamw --dim batch=8,seq=1024 --vary device
        the smallest device`,
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error { return fitModel(a, args[0], &f) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *fitFlags) register(s *pflag.FlagSet) {
	f.DeviceFlags.Register(s, "default: the times of a100")
	s.StringVar(&f.vary, "vary", "", "the symbol to vary, two of them (batch,seq), or device")
	s.StringVar(&f.overhead, "max-overhead", "20%", "how much longer a step may take with a plan")
	f.LimitFlags.Register(s)
	s.StringVar(&f.order, "order", "auto", "order of execution: auto, file or ort")
	s.StringArrayVar(&f.states, "state", nil, "IN=OUT: the output is the next value of this input (repeatable)")
	option.RegisterChunk(s, &f.chunk)
	f.step.RegisterJob(s)
	f.step.Optimizer.RegisterRate(s)
	f.moves.Register(s, option.LinkOfDevice)
	f.step.RegisterHome(s)
}

// fitModel answers the question of the flags.
func fitModel(a *cli.App, name string, f *fitFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	o, err := f.options(a)
	if err != nil {
		return err
	}
	if f.step.HostDir != "" {
		if f.vary == option.DeviceName {
			return cli.Usage("--host-dir and --vary device cannot be combined: states in a folder are for the CPU")
		}
		if err := option.HomeDevice(&f.DeviceFlags); err != nil {
			return err
		}
	}
	if f.vary != option.DeviceName && load.IsOperatorPlan(name) {
		return cli.Usage("%s is a plan of operators, made for one batch: --vary %s needs a model; memopt.torch.plan "+
			"makes plans of other batches, and --vary device finds the smallest device", name, f.vary)
	}
	target, err := f.target(a, o)
	if err != nil {
		return err
	}
	m, err := load.Model(a, name, load.Reading{States: f.states, Ranged: true})
	if err != nil {
		return err
	}
	defer m.Close()
	o.Ranges = a.Ranges()
	m, step, err := gradcmd.MakeStep(a, m, &f.step, f.Device != "" && f.Device != option.CpuDevice)
	if err != nil {
		return err
	}
	if step.Home != nil {
		o.Moves, err = f.lodge(step.Home)
	} else {
		o.Moves, err = f.readMoves(a)
	}
	if err != nil {
		return err
	}
	if f.vary == option.DeviceName {
		return fitDevices(a, name, m, step, o, format)
	}
	if o.Limit = target.Memory - target.Reserve; o.Limit <= 0 {
		return cli.Usage("--gpu %s: its %s are less than the %s that no step can have", f.Gpu,
			report.Bytes(target.Memory),
			report.Bytes(target.Reserve))
	}
	r, err := fit.Largest(a.Search, m, *o)
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	if err := fit.Report(a.Out, format, r, target, step); err != nil {
		return err
	}
	if err := a.Next(format, afterFit(name, r, target, step).About(step)); err != nil {
		return err
	}
	if r.Fits() != nil {
		return &cli.ExitError{Code: cli.ExitInfeasible, Err: fmt.Errorf("%s: %s", name,
			strings.TrimSuffix(r.Answer(target), "."))}
	}
	return nil
}

// readMoves reads the flags of values that move.
func (f *fitFlags) readMoves(a *cli.App) (memopt.MoveOptions, error) {
	moves, err := option.ReadMoves(a, &f.moves, f.DeviceFlags, "")
	switch {
	case err != nil:
		return moves, err
	case !moves.Asked():
		option.WarnIdleLink(a, &f.moves, moves)
		return memopt.MoveOptions{}, nil
	case f.vary == option.DeviceName:
		return moves, cli.Usage("--host-budget and --vary device cannot be combined: each device has a link of its " +
			"own; name one with --device, and vary a symbol")
	}
	moves.Seed = a.Global.Seed
	return moves, nil
}

// lodge says how much the home of the step's states may take, and returns the moves of other values.
func (f *fitFlags) lodge(h *report.Home) (moves memopt.MoveOptions, err error) {
	if moves, h.Budget, err = option.ReadHome(&f.moves, f.step.HostDir); err != nil {
		return moves, err
	}
	h.Link = moves.Link.BytesPerSecond
	if moves.HostBudget = min(moves.HostBudget, max(h.Budget-h.Bytes(), 0)); !moves.Asked() {
		moves = memopt.MoveOptions{}
	}
	return moves, option.HomeFits(h.Bytes(), h.Budget)
}

// fitDevices looks for the smallest device.
func fitDevices(a *cli.App, name string, m *memopt.Model, step *report.Step, o *fit.Options,
	format report.Format) error {
	var profiles []*device.Profile
	for _, device := range configs.DeviceNames() {
		p, err := configs.LoadDevice(device)
		if err != nil {
			return err
		}
		profiles = append(profiles, p)
	}
	d, err := fit.OnDevices(a.Search, m, profiles, *o)
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	if err := d.Report(a.Out, format, step); err != nil {
		return err
	}
	if err := a.Next(format, afterDevices(name, d).About(step)); err != nil {
		return err
	}
	if d.Smallest(fit.Best) == nil && d.Smallest(fit.Level1) == nil {
		return &cli.ExitError{Code: cli.ExitInfeasible, Err: fmt.Errorf("%s: fits no device", name)}
	}
	return nil
}

// options makes options of the flags, without the limit.
func (f *fitFlags) options(a *cli.App) (*fit.Options, error) {
	o := &fit.Options{Effort: f.Work(), Seed: a.Global.Seed,
		Progress: func(what string) { a.Status.Say("looking for %s", what) }}
	share, _, err := report.ParseShare(f.overhead)
	if f.overhead == "0" || f.overhead == "0%" {
		err = nil
	} else if err == nil && share == 0 {
		err = errors.New("is no percentage")
	}
	if err != nil {
		return nil, cli.Usage("--max-overhead %q: %w; wanted a percentage such as 20%%", f.overhead, err)
	}
	o.MaxOverhead = share
	if o.Plan.Chunk, err = option.ChunkMode(f.chunk); err != nil {
		return nil, err
	}
	if o.Plan.Order = planner.OrderChoice(f.order); !slices.Contains(planner.OrderChoices, o.Plan.Order) ||
		o.Plan.Order == planner.OrderMemory {
		return nil, cli.Usage("--order %q: wanted auto, file or ort", f.order)
	}
	if f.vary == "" {
		return nil, cli.Usage("--vary is missing: name a symbol such as batch, two of them, or device")
	}
	o.Vary = strings.Split(f.vary, ",")
	for i, name := range o.Vary {
		o.Vary[i] = strings.TrimSpace(name)
	}
	return o, f.step.Check()
}

// target returns the device or the memory to fit.
func (f *fitFlags) target(a *cli.App, o *fit.Options) (*fit.Target, error) {
	if f.vary == option.DeviceName {
		for _, x := range []struct{ flag, text string }{{"gpu", f.Gpu}, {"device", f.Device}, {"reserve", f.Reserve}} {
			if x.text != "" {
				return nil, cli.Usage("--%s: --vary device looks at all devices; leave it out", x.flag)
			}
		}
		return nil, nil
	}
	at, err := f.Memory(a)
	switch {
	case err != nil:
		return nil, err
	case at.Bytes == 0 && f.Device != "":
		return nil, cli.Usage("--device %s: its profile has no memory: name it with --gpu SIZE", f.Device)
	case at.Bytes == 0:
		return nil, cli.Usage("no memory to fit: name it with --gpu SIZE, or a device with --device NAME")
	}
	t := &fit.Target{Memory: at.Bytes, Reserve: at.Reserve}
	switch {
	case !at.Near:
		t.Device = at.Profile.Name
	case f.Reserve == "":
		t.Source = ", as on " + at.Profile.Name + ", the nearest device"
	}
	o.Plan.Profile = at.Profile
	if f.Device == option.CpuDevice {
		o.Plan.Device, o.Plan.Threads = cpu.Device{}, a.Global.Threads
	}
	return t, nil
}

// ofOneDevice are flags that a search among all devices has no use for.
var ofOneDevice = []string{"gpu", "device", "reserve", "link", "host-budget", "host-dir"}

// afterFit explains the step at the largest size, or writes its plan's file; where no size fits, it
// looks for a device.
func afterFit(name string, r *fit.Result, t *fit.Target, step *report.Step) *cli.NextCommand {
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
		plain, best := s.By[fit.Plain].Value, max(s.By[fit.Best].Value, s.By[fit.Moves].Value)
		if best > plain {
			dims[last] = best
			if step.Home != nil { // which apply knows not
				return &cli.NextCommand{Verb: "estimate", Args: []string{name}, Dims: dims}
			}
			n := cli.Applied(name)
			n.Dims, n.Set = dims, append(n.Set, [2]string{"gpu", report.Exact(t.Memory)})
			if p := r.Options.Plan.Profile; s.By[fit.Moves].Moving != nil && p != nil { // copies are beside its times
				n.Set = append(n.Set, [2]string{"device", p.Name})
			}
			n.Drop = []string{"effort", "time-limit"} // which were for many searches
			return n
		} else if plain > 0 {
			dims[last] = plain
			verb := "estimate"
			if t.Reserve > 0 { // it counts the allocator's rounding with the reserve, which may be too much there
				verb = "explain"
			}
			return &cli.NextCommand{Verb: verb, Args: []string{name}, Dims: dims}
		}
	}
	if r.Sizes == nil || step.Home != nil {
		return nil
	}
	return &cli.NextCommand{Verb: "fit", Args: []string{name},
		Dims: map[string]int64{last: r.Sizes.By[fit.Plain].Least},
		Set:  [][2]string{{"vary", option.DeviceName}}, Drop: ofOneDevice}
}

// afterDevices estimates the step on the smallest device, or writes the file of its plan.
func afterDevices(name string, d *fit.Devices) *cli.NextCommand {
	if s := d.Smallest(fit.Plain); s != nil {
		return &cli.NextCommand{Verb: "estimate", Args: []string{name}, Set: [][2]string{{"device", s.Profile.Name}}}
	}
	s := d.Smallest(fit.Best)
	if s == nil {
		return nil
	}
	n := cli.Applied(name)
	n.Set = append(n.Set, [2]string{"device", s.Profile.Name}, [2]string{"gpu", report.Exact(s.Profile.Memory)})
	return n
}
