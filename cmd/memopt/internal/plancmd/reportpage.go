package plancmd

import (
	"cmp"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/answers/explain"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/planner"
	"memopt/view/report"
	"memopt/view/webpage"
)

// pageFlags are the flags of report besides those of selection.
type pageFlags struct {
	out    string
	runs   []string
	top    int
	pareto int
}

func Report(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var page pageFlags
	var move cli.MoveFlags
	cmd := &cobra.Command{
		Use:   "report MODEL -o OUT.html",
		Short: "Make one offline page of a plan: memory over time, the arena, the peak, the costs",
		Long: `report writes one HTML file about a plan that need not have run: the bytes that
are live over the nodes of the step or over its estimated time, by kind, beside
the baseline's; the values in the arena, with their bytes and their lifetimes;
the parts of the peak; the cost of lower peaks; clusters and stashed
activations with the reason why each is kept and its cheapest fix; and the
graph around every node.

The page asks no network for anything and opens by a double click. It follows
the light or dark colours of the system, prints, and can be used by keyboard
and screen reader.

The flags that select recomputed values say which plan is shown; without them
it is the graph as it is. With --link and --host-budget, or a plan file whose
values move, the timeline has tracks of the copies to the host and back, and
the bytes there. --run adds measurements.`,
		Example: `  memopt report example:transformer --level 1 -o report.html
        the plan of level 1 beside the baseline
  memopt report model.onnx --dim batch=8,seq=1024 --budget 16GiB -o report.html
        the cheapest plan that fits, with the budget marked
  memopt report model.onnx --budget 16GiB --link 25GB/s --host-budget 64GiB -o report.html
        with values that move to the host, and their copies
  memopt report model.onnx --level 1 -o report.html --run verify.json --run job/metrics.jsonl
        with the measurements of verify (-O json) and the losses of a training job`,
		Args: cli.ExactModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := MovesAsked(a, cmd, &move, &sel)
			if err != nil {
				return err
			}
			return reportPage(a, args[0], &sel, o, &page)
		},
	}
	sel.RegisterJob(cmd.Flags())
	move.Register(cmd.Flags(), option.LinkOfDevice)
	cmd.Flags().StringVarP(&page.out, "out", "o", "", "where to write the page; - is standard output")
	cmd.Flags().StringArrayVar(&page.runs, "run", nil, "measurements: a file that verify, run or train printed with "+
		"-O json, a job's metrics.jsonl, or a trace of run --profile (repeatable)")
	cli.NumberVar(cmd.Flags(), &page.top, "top", "", 5, cli.NotNegative,
		"number of the largest values at the peak to try fixes for; 0 is all")
	cli.NumberVar(cmd.Flags(), &page.pareto, "pareto", "", 9, cli.Bounds{Least: 0, Most: 1000},
		"to how many budgets below the baseline's peak to plan, each by the plan that is found first, to show the "+
			"cost of lower peaks; 0: no budget")
	return cmd
}

// reportPage writes the page of a plan, with moves where moves is not nil.
func reportPage(a *cli.App, name string, sel *option.SelectionFlags, moves *Moves, flags *pageFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if flags.out == "" {
		return cli.Usage("report: -o OUT.html is missing: name the file for the page")
	}
	runs, err := readRuns(a, flags.runs)
	if err != nil {
		return err
	}
	var p *memopt.Plan // of a plan with moves, the recomputations alone
	var moving *memopt.Moving
	var c *option.Chosen
	if moves != nil {
		if moving, c, err = MakeMoves(a, name, sel, option.Planning{}, moves); err == nil {
			p = moving.Plan
		}
	} else {
		p, c, err = MakePlan(a, name, sel, option.Planning{Shown: true})
	}
	if err != nil {
		return err
	}
	defer p.Of.Close()
	var infeasible error
	if moving == nil { // else the recomputations alone may take more than the budget
		infeasible = sel.Held(p, c.ConfigPath)
	}
	if a.Ctx.Err() == nil {
		a.Keeper.Release() // the rest takes little time
	}
	a.Status.Say("explaining the plan, and the cost of others")
	o, err := pageOptions(a, p, moving, flags)
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	o.Runs, o.Step = runs, c.Step
	reserves := p
	if moving != nil {
		reserves = moving.Whole()
	}
	if o.Reserved, err = sel.Reserved(a, reserves); err != nil {
		return err
	}
	write := func(w io.Writer) error { return webpage.Write(a.Ctx, w, p, *o) }
	if err := a.StreamArtefact("--out", flags.out, write); err != nil || infeasible != nil {
		return cmp.Or(err, infeasible)
	}
	if flags.out != cli.StreamName {
		if err := report.StepLine(a.Out, format, c.Step); err != nil {
			return err
		}
		if err := a.Next(format, afterPage(name, o).About(c.Step)); err != nil {
			return err
		}
	}
	if moving != nil {
		return sel.BudgetFlags.FinishMoves(a, moving)
	}
	return sel.BudgetFlags.Finish(a, p)
}

// readRuns reads the files of --run.
func readRuns(a *cli.App, paths []string) ([]*webpage.Run, error) {
	var out []*webpage.Run
	for _, path := range paths {
		if err := a.Reads("--run", path); err != nil {
			return nil, err
		}
		r, err := webpage.ReadRun(path)
		if err != nil {
			return nil, cli.Usage("--run %w", err)
		}
		out = append(out, r)
	}
	return out, nil
}

// pageOptions explains a plan, with moves where moving is not nil, and finds the costs of others.
func pageOptions(a *cli.App, p *memopt.Plan, moving *memopt.Moving, flags *pageFlags) (*webpage.Options, error) {
	o := &webpage.Options{Version: memopt.Version(), Moving: moving}
	var err error
	if moving != nil {
		o.Moves = movingReport(moving)
		o.Explained, err = explain.OfMoving(a.Search, moving, explain.Options{Top: flags.top})
	} else {
		o.Explained, err = explain.Explain(a.Search, p, explain.Options{Top: flags.top})
	}
	if err != nil {
		return nil, err
	}
	if flags.pareto == 0 || a.Search.Err() != nil {
		return o, nil
	}
	if o.Marks, err = usualPlans(a, p); err != nil {
		return nil, err
	}
	o.Curve, err = webpage.Curve(a.Search, p, flags.pareto)
	return o, err
}

// usualPlans are the plans beside this one: checkpoints of layers and level 1 beside a plan to a budget, which
// the plan has or which take no search; else the plans that memopt plan offers.
func usualPlans(a *cli.App, p *memopt.Plan) ([]planner.Alternative, error) {
	if p.Options.Budget() == nil {
		return p.TradeOffs(a.Search)
	}
	level1, err := p.Layerwise()
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(p.Alternatives), planner.Alternative{Kind: planner.LayerLevel1,
		Live: level1.Planned.Peak.Bytes, Overhead: level1.Overhead}), nil
}

// afterPage writes the file of the plan on a page, or looks for a plan.
func afterPage(name string, o *webpage.Options) *cli.NextCommand {
	if o.Moving != nil || o.Explained.Plan.Options.Enabled() {
		return cli.Applied(name)
	}
	return &cli.NextCommand{Verb: "plan", Args: []string{name}}
}
