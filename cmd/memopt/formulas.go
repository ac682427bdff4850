package main

import (
	"memopt"
	"memopt/view/report"
)

// formulas answers a question about the memory of a step that needs sizes where there are none: by the formulas of the
// peak and the command with sizes. For scripts it is the report of the plan, which has them.
func (a *app) formulas(format report.Format, name string, p *memopt.Plan, c *chosen) error {
	bind := &nextCommand{verb: a.verb.Name(), args: []string{name}, dims: a.examples(c.file, p.Unbound)}
	view := report.PlanView{ConfigPath: c.configPath, Bind: a.bindFlag(c.file, p.Unbound), Stashes: a.listLimit()}
	if format == report.JSONFormat || format == report.CSVFormat {
		return a.printPlan(format, p, c.step, view, 0)
	}
	if err := report.StepLine(a.out, format, c.step); err != nil {
		return err
	}
	if err := report.Unsized(a.out, format, p.Plan, view); err != nil {
		return err
	}
	return a.next(format, bind.of(c.step))
}
