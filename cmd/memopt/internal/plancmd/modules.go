package plancmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"memopt/answers/emit"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/configs"
	"memopt/graph/modules"
	"memopt/planner"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
	"memopt/symbolic"
	"memopt/view/report"
)

// torchFormat is the form of -O that is Python, and the target of that text.
const torchFormat = "torch"

// notOfModules are the flags of plan that a plan of modules has no use for.
var notOfModules = []string{"config", "probe", "plan", "order", "cost", "aliases", "clone-bytes", "budget-for", "keep",
	"recompute", "state", "pareto", "save-config", "plot", "format", "optimizer", "accumulate",
	"gradient-accumulation-steps", "budget-in", "solver", "precision",
	"chunk", "details", "no-chart", "require-optimal", "effort"}

// planModules plans which modules of a PyTorch program run again.
func planModules(a *cli.App, cmd *cobra.Command, name string, sel *option.SelectionFlags, moduleMap,
	savePlan string) error {
	for _, flag := range notOfModules {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return cli.Usage("--%s cannot be combined with --select modules, which takes --budget or --level, "+
				"--device, --dim, --module-map, --time-limit and --save-plan", flag)
		}
	}
	format := report.TableFormat
	if a.Global.Output != torchFormat {
		var err error
		if format, err = report.ParseFormat(a.Global.Output); err != nil {
			return cli.Usage("output %q: wanted one of table, json, csv, markdown, torch", a.Global.Output)
		}
	}
	p, err := modulePlan(a.Search, a, name, sel, moduleMap)
	if err != nil {
		return err
	}
	var infeasible error
	if e := p.Infeasible(); e != nil {
		infeasible = &cli.ExitError{Code: cli.ExitInfeasible,
			Err: fmt.Errorf("%s: no choice of modules fits: the lowest peak in "+
				"PyTorch is %s, the budget %s; allow more, or make the batch smaller", name,
				report.Bytes(p.Chosen.Usage.Peak), report.Bytes(p.Limit))}
	} else if savePlan != "" {
		data, err := p.File()
		if err != nil {
			return cli.Classify(cli.Wrap(name, err))
		}
		if err := a.WriteArtefact("--save-plan", savePlan, data); err != nil {
			return err
		}
	}
	if a.Global.Output == torchFormat {
		if infeasible != nil {
			return infeasible
		}
		t, err := emit.Lookup(torchFormat)
		if err != nil {
			return err
		}
		return emitPlan(a, t, p, emit.Moves{}, report.TableFormat)
	}
	p.Climb(a.Search)
	return cmp.Or(p.Report(a.Out, format), infeasible)
}

// modulePlan makes the plan of a model, or of a step that PyTorch traced.
func modulePlan(ctx context.Context, a *cli.App, name string, sel *option.SelectionFlags,
	moduleMap string) (*pytorch.Plan, error) {
	traced, hash, err := load.ReadStep(a, name)
	switch {
	case err != nil:
		return nil, cli.Invalid(cli.Wrap(name, err))
	case traced != nil && (moduleMap != "" || len(a.Global.Dims) > 0):
		return nil, cli.Usage("%s is a step that PyTorch traced at one size: --dim and --module-map have no effect "+
			"on it",
			name)
	}
	o, err := moduleOptions(a, sel, moduleMap)
	if err != nil {
		return nil, err
	}
	if traced != nil {
		a.Status.Say("searching for modules")
		return pytorch.MakeTraced(ctx, traced, name, hash, *o), nil
	}
	m, err := load.Model(a, name, load.Reading{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := sel.Step.Recipe(m, a.Global.Seed, false)
	if err != nil {
		return nil, err
	}
	o.Gradients = r.Differentiate
	a.Status.Say("searching for modules")
	p, err := pytorch.Make(ctx, m, *o)
	if err != nil {
		return nil, classifyModules(a, name, err)
	}
	return p, nil
}

// moduleOptions makes options of the flags.
func moduleOptions(a *cli.App, sel *option.SelectionFlags, moduleMap string) (*pytorch.Options, error) {
	o := &pytorch.Options{}
	switch sel.Level {
	case "", "0":
	case "1":
		if sel.Budget != "" {
			return nil, cli.Usage("--level 1 and --budget cannot be combined: a plan to a budget chooses which " +
				"blocks run again")
		}
		o.Every = true
	default:
		return nil, cli.Usage("--level %q: with --select modules wanted 0, or 1 for every block", sel.Level)
	}
	var b planner.Budget
	var err error
	if err := option.ParseBudget(a, sel.Budget, &b); err != nil {
		return nil, err
	}
	o.Total, o.Share = b.Total, b.Share
	if sel.Device != "" {
		if o.Profile, err = configs.LoadDevice(sel.Device); err != nil {
			return nil, cli.Usage("--device %w", err)
		}
	}
	if moduleMap != "" {
		if o.Map, err = modules.LoadMap(moduleMap); err != nil {
			return nil, cli.Usage("--module-map: %w", err)
		}
	}
	return o, nil
}

// classifyModules gives an error of planning modules its exit code.
func classifyModules(a *cli.App, name string, err error) error {
	var noRow *torchsim.NoRow
	var unbound *symbolic.UnboundError
	switch {
	case errors.Is(err, modules.ErrNoModules):
		return cli.Invalid(cli.Wrap(name, fmt.Errorf("%w with --module-map", err)))
	case errors.As(err, &noRow):
		return cli.Invalid(cli.Wrap(name, fmt.Errorf("%w; plan nodes in place of modules (leave out --select modules)",
			err)))
	case errors.Is(err, pytorch.ErrBackward):
		return cli.Invalid(cli.Wrap(name, err))
	case errors.As(err, &unbound):
		return a.ClassifyPlan(name, err)
	}
	return gradcmd.ClassifyGrad(name, err)
}
