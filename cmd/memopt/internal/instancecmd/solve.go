// Package instancecmd has the verbs for instances that come from other programs: solve, pack.
package instancecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/internal/inputfile"
	"memopt/internal/timelimit"
	"memopt/planner/remat"
	"memopt/view/report"
)

// solveFlags are the flags of solve.
type solveFlags struct {
	out, budget, solver string
	optimal             bool
	patience            time.Duration
	moves               cli.MoveFlags
	cli.LimitFlags
}

// SolveInstance is an instance as help shows it.
const SolveInstance = `  {"name": "net", "budget": 20, "nodes": [
    {"id": 0, "cost": 2, "size": 10, "inputs": []},
    {"id": 1, "cost": 4, "size": 10, "inputs": [0]}]}`

func Solve(a *cli.App) *cobra.Command {
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

` + SolveInstance + `

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
				return cli.Usage("%s wants one instance (a path or -), got %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return solveFile(a, args[0], &sf) },
	}
	f := cmd.Flags()
	f.StringVarP(&sf.out, "out", "o", "", "where to write the schedule; - is standard output")
	f.StringVar(&sf.budget, "budget", "",
		"bytes, such as 16GiB, or 80% of the peak without recomputation; default: the instance's own")
	f.StringVar(&sf.solver, "solver", "auto", "auto, greedy, lns, exact (up to 128 nodes) or chain")
	sf.moves.Register(f, "none")
	sf.RegisterLimit(f)
	f.DurationVar(&sf.patience, "patience", 0, "where --time-limit is over and no schedule was found, search for the "+
		"first one for so much longer")
	f.BoolVar(&sf.optimal, "require-optimal", false, "exit with 8 unless the schedule is proved "+
		"to be optimal")
	return cmd
}

func solveFile(a *cli.App, path string, sf *solveFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if sf.out == "" {
		return cli.Usage("solve: -o OUT is missing: name the file for the schedule")
	}
	in, err := readInstance(a, path)
	if err != nil {
		return err
	}
	opts := remat.Options{Solver: sf.solver, Seed: a.Global.Seed, RequireOptimal: sf.optimal}
	if opts.Budget, err = sf.bytes(in); err != nil {
		return err
	}
	ctx := a.Search
	if opts.First = sf.Limit == 0; opts.First {
		ctx = a.Ctx
		opts.Nodes = firstWork
		if sf.solver == "greedy" {
			opts.Nodes /= 4 // its steps take longer
		}
	}
	found := func() {}
	if sf.patience > 0 && !opts.First {
		var release context.CancelFunc
		ctx, found, release = patient(a, sf.Limit+sf.patience)
		defer release()
	}
	a.Status.Say("searching for a schedule")
	opts.Progress = func(p remat.Progress) {
		found()
		a.Keeper.Keep()
		a.Status.Say("searching, best %s", report.Overhead(p.Overhead))
	}
	moves, err := sf.moves.Options()
	if err != nil {
		return err
	}
	r, err := in.solve(ctx, opts, moves)
	if r == nil {
		if a.Ctx.Err() != nil {
			return &cli.ExitError{Code: cli.ExitInterrupted,
				Err: fmt.Errorf("%s: interrupted before a schedule was found", path)}
		}
		var none *remat.InfeasibleError
		if format == report.JSONFormat && errors.As(err, &none) {
			if e := report.Infeasible(a.Out, in.name(), none); e != nil {
				return e
			}
		}
		if ctx.Err() != nil && errors.As(err, &none) && !none.Proved() {
			err = fmt.Errorf("%w; the time limit ended the search: allow more time or bytes", err)
		}
		return classifySolve(path, err)
	}
	var b bytes.Buffer
	if e := r.file(&b); e != nil {
		return &cli.ExitError{Code: cli.ExitInternal, Err: e}
	}
	if e := a.WriteArtefact("--out", sf.out, b.Bytes()); e != nil {
		return e
	}
	w := a.Out
	if sf.out == "-" {
		w = a.Stdio.Err
	}
	if e := r.say(w, format); e != nil {
		return e
	}
	if e := a.Next(format, sf.afterSolve(path, r.optimal)); e != nil {
		return e
	}
	if a.Ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: errors.New("interrupted: this is the best schedule found so far")}
	}
	return classifySolve(path, err)
}

// patient is the context of a search that goes on beyond the time limit until its first schedule is found, for at most
// so long in all; found tells it of each schedule.
func patient(a *cli.App, most time.Duration) (ctx context.Context, found func(), release context.CancelFunc) {
	ctx, end := timelimit.With(a.Ctx, a.Began.Add(most))
	var known atomic.Bool
	stop := context.AfterFunc(a.Search, func() {
		if known.Load() {
			end()
		}
	})
	found = func() {
		known.Store(true)
		if a.Search.Err() != nil {
			end()
		}
	}
	return ctx, found, func() { stop(); end() }
}

// classifySolve gives an error of the solver its code.
func classifySolve(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, remat.ErrInfeasible):
		return &cli.ExitError{Code: cli.ExitInfeasible, Err: cli.Wrap(path, err)}
	case errors.Is(err, remat.ErrNotOptimal):
		return &cli.ExitError{Code: cli.ExitEarly, Err: cli.Wrap(path, err)}
	}
	return cli.Usage("%w", cli.Wrap(path, err))
}

// bytes reads the budget.
func (sf *solveFlags) bytes(in *instance) (int64, error) {
	if sf.budget == "" {
		if in.budget() == 0 {
			return 0, cli.Usage("the instance has no budget: add one, as \"budget\": 1000, or --budget 80%%")
		}
		return 0, nil
	}
	if share, ok, err := report.ParseShare(sf.budget); ok {
		if err != nil {
			return 0, cli.Usage("--budget: %w", err)
		}
		return max(int64(share*float64(in.onePassPeak())), 1), nil
	}
	n, err := report.ParseBytes(sf.budget)
	if err != nil || n <= 0 {
		return 0, cli.Usage("--budget %q: wanted a positive size such as 16GiB, or a share such as 80%%", sf.budget)
	}
	return n, nil
}

// firstWork is the counted work (remat.Options.Nodes) of a search for the first valid schedule before it gives
// up.
const firstWork = 3_000_000

func readInstance(a *cli.App, path string) (*instance, error) {
	var r io.Reader = a.In
	if path != "-" {
		f, _, err := inputfile.Open(path, load.MaxInstance)
		if err != nil {
			return nil, cli.Usage("%w", err)
		}
		defer f.Close()
		r = f
	}
	first, second, err := remat.ReadAny(inputfile.Limited(r, load.MaxInstance))
	if err != nil {
		return nil, cli.FileError("%s: %w", path, err)
	}
	return &instance{first, second}, nil
}

// afterSolve searches for longer, unless the schedule is proved to be optimal.
func (sf *solveFlags) afterSolve(path string, optimal bool) *cli.NextCommand {
	if optimal || sf.out == cli.StreamName {
		return nil
	}
	return &cli.NextCommand{Verb: "solve", Args: []string{path},
		Set: [][2]string{{cli.LimitName, (max(2*sf.Limit, cli.DefaultLimit)).String()}}}
}
