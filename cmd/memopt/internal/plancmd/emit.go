package plancmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"memopt/answers/emit"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/configs"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/python/pytorch"
	"memopt/view/report"
)

// moduleShare is the part of the time for the plan of modules; the search for a setting of a mechanism begins with
// that plan.
const moduleShare = 0.5

// planEmit prints a plan for another framework's mechanism.
func planEmit(a *cli.App, cmd *cobra.Command, name, target string, sel *option.SelectionFlags, move *cli.MoveFlags,
	moduleMap string) error {
	t, err := emit.Lookup(target)
	if err != nil {
		return cli.Usage("--emit %w", err)
	}
	for _, flag := range append([]string{"save-plan"}, notOfModules...) {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return cli.Usage("--%s cannot be combined with --emit, which takes --budget, --device, --dim, "+
				"--module-map, --time-limit, and for JAX --host-budget and --link", flag)
		}
	}
	format, err := emitFormat(a)
	if err != nil {
		return err
	}
	if (t.Traced || t.JAX()) && sel.Budget == "" {
		return cli.Usage("--emit %s: --budget is missing: give a size, for example 12GiB, or a share, "+
			"for example 60%%", t.Name)
	}
	search := a.Search
	if t.JAX() {
		return planNames(a, t, name, sel, move, format)
	}
	if t.Traced {
		var done context.CancelFunc
		search, done = timelimit.Share(search, moduleShare)
		defer done()
	}
	p, err := modulePlan(search, a, name, sel, moduleMap)
	if err != nil {
		return err
	}
	if t.Traced && p.Joint != nil {
		return cli.Invalid(cli.Wrap(name, fmt.Errorf("an ONNX file does not name PyTorch's operators, which a policy "+
			"of --emit %s decides by: trace the step with memopt.torch.trace(model, batch).to_json(), and plan that "+
			"file", t.Name)))
	}
	return emitPlan(a, t, p, format)
}

// emitFormat is the form of -O: the text for the framework, or JSON with it.
func emitFormat(a *cli.App) (report.Format, error) {
	switch format, err := report.ParseFormat(a.Global.Output); {
	case err != nil, format != report.TableFormat && format != report.JSONFormat:
		return format, cli.Usage("output %q: with --emit wanted table, for the framework's text, or json",
			a.Global.Output)
	default:
		return format, nil
	}
}

// emitPlan prints the setting of a target for a step of PyTorch.
func emitPlan(a *cli.App, t *emit.Target, p *pytorch.Plan, format report.Format) error {
	a.Status.Say("searching for a setting of %s", t.Title)
	answer, err := emit.Torch(a.Search, t, p, a.Keeper.Keep)
	switch {
	case errors.Is(err, emit.ErrNoLayers), errors.Is(err, emit.ErrNoRepeated):
		return cli.Invalid(cli.Wrap(p.Source.Path, err))
	case err != nil:
		return cli.Classify(cli.Wrap(p.Source.Path, err))
	}
	return printAnswer(a, p.Source.Path, answer, format)
}

// planNames prints a plan of the named values of a step of JAX.
func planNames(a *cli.App, t *emit.Target, name string, sel *option.SelectionFlags, move *cli.MoveFlags,
	format report.Format) error {
	p, err := load.ReadNames(a, name)
	switch {
	case err != nil:
		return cli.Invalid(cli.Wrap(name, err))
	case p == nil:
		return cli.Invalid(cli.Wrap(name, fmt.Errorf("is no step of JAX with its names: wanted the text that "+
			"memopt.jax.names(loss, params, batch) returns, in a file, since a compiled program does not have them")))
	}
	o := emit.JAXOptions{Path: name, Found: a.Keeper.Keep}
	var b planner.Budget
	if err := option.ParseBudget(a, sel.Budget, &b); err != nil {
		return err
	}
	o.Total, o.Share = b.Total, b.Share
	o.Profile = &device.Default
	if sel.Device != "" {
		if o.Profile, err = configs.LoadDevice(sel.Device); err != nil {
			return cli.Usage("--device %w", err)
		}
	}
	moves, err := move.Options()
	if err != nil {
		return err
	}
	o.HostBudget, o.Link = moves.HostBudget, o.Profile.Link
	if move.Given() {
		o.Link = moves.Link.BytesPerSecond
	}
	a.Status.Say("searching for a setting of %s", t.Title)
	answer, err := emit.JAX(a.Search, t, p, o)
	if err != nil {
		return cli.Invalid(cli.Wrap(name, err))
	}
	return printAnswer(a, name, answer, format)
}

// printAnswer prints an answer; one that does not fit is exit code 3.
func printAnswer(a *cli.App, name string, answer *emit.Answer, format report.Format) error {
	var err error
	if format == report.JSONFormat {
		err = answer.JSON(a.Out)
	} else {
		_, err = io.WriteString(a.Out, answer.Text)
	}
	if e := answer.Infeasible(); err == nil && e != nil {
		err = &cli.ExitError{Code: cli.ExitInfeasible, Err: cli.Wrap(name, e)}
	}
	return err
}
