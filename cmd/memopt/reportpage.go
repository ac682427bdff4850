package main

import (
	"cmp"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/answers/explain"
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

func (a *app) reportCommand() *cobra.Command {
	var sel selectionFlags
	var page pageFlags
	cmd := &cobra.Command{
		Use:   "report MODEL -o OUT.html",
		Short: "Make one offline page of a plan: memory over time, the arena, the peak, the costs",
		Long: `report writes one HTML file about a plan that need not have run: the bytes that
are live over the nodes of the step or over its estimated time, by what they
are, beside the baseline's; which bytes of the arena hold what from when to
when; what the peak is made of; what lower peaks cost; clusters and stashed
activations with why each is kept and its cheapest fix; and the graph around
every node.

The page asks no network for anything and opens by a double click. It follows
the light or dark colours of the system, prints, and can be used by keyboard
and screen reader.

The flags that select what is recomputed say which plan is shown; without them
it is the graph as it is. --run adds what was measured.`,
		Example: `  memopt report example:transformer --level 1 -o report.html
        the plan of level 1 beside the baseline
  memopt report model.onnx --dim batch=8,seq=1024 --budget 16GiB -o report.html
        the cheapest plan that fits, with the budget marked
  memopt report model.onnx --level 1 -o report.html --run verify.json --run job/metrics.jsonl
        with what verify measured (-O json) and the losses of a training job`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error { return a.reportPage(args[0], &sel, &page) },
	}
	sel.registerJob(cmd.Flags())
	cmd.Flags().StringVarP(&page.out, "out", "o", "", "where to write the page; - is standard output")
	cmd.Flags().StringArrayVar(&page.runs, "run", nil, "what was measured: a file that verify, run or train "+
		"printed with -O json, a job's metrics.jsonl, or a trace of run --profile (repeatable)")
	numberVar(cmd.Flags(), &page.top, "top", "", 5, notNegative,
		"of how many of the largest values at the peak to try fixes; 0 is all")
	numberVar(cmd.Flags(), &page.pareto, "pareto", "", 9, bounds{least: 0, most: 1000},
		"to how many budgets below the baseline's peak to plan, each by the plan that is found first, to show what "+
			"lower peaks cost; 0: none")
	return cmd
}

// reportPage writes the page of a plan.
func (a *app) reportPage(name string, sel *selectionFlags, flags *pageFlags) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	if flags.out == "" {
		return usage("report: -o OUT.html is missing: name the file for the page")
	}
	runs, err := a.readRuns(flags.runs)
	if err != nil {
		return err
	}
	p, c, err := a.makePlan(name, sel, planning{shown: true})
	if err != nil {
		return err
	}
	defer p.Of.Close()
	infeasible := sel.held(p, c.configPath)
	if a.ctx.Err() == nil {
		a.keeper.release() // the rest takes little time
	}
	a.status.say("explaining the plan, and what others cost")
	o, err := a.pageOptions(p, flags)
	if err != nil {
		return classify(wrap(name, err))
	}
	o.Runs, o.Step = runs, c.step
	if o.Reserved, err = sel.reserved(a, p); err != nil {
		return err
	}
	write := func(w io.Writer) error { return webpage.Write(a.ctx, w, p, *o) }
	if err := a.streamArtefact("--out", flags.out, write); err != nil || infeasible != nil {
		return cmp.Or(err, infeasible)
	}
	if flags.out != streamName {
		if err := report.StepLine(a.out, format, c.step); err != nil {
			return err
		}
		if err := a.next(format, afterPage(name, p).of(c.step)); err != nil {
			return err
		}
	}
	return sel.budgetFlags.finish(a, p)
}

// readRuns reads the files of --run.
func (a *app) readRuns(paths []string) ([]*webpage.Run, error) {
	var out []*webpage.Run
	for _, path := range paths {
		if err := a.reads("--run", path); err != nil {
			return nil, err
		}
		r, err := webpage.ReadRun(path)
		if err != nil {
			return nil, usage("--run %w", err)
		}
		out = append(out, r)
	}
	return out, nil
}

// pageOptions explains a plan and finds the costs of others.
func (a *app) pageOptions(p *memopt.Plan, flags *pageFlags) (*webpage.Options, error) {
	o := &webpage.Options{Version: memopt.Version()}
	var err error
	if o.Explained, err = explain.Explain(a.search, p, explain.Options{Top: flags.top}); err != nil {
		return nil, err
	}
	if flags.pareto == 0 || a.search.Err() != nil {
		return o, nil
	}
	if o.Marks, err = a.usualPlans(p); err != nil {
		return nil, err
	}
	o.Curve, err = webpage.Curve(a.search, p, flags.pareto)
	return o, err
}

// usualPlans are what a plan is shown beside: to a budget, checkpoints of layers and level 1, which the
// plan has or which take no search; else what memopt plan offers.
func (a *app) usualPlans(p *memopt.Plan) ([]planner.Alternative, error) {
	if p.Options.Budget() == nil {
		return p.TradeOffs(a.search)
	}
	level1, err := p.Layerwise()
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(p.Alternatives), planner.Alternative{Name: "--level 1",
		Live: level1.Planned.Peak.Bytes, Overhead: level1.Overhead}), nil
}

// afterPage writes the file of the plan on a page, or looks for a plan.
func afterPage(name string, p *memopt.Plan) *nextCommand {
	if p.Options.Enabled() {
		return applied(name)
	}
	return &nextCommand{verb: "plan", args: []string{name}}
}
