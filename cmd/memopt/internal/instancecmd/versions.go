package instancecmd

import (
	"context"
	"errors"
	"io"

	"memopt/planner/offload"
	"memopt/planner/remat"
	"memopt/view/report"
)

// instance is an instance of version 1 or of version 2; the field of the other version is nil.
type instance struct {
	first  *remat.Instance
	second *remat.Problem
}

// solved is an answer, with its ways out.
type solved struct {
	optimal bool
	file    func(io.Writer) error
	say     func(io.Writer, report.Format) error
}

// solve returns an answer where there is one, with an error or not.
func (in *instance) solve(ctx context.Context, opts remat.Options, moves offload.Options) (*solved, error) {
	if moves.Link.BytesPerSecond > 0 && moves.HostBudget > 0 {
		return in.solveWithMoves(ctx, opts, moves)
	}
	if in.first != nil {
		r, err := remat.Solve(ctx, in.first, opts)
		if r == nil {
			return nil, err
		}
		return &solved{r.Optimal, func(w io.Writer) error { return report.SolveJSON(w, in.first, r) },
			func(w io.Writer, f report.Format) error { return report.Solve(w, f, in.first, r) }}, err
	}
	s, err := in.second.Solve(ctx, opts)
	if s == nil {
		return nil, err
	}
	return &solved{s.Optimal, func(w io.Writer) error { return report.SolutionJSON(w, in.second, s) },
		func(w io.Writer, f report.Format) error { return report.Solution(w, f, in.second, s) }}, err
}

// solveWithMoves is solve where values may move to the host.
func (in *instance) solveWithMoves(ctx context.Context, opts remat.Options, moves offload.Options) (*solved, error) {
	if in.second == nil {
		return nil, errors.New("values move only in an instance of version 2 whose cost_unit is us or ms: " +
			"this one is of version 1")
	}
	p := *in.second
	if opts.Budget > 0 {
		p.Budget = opts.Budget
	}
	moves.Seed, moves.First, moves.Work = opts.Seed, opts.First, opts.Nodes
	moves.Progress = func(overhead float64) { opts.Progress(remat.Progress{Overhead: overhead}) }
	s, err := offload.Solve(ctx, &p, moves)
	if s == nil {
		return nil, err
	}
	if opts.RequireOptimal && !s.Optimal {
		err = remat.ErrNotOptimal
	}
	return &solved{s.Optimal, func(w io.Writer) error { return report.MovesJSON(w, &p, s, moves) },
		func(w io.Writer, f report.Format) error { return report.Moves(w, f, &p, s, moves) }}, err
}

// name is the instance's own.
func (in *instance) name() string {
	if in.first != nil {
		return in.first.Name
	}
	return in.second.Name
}

// budget is the bytes that the instance names, or 0.
func (in *instance) budget() int64 {
	if in.first != nil {
		return in.first.Budget
	}
	return in.second.Budget
}

// onePassPeak is the peak of computing every node once in the given order, or 0.
func (in *instance) onePassPeak() int64 {
	if in.first != nil {
		return in.first.OnePassPeak()
	}
	return in.second.OnePassPeak()
}
