package main

import (
	"errors"

	"memopt"
	"memopt/planner"
	"memopt/view/report"
)

// reportUnfit prints, where no plan fits a budget, the bound that rules it out, or
// how low the search came and the largest batch that fits.
func (a *app) reportUnfit(name string, m *memopt.Model, c *chosen, err error) error {
	format, e := report.ParseFormat(a.global.output)
	b, ok := c.strategy.(memopt.Budget)
	u := &report.Unfit{Model: m.Model, SHA: m.StructureSHA256, Dims: m.Dims, Step: a.made}
	if e != nil || !ok || a.ctx.Err() != nil || !errors.As(err, &u.Error) {
		return nil
	}
	if symbol := m.BatchSymbol(); symbol != "" && (b.Total+b.Arena > 0 || b.Share > 0) && u.Error.Searched() {
		a.status.say("looking for the largest %s that fits", symbol)
		if u.Room, e = m.Room(a.search, symbol, b, u.Error, c.options); e != nil {
			return e
		}
	}
	if err := report.StepLine(a.out, format, a.made); err != nil {
		return err
	}
	if err := report.UnfitReport(a.out, format, u); err != nil {
		return err
	}
	return a.next(format, a.afterUnfit(name, u, &b))
}

// humanUnfit is the error of a budget that nothing fits, with sizes for people.
type humanUnfit struct {
	*planner.UnfitError
	where string // what stands before it: at which sizes
}

func (e humanUnfit) Error() string { return e.where + report.UnfitText(e.UnfitError) }

// Unwrap returns the error itself, which has all sizes in bytes.
func (e humanUnfit) Unwrap() error { return e.UnfitError }
