package plancmd

import (
	"io"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/planner"
	"memopt/view/figure"
	"memopt/view/timeline"
)

// PlotFormat is the format that --plot asks for; "" without it.
func PlotFormat(path string) (figure.Format, error) {
	if path == "" {
		return "", nil
	}
	f, err := figure.FormatOf(path)
	if err != nil {
		return "", cli.Usage("--plot %w", err)
	}
	return f, nil
}

// plotStep writes the figure of a plan's step, beside the baseline if the plan changes the graph.
func plotStep(a *cli.App, p *memopt.Plan, name, path string, format figure.Format) error {
	if format == "" {
		return nil
	}
	planned, err := timeline.Of(p.Plan)
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	var base *timeline.Timeline
	if p.Rewrites() {
		if base, err = timeline.Baseline(p.Plan); err != nil {
			return cli.Classify(cli.Wrap(name, err))
		}
	}
	return a.StreamArtefact("--plot", path, func(w io.Writer) error {
		return figure.Step(w, format, name, planned, base, marks(p.Plan))
	})
}

// marks are the lines of a step's figure: a budget of memopt's own arena, and, where no region is computed in
// parts, the lower bound for recomputation in any order.
func marks(p *planner.Plan) (list []figure.Mark) {
	if p.Fit != nil && !p.Fit.Budget.Runtime {
		list = append(list, figure.Mark{Name: "budget", Bytes: p.Persistent + p.Fit.Limit})
	}
	if p.Whole == nil {
		list = append(list, figure.Mark{Name: "lower bound", Bytes: p.Persistent + p.Base.LowerBound})
	}
	return list
}

// plotCurve writes the figure of a curve of budget and cost.
func plotCurve(a *cli.App, c *planner.Curve, name, path string, format figure.Format) error {
	if format == "" {
		return nil
	}
	return a.StreamArtefact("--plot", path, func(w io.Writer) error { return figure.Curve(w, format, name, c) })
}
