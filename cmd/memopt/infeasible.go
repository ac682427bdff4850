package main

import (
	"errors"
	"fmt"
	"math"

	"memopt"
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

// afterInfeasible plans the largest size that fits, else to the lowest peak that was reached; where a bound ruled
// the budget out, without one, to see the price of lower peaks.
func (a *app) afterInfeasible(name string, u *report.InfeasibleBudget, b *memopt.Budget) *nextCommand {
	n := &nextCommand{verb: "plan", args: []string{name}}
	e := u.Error
	if u.Headroom != nil && u.Headroom.Size > 0 {
		n.dims = map[string]int64{u.Headroom.Symbol: u.Headroom.Size}
		if b.Share > 0 { // a share means another peak there
			n.set = [][2]string{{"budget", report.WholeKiB(u.Headroom.Total)}}
		}
		return n
	}
	if e.Stopped && a.limits != nil && a.limits.limit < defaultLimit { // more time may find a plan
		n.drop = []string{limitName, "effort"}
		return n
	}
	n.drop = []string{"gpu", "reserve", limitName, "effort"}
	if e.Searched() && e.LowestArena > 0 && !e.Stopped && !b.Runtime && !b.Clusters && len(b.StashLimits) == 0 {
		switch {
		case b.Total > 0:
			n.set = [][2]string{{"budget", report.WholeKiB(b.Total - e.Budget + e.LowestArena)}}
			return n
		case b.Share > 0 && e.Budget > 0:
			if share := math.Ceil(100 * b.Share * float64(e.LowestArena) / float64(e.Budget)); share < 100 {
				n.set = [][2]string{{"budget", fmt.Sprintf("%g%%", share)}}
				return n
			}
		}
	}
	n.drop = append(n.drop, "budget", "budget-for", "budget-in", "select", "solver", "require-optimal", "chunk")
	return n
}
