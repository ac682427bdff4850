package main

import (
	"errors"

	"memopt"
	"memopt/answers/estimate"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/symbolic"
	"memopt/view/report"
)

// sizeless reports whether sizes of a model are not known, because symbols have no values.
func sizeless(m *memopt.Model) bool {
	_, err := live.EvalSizes(m.Graph, m.Dims)
	var unbound *symbolic.UnboundError
	return errors.As(err, &unbound)
}

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

// estimateFormulas estimates a step without sizes.
func (a *app) estimateFormulas(name string, m *memopt.Model, f *estimateFlags, o *estimate.Options,
	format report.Format) error {
	made, step, err := a.step(m, &f.step, f.device != "" && f.device != cpuDevice)
	if err != nil {
		return err
	}
	a.status.say("looking for formulas of the peak")
	p, err := made.Plan(a.search, nil, memopt.PlanOptions{Options: planner.Options{Profile: o.Device,
		Ranges: a.ranges(), CheckSeed: a.global.seed}})
	if err != nil {
		return a.classifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.warn("%s", w)
	}
	return a.formulas(format, name, p, &chosen{file: m, step: step})
}
