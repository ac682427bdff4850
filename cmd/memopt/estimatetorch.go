package main

import (
	"errors"
	"fmt"
	"strings"

	"memopt"
	"memopt/answers/estimate"
	"memopt/autograd"
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
			return r, usage("%s is a step that PyTorch traced: leave out --runtime memopt", name)
		case traced:
			return estimate.Torch, nil
		default:
			return r, nil
		}
	}
	return "", usage("--runtime %q: wanted memopt or torch", f.runtime)
}

// estimateTorch answers whether PyTorch's own step fits. traced is nil for a forward model.
func (a *app) estimateTorch(name string, traced *torchsim.Traced, hash string, f *estimateFlags,
	o *estimate.Options, format report.Format) error {
	if given := f.step.asked(notOfTorch...); len(given) > 0 {
		return usage("%s cannot be combined with --runtime torch, which estimates one device of PyTorch's eager mode "+
			"in the types of the file", given[0])
	}
	var r *estimate.Result
	var m *memopt.Model
	var err error
	if traced != nil {
		r, err = a.estimateTraced(name, traced, hash, f, o)
	} else {
		if m, err = a.load(name, reading{}); err != nil {
			return err
		}
		defer m.Close()
		r, err = a.estimateForward(name, m, f, o)
	}
	if err != nil {
		return err
	}
	borrowed(r, o, f)
	if err := estimate.Report(a.out, format, r, a.global.verbose); err != nil {
		return err
	}
	if err := a.next(format, afterTorch(name, r)); err != nil {
		return err
	}
	return a.fits(name, r)
}

// estimateTraced estimates a step that PyTorch traced.
func (a *app) estimateTraced(name string, traced *torchsim.Traced, hash string, f *estimateFlags,
	o *estimate.Options) (*estimate.Result, error) {
	given := f.step.asked(notOfTraced...)
	if f.set.Changed("outputs") {
		given = append(given, "--outputs")
	}
	if len(a.global.dims) > 0 {
		given = append(given, "--dim")
	}
	if len(given) > 0 {
		return nil, usage("%s is a step that PyTorch traced at one size, with the loss alone: %s says nothing of it",
			name, given[0])
	}
	if err := f.step.check(); err != nil {
		return nil, err
	}
	update, err := f.step.optimizer.update(nil, false)
	if err != nil {
		return nil, err
	}
	o.Recipe.Micros = max(f.step.micros, 1)
	if f.step.updates() {
		o.Recipe.Optimizer = update
	}
	a.status.say("estimating the step")
	r, err := estimate.MakeTraced(a.search, traced, name, hash, *o)
	if err != nil {
		return nil, a.classifyTorch(name, err)
	}
	r.Text = f.step.ofTorch("traced", len(traced.Parameters))
	return r, nil
}

// estimateForward estimates the step that PyTorch makes of a forward model.
func (a *app) estimateForward(name string, m *memopt.Model, f *estimateFlags, o *estimate.Options) (*estimate.Result,
	error) {
	var err error
	if o.Recipe, err = f.step.recipe(m, a.global.seed, false); err != nil {
		return nil, err
	}
	a.status.say("estimating the step")
	r, err := estimate.MakeTorch(a.search, m, *o)
	if err != nil {
		return nil, a.classifyTorch(name, err)
	}
	a.noteRoles(r.Joint)
	r.Text = f.step.ofTorch(f.step.kept(m), len(r.Joint.Wrt))
	return r, nil
}

// ofTorch names a step of PyTorch in a phrase.
func (s *stepFlags) ofTorch(of string, parameters int) string {
	by := "no optimizer"
	if s.updates() {
		by = optimizerTitles[s.optimizer.kind]
	}
	gradients := fmt.Sprintf("gradients of %d %s", parameters, plural(parameters, "parameter", "parameters"))
	if s.micros > 1 {
		gradients += fmt.Sprintf(" added up over %d micro-steps", s.micros)
	}
	return strings.Join([]string{"PyTorch's: " + of, gradients, by}, ", ")
}

// classifyTorch gives an error of PyTorch's step its exit code.
func (a *app) classifyTorch(name string, err error) error {
	var noRow *torchsim.NoRow
	var unbound *symbolic.UnboundError
	var none *autograd.NoRule
	switch {
	case errors.As(err, &noRow), errors.As(err, &none), errors.Is(err, pytorch.ErrBackward):
		return invalid(wrap(name, fmt.Errorf("%w; leave out --runtime torch for the step of memopt itself", err)))
	case errors.As(err, &unbound):
		return a.classifyPlan(name, err)
	}
	return classifyGrad(name, err)
}

// afterTorch plans modules: to the memory where a choice of them fits.
func afterTorch(name string, r *estimate.Result) *nextCommand {
	n := &nextCommand{verb: "plan", args: []string{name}, set: [][2]string{{"select", modulesName}}, drop: []string{
		"runtime", "gpu", "device", "reserve", "optimizer", "accumulate", "gradient-accumulation-steps"}}
	n.drop = append(n.drop, optimizerDetails...)
	if fits, known := r.Fits(); known && !fits && r.Planned != nil {
		p := &r.Planned.Parts
		room := r.Memory - p.Reserve - p.State
		if r.Micros > 1 {
			room -= p.Gradients
		}
		n.set = append(n.set, [2]string{"budget", report.Exact(room)})
	}
	return n
}
