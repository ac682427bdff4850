package plancmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/cpu"
	"memopt/graph/onnx"
	"memopt/recompute"
	"memopt/view/report"
)

// movesFile tells of a plan file of the selection whose values move, and holds it to the flags of moves; nil: it is
// another, or there is none.
func movesFile(a *cli.App, cmd *cobra.Command, flags *cli.MoveFlags, sel *option.SelectionFlags) (*recompute.Record,
	error) {
	r := sel.MovedPlan()
	if r == nil {
		return nil, nil
	}
	return r, sel.AgreeMoves(a, flags, cmd.Flags(), r)
}

// Moves is a plan with moves as flags ask for it.
type Moves struct {
	moves     memopt.MoveOptions
	record    *recompute.Record // that it is read from; nil: it is planned
	out, save string            // the files for its graph and for the plan; "" writes no file
	write     onnx.Options
}

// MovesAsked reads the flags of moves; nil where they ask for no moves.
func MovesAsked(a *cli.App, cmd *cobra.Command, flags *cli.MoveFlags, sel *option.SelectionFlags) (*Moves, error) {
	record, err := movesFile(a, cmd, flags, sel)
	if err != nil || record != nil {
		return &Moves{record: record}, err
	}
	moves, asked, err := sel.Moves(a, flags, "")
	if !asked || err != nil {
		return nil, err
	}
	return &Moves{moves: moves}, nil
}

// MovesOf is the plan of a plan file whose values move.
func MovesOf(r *recompute.Record) *Moves { return &Moves{record: r} }

// alone refuses flags that plans with moves do not go together with.
func (o *Moves) alone(cmd *cobra.Command, sel *option.SelectionFlags, others ...string) error {
	for _, other := range others {
		if !cmd.Flags().Changed(other) {
			continue
		}
		if o.record != nil {
			return cli.Usage("--%s: values move to the host in %s, which cannot be combined with it", other, sel.Plan)
		}
		return cli.Usage("--link and --%s cannot be combined: a plan with moves is saved as its graph, by memopt "+
			"apply, or with --save-plan", other)
	}
	return nil
}

// planMoves plans values that move to the host beside recomputation, or takes such a plan from a file; reports the
// plan, and writes it and its graph where files are named.
func planMoves(a *cli.App, name string, sel *option.SelectionFlags, o *Moves) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	p, _, err := MakeMoves(a, name, sel, option.Planning{}, o)
	if err != nil {
		return err
	}
	defer p.Plan.Of.Close()
	if o.save != "" {
		data, err := p.File()
		if err != nil {
			return cli.Classify(err)
		}
		if err := a.WriteArtefact("--save-plan", o.save, data); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := a.WriteModel("--out", o.out, p.Model, o.write); err != nil {
			return err
		}
	}
	w := a.Out
	if o.out == cli.StreamName {
		w = a.Stdio.Err
	}
	if err := report.Moving(w, format, movingReport(p)); err != nil {
		return err
	}
	return sel.BudgetFlags.FinishMoves(a, p)
}

// MakeMoves reads a model and plans it with moves, or takes the plan from a file. The caller closes the plan's model.
func MakeMoves(a *cli.App, name string, sel *option.SelectionFlags, how option.Planning, o *Moves) (*memopt.Moving,
	*option.Chosen, error) {
	if err := sel.Step.Check(); err != nil {
		return nil, nil, err
	}
	how.Moves, how.Record, how.States = true, o.record, sel.States
	if o.record != nil {
		how.Dims = o.record.Dims
	}
	file, err := load.Model(a, name, how.Reading)
	if err != nil {
		return nil, nil, err
	}
	m, step, err := gradcmd.MakeStep(a, file, &sel.Step, sel.Guarded())
	if err != nil {
		return nil, nil, err
	}
	c, err := sel.Resolve(a, m, how)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	c.File, c.Step = file, step
	p, err := o.make(a, name, m, sel, c)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return p, c, nil
}

// make plans a model that was read.
func (o *Moves) make(a *cli.App, name string, m *memopt.Model, sel *option.SelectionFlags, c *option.Chosen) (
	*memopt.Moving, error) {
	if sel.ForCPU() {
		c.Options.Device, c.Options.Threads = cpu.Device{}, a.Global.Threads
	}
	a.Status.Say("planning")
	if c.Moved != nil {
		p, err := FollowMoves(a, name, m, sel, c)
		if err != nil {
			return nil, err
		}
		if within := c.Options.Within; within != nil {
			if f := p.FitsIn(within); !f.Fits() {
				return nil, &cli.ExitError{Code: cli.ExitInfeasible, Err: fmt.Errorf("%s: does not fit: %s; plan anew "+
					"with %s, or allow more", c.ConfigPath, report.FitSentence(f), sel.BudgetFlags.Flag())}
			}
		}
		return p, nil
	}
	b, err := option.CheckMoves(c.Strategy)
	if err != nil {
		return nil, err
	}
	o.moves.Seed = a.Global.Seed
	p, err := m.PlanMoves(a.SearchFor(c.Strategy), b, c.Options, o.moves)
	if err != nil {
		return nil, a.ClassifyPlan(name, err)
	}
	return p, nil
}

// FollowMoves takes a plan whose values move from the file that was chosen.
func FollowMoves(a *cli.App, name string, m *memopt.Model, sel *option.SelectionFlags, c *option.Chosen) (
	*memopt.Moving, error) {
	p, err := m.MovingOf(a.Search, c.Moved, c.Options)
	if err != nil {
		var known *memopt.Error
		if errors.As(err, &known) {
			return nil, a.ClassifyPlan(name, err)
		}
		if sel.Plan == "" { // it was read from elsewhere
			return nil, cli.Usage("%w", err)
		}
		return nil, cli.Usage("%s: %w", sel.Plan, err)
	}
	for _, w := range p.Plan.Warnings {
		a.Warn("%s", w)
	}
	return p, nil
}

func movingReport(p *memopt.Moving) report.MovingPlan {
	o := p.Options
	return report.MovingPlan{Budget: p.Budget, Persistent: p.Persistent, Peak: p.Peak, Arena: p.Arena,
		Total: p.Arena + p.Persistent, HostPeak: p.HostPeak, HostBudget: o.HostBudget, Moved: p.Moved,
		Moves: len(p.Moves), Recomputed: p.Plan.Recompute.Nodes, Overhead: p.Overhead, Recomputation: p.Recomputed,
		OverheadBound: p.Bound, Seconds: p.Seconds, StepAsIs: p.StepAsIs, TotalAsIs: p.ArenaAsIs + p.Persistent,
		BytesPerSecond: o.Link.BytesPerSecond, LatencyMicros: float64(o.Link.Latency.Nanoseconds()) / 1e3}
}
