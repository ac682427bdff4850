package plancmd

import (
	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/cpu"
	"memopt/graph/onnx"
	"memopt/view/report"
)

// planMoves plans values that move to the host beside recomputation, reports the plan, and writes the graph where
// out names a file.
func planMoves(a *cli.App, name string, sel *option.SelectionFlags, moves memopt.MoveOptions, out string,
	write onnx.Options) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if err := sel.Step.Check(); err != nil {
		return err
	}
	how := option.Planning{Reading: load.Reading{States: sel.States}}
	m, err := load.Model(a, name, how.Reading)
	if err != nil {
		return err
	}
	m, _, err = gradcmd.MakeStep(a, m, &sel.Step, sel.Guarded())
	if err != nil {
		return err
	}
	defer m.Close()
	c, err := sel.Resolve(a, m, how)
	if err != nil {
		return err
	}
	b, err := option.CheckMoves(c.Strategy)
	if err != nil {
		return err
	}
	if sel.ForCPU() {
		c.Options.Device, c.Options.Threads = cpu.Device{}, a.Global.Threads
	}
	a.Status.Say("planning")
	moves.Seed = a.Global.Seed
	p, err := m.PlanMoves(a.SearchFor(c.Strategy), b, c.Options, moves)
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	if out != "" {
		if err := a.WriteModel("--out", out, p.Model, write); err != nil {
			return err
		}
	}
	w := a.Out
	if out == cli.StreamName {
		w = a.Stdio.Err
	}
	return report.Moving(w, format, movingReport(p, moves))
}

func movingReport(p *memopt.Moving, o memopt.MoveOptions) report.MovingPlan {
	return report.MovingPlan{Budget: p.Budget, Persistent: p.Persistent, Peak: p.Peak, Arena: p.Arena,
		Total: p.Arena + p.Persistent, HostPeak: p.HostPeak, HostBudget: o.HostBudget, Moved: p.Moved,
		Moves: len(p.Moves), Recomputed: p.Plan.Recompute.Nodes, Overhead: p.Overhead, Recomputation: p.Recomputed,
		OverheadBound: p.Bound, Seconds: p.Seconds, StepAsIs: p.StepAsIs, TotalAsIs: p.ArenaAsIs + p.Persistent,
		BytesPerSecond: o.Link.BytesPerSecond, LatencyMicros: float64(o.Link.Latency.Nanoseconds()) / 1e3}
}
