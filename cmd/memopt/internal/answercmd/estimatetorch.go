package answercmd

import (
	"errors"
	"fmt"
	"strings"

	"memopt"
	"memopt/answers/estimate"
	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
	"memopt/symbolic"
	"memopt/view/report"
)

// notOfTorch are the flags of estimate that have no meaning for PyTorch's step.
var notOfTorch = []string{"precision", "chunk", "check", "state", "effort", "fuse", "keep-grads", "dp", "zero", "tp",
	"pp", "microbatches", "interleave", "sequence-parallel"}

// notOfTraced are those that have no meaning for a traced step, which is of one model at one size.
var notOfTraced = []string{"loss", "params", "freeze"}

// readRuntime reads --runtime; a traced step is PyTorch's unless it is given.
func (f *estimateFlags) readRuntime(name string, traced bool) (estimate.Runtime, error) {
	for _, r := range estimate.Runtimes {
		switch {
		case f.runtime != string(r):
		case r == estimate.Own && traced && f.set.Changed("runtime"):
			return r, cli.Usage("%s is a step that PyTorch traced: leave out --runtime memopt", name)
		case traced:
			return estimate.Torch, nil
		default:
			return r, nil
		}
	}
	return "", cli.Usage("--runtime %q: wanted memopt or torch", f.runtime)
}

// estimateTorch answers whether PyTorch's own step fits. traced is nil for a forward model.
func estimateTorch(a *cli.App, name string, traced *torchsim.Traced, hash string, f *estimateFlags,
	o *estimate.Options, format report.Format) error {
	if given := f.step.Asked(notOfTorch...); len(given) > 0 {
		return cli.Usage("%s cannot be combined with --runtime torch, which estimates one device of PyTorch's eager "+
			"mode in the types of the file", given[0])
	}
	if !f.step.Optimizer.Uniform() {
		return cli.Usage("--optimizer %s cannot be combined with --runtime torch, whose update is known for "+
			"optimizers with the same float states of all parameters alone", f.step.Optimizer.Kind)
	}
	var r *estimate.Result
	var m *memopt.Model
	var err error
	if traced != nil {
		r, err = estimateTraced(a, name, traced, hash, f, o)
	} else {
		if m, err = load.Model(a, name, load.Reading{}); err != nil {
			return err
		}
		defer m.Close()
		r, err = estimateForward(a, name, m, f, o)
	}
	if err != nil {
		return err
	}
	borrowed(r, o, f)
	if err := estimate.Report(a.Out, format, r, a.Global.Verbose); err != nil {
		return err
	}
	if err := a.Next(format, afterTorch(name, r)); err != nil {
		return err
	}
	return fits(a, name, r)
}

// estimateTraced estimates a step that PyTorch traced.
func estimateTraced(a *cli.App, name string, traced *torchsim.Traced, hash string, f *estimateFlags,
	o *estimate.Options) (*estimate.Result, error) {
	given := f.step.Asked(notOfTraced...)
	if f.set.Changed("outputs") {
		given = append(given, "--outputs")
	}
	if len(a.Global.Dims) > 0 {
		given = append(given, "--dim")
	}
	if len(given) > 0 {
		return nil, cli.Usage("%s is a step that PyTorch traced at one size, with the loss alone: %s has no effect "+
			"on it",
			name, given[0])
	}
	if err := f.step.Check(); err != nil {
		return nil, err
	}
	update, err := f.step.Optimizer.Update(nil, false)
	if err != nil {
		return nil, err
	}
	o.Recipe.Micros = max(f.step.Micros, 1)
	if f.step.Updates() {
		o.Recipe.Optimizer = update
	}
	a.Status.Say("estimating the step")
	r, err := estimate.MakeTraced(a.Search, traced, name, hash, *o)
	if err != nil {
		return nil, classifyTorch(a, name, err)
	}
	r.Text = ofTorch(&f.step, "traced", len(traced.Parameters))
	return r, nil
}

// estimateForward estimates the step that PyTorch makes of a forward model.
func estimateForward(a *cli.App, name string, m *memopt.Model, f *estimateFlags, o *estimate.Options) (*estimate.Result,
	error) {
	var err error
	if o.Recipe, err = f.step.Recipe(m, a.Global.Seed, false); err != nil {
		return nil, err
	}
	a.Status.Say("estimating the step")
	r, err := estimate.MakeTorch(a.Search, m, *o)
	if err != nil {
		return nil, classifyTorch(a, name, err)
	}
	gradcmd.NoteRoles(a, r.Joint)
	r.Text = ofTorch(&f.step, f.step.Kept(m), len(r.Joint.Wrt))
	return r, nil
}

// ofTorch names a step of PyTorch in a phrase.
func ofTorch(s *gradcmd.StepFlags, of string, parameters int) string {
	by := "no optimizer"
	if s.Updates() {
		by = s.Optimizer.Title()
	}
	gradients := fmt.Sprintf("gradients of %d %s", parameters, cli.Plural(parameters, "parameter", "parameters"))
	if s.Micros > 1 {
		gradients += fmt.Sprintf(" added up over %d micro-steps", s.Micros)
	}
	return strings.Join([]string{"PyTorch's: " + of, gradients, by}, ", ")
}

// classifyTorch gives an error of PyTorch's step its exit code.
func classifyTorch(a *cli.App, name string, err error) error {
	var noRow *torchsim.NoRow
	var unbound *symbolic.UnboundError
	var none *autograd.NoRule
	switch {
	case errors.As(err, &noRow), errors.As(err, &none), errors.Is(err, pytorch.ErrBackward):
		return cli.Invalid(cli.Wrap(name, fmt.Errorf("%w; leave out --runtime torch for the step of memopt itself",
			err)))
	case errors.As(err, &unbound):
		return a.ClassifyPlan(name, err)
	}
	return gradcmd.ClassifyGrad(name, err)
}

// afterTorch plans modules: to the memory where a choice of them fits.
func afterTorch(name string, r *estimate.Result) *cli.NextCommand {
	n := &cli.NextCommand{Verb: "plan", Args: []string{name}, Set: [][2]string{{"select", option.ModulesName}},
		Drop: []string{
			"runtime", "gpu", "device", "reserve", "optimizer", "accumulate", "gradient-accumulation-steps"}}
	n.Drop = append(n.Drop, gradcmd.OptimizerDetails...)
	if fits, known := r.Fits(); known && !fits && r.Planned != nil {
		p := &r.Planned.Parts
		room := r.Memory - p.Reserve - p.State
		if r.Micros > 1 {
			room -= p.Gradients
		}
		n.Set = append(n.Set, [2]string{"budget", report.Exact(room)})
	}
	return n
}
