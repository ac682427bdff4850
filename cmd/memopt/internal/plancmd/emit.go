package plancmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"memopt/answers/emit"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/internal/timelimit"
	"memopt/python/pytorch"
	"memopt/view/report"
)

// moduleShare is the part of the time for the plan of modules; the search for a setting of a mechanism begins with
// that plan.
const moduleShare = 0.5

// planEmit prints a plan for another framework's mechanism.
func planEmit(a *cli.App, cmd *cobra.Command, name, target string, sel *option.SelectionFlags,
	moduleMap string) error {
	t, err := emit.Lookup(target)
	if err != nil {
		return cli.Usage("--emit %w", err)
	}
	for _, flag := range append([]string{"save-plan"}, notOfModules...) {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return cli.Usage("--%s cannot be combined with --emit, which takes --budget, --device, --dim, "+
				"--module-map and --time-limit", flag)
		}
	}
	format, err := emitFormat(a)
	if err != nil {
		return err
	}
	if t.Traced && sel.Budget == "" {
		return cli.Usage("--emit %s: --budget is missing: give a size, for example 12GiB, or a share, "+
			"for example 60%%", t.Name)
	}
	search := a.Search
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
	answer, err := emit.Torch(a.Search, t, p)
	switch {
	case errors.Is(err, emit.ErrNoLayers):
		return cli.Invalid(cli.Wrap(p.Source.Path, err))
	case err != nil:
		return cli.Classify(cli.Wrap(p.Source.Path, err))
	}
	return printAnswer(a, p.Source.Path, answer, format)
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
