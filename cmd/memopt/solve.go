package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"memopt/internal/inputfile"
	"memopt/planner/remat"
	"memopt/view/report"
)

// solveFlags are the flags of solve.
type solveFlags struct {
	out, budget, solver string
	optimal             bool
	limitFlags
}

// solveInstance is an instance as help shows it.
const solveInstance = `  {"name": "net", "budget": 20, "nodes": [
    {"id": 0, "cost": 2, "size": 10, "inputs": []},
    {"id": 1, "cost": 4, "size": 10, "inputs": [0]}]}`

func (a *app) solveCommand() *cobra.Command {
	var sf solveFlags
	cmd := &cobra.Command{
		Use:   "solve I.json -o S.json",
		Short: "Schedule an abstract recomputation instance within a budget",
		Long: `solve reads a graph of computations with costs and sizes, from any framework,
and looks for the cheapest schedule whose peak is within the budget: each node
runs at least once, and may run again. A valid schedule is found early and
improved until the time limit or until it is proved to be optimal.

The instance is JSON: nodes in an order in which they can be computed, each
with its time, the bytes of its output, and what it reads.

` + solveInstance + `

Optional are "keep": true (live to the end), "workspace": bytes, and "alias":
the input whose memory the output shares. The schedule is
{"steps": [{"compute": 0}, {"free": 0}, ...], "cost", "peak", ...}.
docs/instances.md has all rules, and those of version 2, a format with named
values for whole training steps: nodes with several outputs, values that live
throughout, measured costs, and first computes in any order.

It exits with 3 if no schedule fits: at once where what one node needs is more
than the budget, else with the lowest peak found; and prints the lower bound.`,
		Example: `  memopt solve instance.json -o schedule.json
        within the instance's own budget
  memopt solve instance.json -o schedule.json --budget 80% --time-limit 30s
        within 80 % of the peak of computing every node once`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s wants one instance (a path or -), got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.solve(args[0], &sf) },
	}
	f := cmd.Flags()
	f.StringVarP(&sf.out, "out", "o", "", "where to write the schedule; - is standard output")
	f.StringVar(&sf.budget, "budget", "",
		"bytes, such as 16GiB, or 80% of the peak without recomputation; none: the instance's own")
	f.StringVar(&sf.solver, "solver", "auto", "auto, greedy, lns, exact (up to 128 nodes) or chain")
	sf.registerLimit(f)
	f.BoolVar(&sf.optimal, "require-optimal", false, "exit with 8 unless the schedule is proved "+
		"to be optimal")
	return cmd
}

func (a *app) solve(path string, sf *solveFlags) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	if sf.out == "" {
		return usage("solve: -o OUT is missing: name the file for the schedule")
	}
	in, err := a.readInstance(path)
	if err != nil {
		return err
	}
	opts := remat.Options{Solver: sf.solver, Seed: a.global.seed, RequireOptimal: sf.optimal}
	if opts.Budget, err = sf.bytes(in); err != nil {
		return err
	}
	ctx := a.search
	if opts.First = sf.limit == 0; opts.First {
		ctx = a.ctx
		opts.Nodes = firstWork
		if sf.solver == "greedy" {
			opts.Nodes /= 4 // its steps take longer
		}
	}
	a.status.say("searching for a schedule")
	opts.Progress = func(p remat.Progress) {
		a.keeper.keep()
		a.status.say("searching, best %s", report.Overhead(p.Overhead))
	}
	r, err := in.solve(ctx, opts)
	if r == nil {
		if a.ctx.Err() != nil {
			return &exitError{exitInterrupted, fmt.Errorf("%s: interrupted before a schedule was found", path)}
		}
		var none *remat.InfeasibleError
		if format == report.JSONFormat && errors.As(err, &none) {
			if e := report.Infeasible(a.out, in.name(), none); e != nil {
				return e
			}
		}
		return classifySolve(path, err)
	}
	var b bytes.Buffer
	if e := r.file(&b); e != nil {
		return &exitError{exitInternal, e}
	}
	if e := a.writeArtefact("--out", sf.out, b.Bytes()); e != nil {
		return e
	}
	w := a.out
	if sf.out == "-" {
		w = a.stdio.err
	}
	if e := r.say(w, format); e != nil {
		return e
	}
	if e := a.next(format, sf.afterSolve(path, r.optimal)); e != nil {
		return e
	}
	if a.ctx.Err() != nil {
		return &exitError{exitInterrupted,
			errors.New("interrupted: this is the best schedule found so far")}
	}
	return classifySolve(path, err)
}

// classifySolve gives an error of the solver its code.
func classifySolve(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, remat.ErrInfeasible):
		return &exitError{exitInfeasible, wrap(path, err)}
	case errors.Is(err, remat.ErrNotOptimal):
		return &exitError{exitEarly, wrap(path, err)}
	}
	return usage("%w", wrap(path, err))
}

// bytes reads the budget.
func (sf *solveFlags) bytes(in *instance) (int64, error) {
	if sf.budget == "" {
		if in.budget() == 0 {
			return 0, usage("the instance has no budget: add one, as \"budget\": 1000, or --budget 80%%")
		}
		return 0, nil
	}
	if share, ok, err := report.ParseShare(sf.budget); ok {
		if err != nil {
			return 0, usage("--budget: %w", err)
		}
		return max(int64(share*float64(in.onePassPeak())), 1), nil
	}
	n, err := report.ParseBytes(sf.budget)
	if err != nil || n <= 0 {
		return 0, usage("--budget %q: wanted a positive size such as 16GiB, or a share such as 80%%", sf.budget)
	}
	return n, nil
}

// firstWork is the counted work (remat.Options.Nodes) of a search for the first valid schedule before it gives
// up.
const firstWork = 3_000_000

func (a *app) readInstance(path string) (*instance, error) {
	var r io.Reader = a.in
	if path != "-" {
		f, _, err := inputfile.Open(path, maxInstance)
		if err != nil {
			return nil, usage("%w", err)
		}
		defer f.Close()
		r = f
	}
	first, second, err := remat.ReadAny(inputfile.Limited(r, maxInstance))
	if err != nil {
		return nil, fileError("%s: %w", path, err)
	}
	return &instance{first, second}, nil
}

// afterSolve searches for longer, unless the schedule is proved to be optimal.
func (sf *solveFlags) afterSolve(path string, optimal bool) *nextCommand {
	if optimal || sf.out == streamName {
		return nil
	}
	return &nextCommand{verb: "solve", args: []string{path},
		set: [][2]string{{limitName, (max(2*sf.limit, defaultLimit)).String()}}}
}
