package plancmd

import (
	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/view/report"
)

// Formulas answers a question about the memory of a step that needs sizes of symbols, by the formulas of the
// peak and the command with sizes. For scripts it is the report of the plan, which has them.
func Formulas(a *cli.App, format report.Format, name string, p *memopt.Plan, c *option.Chosen) error {
	bind := &cli.NextCommand{Verb: a.Verb.Name(), Args: []string{name}, Dims: a.Examples(c.File, p.Unbound)}
	view := report.PlanView{ConfigPath: c.ConfigPath, Bind: a.BindFlag(c.File, p.Unbound), Stashes: a.ListLimit()}
	if format == report.JSONFormat || format == report.CSVFormat {
		return printPlan(a, format, p, c.Step, view, 0)
	}
	if err := report.StepLine(a.Out, format, c.Step); err != nil {
		return err
	}
	if err := report.Unsized(a.Out, format, p.Plan, view); err != nil {
		return err
	}
	return a.Next(format, bind.About(c.Step))
}
