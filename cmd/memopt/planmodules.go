package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"memopt/configs"
	"memopt/graph/modules"
	"memopt/planner"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
	"memopt/symbolic"
	"memopt/view/report"
)

// torchFormat is the form of -O that is Python.
const torchFormat = "torch"

// notOfModules are the flags of plan that a plan of modules has no use for.
var notOfModules = []string{"config", "probe", "plan", "order", "cost", "aliases", "clone-bytes", "budget-for", "keep",
	"recompute", "state", "pareto", "save-config", "plot", "format", "optimizer", "accumulate",
	"gradient-accumulation-steps", "budget-in", "solver",
	"chunk", "details", "no-chart", "require-optimal", "effort"}

// planModules plans which modules of a PyTorch program run again.
func (a *app) planModules(cmd *cobra.Command, name string, sel *selectionFlags, moduleMap, savePlan string) error {
	for _, flag := range notOfModules {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return usage("--%s cannot be combined with --select modules, which takes --budget or --level, --device, "+
				"--dim, --module-map, --time-limit and --save-plan", flag)
		}
	}
	format := report.TableFormat
	if a.global.output != torchFormat {
		var err error
		if format, err = report.ParseFormat(a.global.output); err != nil {
			return usage("output %q: wanted one of table, json, csv, markdown, torch", a.global.output)
		}
	}
	p, err := a.modulePlan(name, sel, moduleMap)
	if err != nil {
		return err
	}
	var infeasible error
	if e := p.Infeasible(); e != nil {
		infeasible = &exitError{exitInfeasible, fmt.Errorf("%s: no choice of modules fits: the lowest peak in "+
			"PyTorch is %s, the budget %s; allow more, or make the batch smaller", name,
			report.Bytes(p.Chosen.Usage.Peak), report.Bytes(p.Limit))}
	} else if savePlan != "" {
		data, err := p.File()
		if err != nil {
			return classify(wrap(name, err))
		}
		if err := a.writeArtefact("--save-plan", savePlan, data); err != nil {
			return err
		}
	}
	if a.global.output == torchFormat {
		if infeasible != nil {
			return infeasible
		}
		return p.Lines(a.out)
	}
	return cmp.Or(p.Report(a.out, format), infeasible)
}

// modulePlan makes the plan of a model, or of a step that PyTorch traced.
func (a *app) modulePlan(name string, sel *selectionFlags, moduleMap string) (*pytorch.Plan, error) {
	traced, hash, err := a.readStep(name)
	switch {
	case err != nil:
		return nil, invalid(wrap(name, err))
	case traced != nil && (moduleMap != "" || len(a.global.dims) > 0):
		return nil, usage("%s is a step that PyTorch traced at one size: --dim and --module-map say nothing of it",
			name)
	}
	o, err := a.moduleOptions(sel, moduleMap)
	if err != nil {
		return nil, err
	}
	if traced != nil {
		a.status.say("searching for modules")
		return pytorch.MakeTraced(a.search, traced, name, hash, *o), nil
	}
	m, err := a.load(name, reading{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := sel.step.recipe(m, a.global.seed, false)
	if err != nil {
		return nil, err
	}
	o.Gradients = r.Differentiate
	a.status.say("searching for modules")
	p, err := pytorch.Make(a.search, m, *o)
	if err != nil {
		return nil, a.classifyModules(name, err)
	}
	return p, nil
}

// moduleOptions makes options of the flags.
func (a *app) moduleOptions(sel *selectionFlags, moduleMap string) (*pytorch.Options, error) {
	o := &pytorch.Options{}
	switch sel.level {
	case "", "0":
	case "1":
		if sel.budget != "" {
			return nil, usage("--level 1 and --budget cannot be combined: a plan to a budget chooses which " +
				"blocks run again")
		}
		o.Every = true
	default:
		return nil, usage("--level %q: with --select modules wanted 0, or 1 for every block", sel.level)
	}
	var b planner.Budget
	var err error
	if err := a.parseBudget(sel.budget, &b); err != nil {
		return nil, err
	}
	o.Total, o.Share = b.Total, b.Share
	if sel.device != "" {
		if o.Profile, err = configs.LoadDevice(sel.device); err != nil {
			return nil, usage("--device %w", err)
		}
	}
	if moduleMap != "" {
		if o.Map, err = modules.LoadMap(moduleMap); err != nil {
			return nil, usage("--module-map: %w", err)
		}
	}
	return o, nil
}

// classifyModules gives an error of planning modules its exit code.
func (a *app) classifyModules(name string, err error) error {
	var noRow *torchsim.NoRow
	var unbound *symbolic.UnboundError
	switch {
	case errors.Is(err, modules.ErrNoModules):
		return invalid(wrap(name, fmt.Errorf("%w with --module-map", err)))
	case errors.As(err, &noRow):
		return invalid(wrap(name, fmt.Errorf("%w; plan nodes in place of modules (leave out --select modules)", err)))
	case errors.Is(err, pytorch.ErrBackward):
		return invalid(wrap(name, err))
	case errors.As(err, &unbound):
		return a.classifyPlan(name, err)
	}
	return classifyGrad(name, err)
}
