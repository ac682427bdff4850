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
				"--module-map, --time-limit, and for JAX and Megatron-LM --host-budget and --link", flag)
		}
	}
	if f := cmd.Flags(); !t.Moves && (f.Changed("host-budget") || f.Changed("link")) {
		return cli.Usage("--emit %s has no words for values that move to the host: leave --host-budget and --link out",
			t.Name)
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
	profile, err := emitDevice(sel)
	if err != nil {
		return err
	}
	moves, err := emitMoves(profile, move)
	if err != nil {
		return err
	}
	return emitPlan(a, t, p, moves, format)
}

// emitDevice is the profile of the device.
func emitDevice(sel *option.SelectionFlags) (*device.Profile, error) {
	if sel.Device == "" {
		return &device.Default, nil
	}
	profile, err := configs.LoadDevice(sel.Device)
	if err != nil {
		return nil, cli.Usage("--device %w", err)
	}
	return profile, nil
}

// emitMoves says whether values may move to the host; the link is that of the device unless it is given.
func emitMoves(profile *device.Profile, move *cli.MoveFlags) (emit.Moves, error) {
	o, err := move.Options()
	x := emit.Moves{HostBudget: o.HostBudget, Link: profile.Link}
	if move.Given() {
		x.Link = o.Link.BytesPerSecond
	}
	return x, err
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
func emitPlan(a *cli.App, t *emit.Target, p *pytorch.Plan, moves emit.Moves, format report.Format) error {
	a.Status.Say("searching for a setting of %s", t.Title)
	answer, err := emit.Torch(a.Search, t, p, moves, a.Keeper.Keep)
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
	if o.Profile, err = emitDevice(sel); err != nil {
		return err
	}
	moves, err := emitMoves(o.Profile, move)
	if err != nil {
		return err
	}
	o.HostBudget, o.Link = moves.HostBudget, moves.Link
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
