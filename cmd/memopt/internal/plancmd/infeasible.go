package plancmd

import (
	"errors"
	"fmt"
	"math"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/view/report"
)

// reportInfeasible prints, where no plan fits a budget, the bound that rules it out, or
// how low the search came and the largest batch that fits.
func reportInfeasible(a *cli.App, name string, m *memopt.Model, c *option.Chosen, err error) error {
	format, e := report.ParseFormat(a.Global.Output)
	b, ok := c.Strategy.(memopt.Budget)
	u := &report.InfeasibleBudget{Model: m.Model, SHA: m.StructureSHA256, Dims: m.Dims, Step: c.Step}
	if e != nil || !ok || a.Ctx.Err() != nil || !errors.As(err, &u.Error) {
		return nil
	}
	if symbol := m.BatchSymbol(); symbol != "" && (b.Total+b.Arena > 0 || b.Share > 0) && u.Error.Searched() {
		a.Status.Say("looking for the largest %s that fits", symbol)
		if u.Headroom, e = m.Headroom(a.Search, symbol, b, u.Error, c.Options); e != nil {
			return e
		}
	}
	if err := report.StepLine(a.Out, format, c.Step); err != nil {
		return err
	}
	if err := report.InfeasibleBudgetReport(a.Out, format, u); err != nil {
		return err
	}
	return a.Next(format, afterInfeasible(a, name, u, &b).About(c.Step))
}

// afterInfeasible plans the largest size that fits, else to the lowest peak that was reached; where a bound ruled
// the budget out, without one, to see the price of lower peaks.
func afterInfeasible(a *cli.App, name string, u *report.InfeasibleBudget, b *memopt.Budget) *cli.NextCommand {
	n := &cli.NextCommand{Verb: "plan", Args: []string{name}}
	e := u.Error
	if u.Headroom != nil && u.Headroom.Size > 0 {
		n.Dims = map[string]int64{u.Headroom.Symbol: u.Headroom.Size}
		if b.Share > 0 { // a share means another peak there
			n.Set = [][2]string{{"budget", report.WholeKiB(u.Headroom.Total)}}
		}
		return n
	}
	if e.Stopped && a.Limits != nil && a.Limits.Limit < cli.DefaultLimit { // more time may find a plan
		n.Drop = []string{cli.LimitName, "effort"}
		return n
	}
	n.Drop = []string{"gpu", "reserve", cli.LimitName, "effort"}
	if e.Searched() && e.LowestArena > 0 && !e.Stopped && !b.Runtime && !b.Clusters && len(b.StashLimits) == 0 {
		switch {
		case b.Total > 0:
			n.Set = [][2]string{{"budget", report.WholeKiB(b.Total - e.Budget + e.LowestArena)}}
			return n
		case b.Share > 0 && e.Budget > 0:
			if share := math.Ceil(100 * b.Share * float64(e.LowestArena) / float64(e.Budget)); share < 100 {
				n.Set = [][2]string{{"budget", fmt.Sprintf("%g%%", share)}}
				return n
			}
		}
	}
	n.Drop = append(n.Drop, "budget", "budget-for", "budget-in", "select", "solver", "require-optimal", "chunk")
	return n
}
