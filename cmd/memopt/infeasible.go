package main

import (
	"errors"

	"memopt"
	"memopt/planner"
	"memopt/view/report"
)

// reportInfeasible prints, where no plan fits a budget, the bound that rules it out, or
// how low the search came and the largest batch that fits.
func (a *app) reportInfeasible(name string, m *memopt.Model, c *chosen, err error) error {
	format, e := report.ParseFormat(a.global.output)
	b, ok := c.strategy.(memopt.Budget)
	u := &report.InfeasibleBudget{Model: m.Model, SHA: m.StructureSHA256, Dims: m.Dims, Step: c.step}
	if e != nil || !ok || a.ctx.Err() != nil || !errors.As(err, &u.Error) {
		return nil
	}
	if symbol := m.BatchSymbol(); symbol != "" && (b.Total+b.Arena > 0 || b.Share > 0) && u.Error.Searched() {
		a.status.say("looking for the largest %s that fits", symbol)
		if u.Headroom, e = m.Headroom(a.search, symbol, b, u.Error, c.options); e != nil {
			return e
		}
	}
	if err := report.StepLine(a.out, format, c.step); err != nil {
		return err
	}
	if err := report.InfeasibleBudgetReport(a.out, format, u); err != nil {
		return err
	}
	return a.next(format, a.afterInfeasible(name, u, &b).of(c.step))
}

// humanInfeasible is the error of an infeasible budget, with sizes for people.
type humanInfeasible struct {
	*planner.InfeasibleError
	where string // the sizes, which stand before it
}

func (e humanInfeasible) Error() string {
	return e.where + report.InfeasibleBudgetText(e.InfeasibleError)
}

// Unwrap returns the error itself, which has all sizes in bytes.
func (e humanInfeasible) Unwrap() error { return e.InfeasibleError }
