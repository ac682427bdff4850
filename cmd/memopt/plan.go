package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/configs"
	"memopt/executor/cpu"
	"memopt/planner"
	"memopt/view/report"
)

func (a *app) planCommand() *cobra.Command {
	var sel selectionFlags
	var details, noChart, deeploy bool
	var pareto int
	var saveConfig, savePlan, planFormat, plot, moduleMap string
	cmd := &cobra.Command{
		Use:   "plan MODEL",
		Short: "Show what to recompute, what it saves and where the peak is",
		Long: `plan answers in three lines: whether the step fits, its peak before and after,
and what recomputation costs. Then come what else could be had at which price,
and the clusters of subgraphs that can be recomputed instead of stashed, as
ONNX Runtime's memory optimizer lists them, with what each saves in total and
by how much each alone lowers the peak; of a plan to a budget, what runs again.
Below are the peak, what it is made of, and the stashed activations with the
reason why each is kept; on a terminal, a chart of what is live over the step.

A plan to a budget recomputes, and computes regions of the graph in parts where
that is cheaper or fits only so (--chunk).

With --select modules it plans for a PyTorch program, of which the model is an
export: whole modules run again, as torch.utils.checkpoint does it, and the
peak is the one that PyTorch will have. -O torch prints the lines of Python
that do it; --save-plan writes a plan for memopt.torch.

Where nothing fits a budget, plan says how low it went and what the largest
batch is that fits, and exits with 3.

If some symbols are not bound, it prints formulas instead of bytes; -w adds
formulas, exact bytes and whole names in any case.`,
		Example: `  memopt plan example:transformer
        the clusters of a built-in training graph, nothing enabled
  memopt plan model.onnx --dim batch=8,seq=1024 --level 1
        recompute layer by layer; the peak before and after
  memopt plan model.onnx --level 1 --device h100
        with times estimated for another device
  memopt plan model.onnx --level 1 --save-config config.json
        a configuration for ORTMODULE_MEMORY_OPT_CONFIG
  memopt plan model.onnx --config config.json -O json
        what a configuration does, for scripts
  memopt plan model.onnx --budget 60% --plot step.svg
        a picture of what is live before and after
  memopt plan model.onnx --plan plan.json --budget 16GiB
        whether a plan that was saved still fits, and by how much: exit code 3 if not
  memopt plan model.onnx --select modules --budget 60% -O torch
        the modules to put under torch.utils.checkpoint, as Python
  memopt plan network.onnx --budget 400KiB --save-plan schedule.json -F deeploy --aliases aliases.json
        a schedule for Deeploy, planned and counted by the rules of its memory`,
		Args: exactModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if sel.what == modulesName {
				return a.planModules(cmd, args[0], &sel, moduleMap, savePlan)
			}
			format, err := report.ParseFormat(a.global.output)
			if err != nil {
				return usage("%w", err)
			}
			if moduleMap != "" {
				return usage("--module-map is for --select modules: add it, or leave the map out")
			}
			picture, err := plotFormat(plot)
			if err != nil {
				return err
			}
			switch planFormat {
			case "memopt":
			case "deeploy":
				if savePlan == "" {
					return usage("-F deeploy: --save-plan FILE is missing: name the file for the " +
						"schedule")
				}
				deeploy = true
			default:
				return usage("--format %q: wanted memopt or deeploy", planFormat)
			}
			if cmd.Flags().Changed("pareto") {
				if saveConfig != "" || deeploy {
					return usage("--pareto prints the cost of many plans: leave out --save-config and -F deeploy; " +
						"--save-plan DIR saves all of them")
				}
				return a.pareto(args[0], &sel, format, pareto, savePlan, func(c *planner.Curve) error {
					return a.plotCurve(c, args[0], plot, picture)
				})
			}
			if saveConfig != "" && sel.budgetFlags.asks() && sel.what != "clusters" && sel.plan == "" &&
				sel.config == "" {
				return usage("--save-config: a configuration cannot express what a plan to a " +
					"budget recomputes; add --select clusters, or save the plan with --save-plan")
			}
			p, c, err := a.makePlan(args[0], &sel, planning{shown: true, deeploy: deeploy, reading: reading{ranged: true}})
			if err != nil {
				return err
			}
			defer p.Of.Close()
			infeasible := sel.held(p, c.configPath)
			if infeasible == nil {
				if err := a.savePlanFiles(p, args[0], saveConfig, savePlan, deeploy); err != nil {
					return err
				}
				if err := a.plotStep(p, args[0], plot, picture); err != nil {
					return err
				}
			}
			view := report.PlanView{ConfigPath: c.configPath, Details: details, Stashes: a.listLimit()}
			if len(p.Unbound) > 0 {
				view.Bind = a.bindFlag(c.file, p.Unbound)
			}
			if !noChart {
				view.Chart = a.chart
			}
			if a.ctx.Err() == nil { // else the result so far is shown at once
				if err := a.compare(format, p, &view); err != nil {
					return classify(wrap(args[0], err))
				}
			}
			reserved, err := sel.reserved(a, p)
			if err != nil {
				return err
			}
			if err := a.printPlan(format, p, c.step, view, reserved); err != nil {
				return err
			}
			if !deeploy {
				next := a.afterPlan(args[0], p, c, &view, savePlan)
				if err := a.next(format, next.of(c.step)); err != nil {
					return err
				}
			}
			if infeasible != nil {
				return infeasible
			}
			return sel.budgetFlags.finish(a, p)
		},
	}
	sel.registerGraph(cmd.Flags())
	cmd.Flags().BoolVar(&details, "details", false, "also print the node-level table")
	cmd.Flags().BoolVar(&noChart, "no-chart",
		false, "leave out the chart of what is live that a terminal of 60 columns "+
			"or more shows")
	cmd.Flags().StringVar(&saveConfig, "save-config", "", "write the enabled clusters as an ONNX Runtime configuration")
	cmd.Flags().StringVar(&savePlan, "save-plan", "", "write the placements as a plan.json; with "+
		"--pareto, a folder with a plan for each budget")
	cmd.Flags().StringVar(&plot, "plot", "",
		"draw what is live over the step, by kind, as FILE.svg or FILE.png; with --pareto, the curve")
	cmd.Flags().StringVarP(&planFormat, "format", "F", "memopt",
		"format of --save-plan: memopt; or deeploy, a schedule {\"seq\": [[node, 0|1], …]}, for "+
			"which memory is counted as Deeploy's replay counts it")
	cmd.Flags().StringVar(&moduleMap, "module-map", "",
		"with --select modules: JSON {\"h.0\": [\"/h.0/*\"], …}, which nodes are of which module, by globs of "+
			"names; default what the exporter wrote")
	numberVar(cmd.Flags(), &pareto, "pareto", "", 0, bounds{least: 2, most: 1000},
		"print the cost of this many budgets, from the lowest peak that was reached to no budget")
	return cmd
}

// makePlan loads a model and plans it. The caller closes the model.
func (a *app) makePlan(name string, sel *selectionFlags, how planning) (*memopt.Plan, *chosen, error) {
	if err := sel.step.check(); err != nil {
		return nil, nil, err
	}
	how.states = sel.states
	m, err := a.load(name, how.reading)
	if err != nil {
		return nil, nil, err
	}
	return a.planLoaded(m, name, sel, how)
}

// planLoaded plans a model that was read.
func (a *app) planLoaded(m *memopt.Model, name string, sel *selectionFlags, how planning) (*memopt.Plan, *chosen,
	error) {
	forward := m
	m, step, err := a.step(m, &sel.step, sel.guarded())
	if err != nil {
		return nil, nil, err
	}
	c, err := sel.resolve(a, m, how)
	if err != nil {
		return nil, nil, err
	}
	c.file, c.step = forward, step
	c.options.RowPeaks, c.options.Alternatives = how.shown, how.shown
	if how.shown {
		c.options.Ranges, c.options.CheckSeed = a.ranges(), a.global.seed
	}
	if b, ok := c.strategy.(memopt.Budget); ok {
		b.Found, b.Progress = a.keeper.keep, a.searched
		c.strategy = b
	}
	a.status.say("planning")
	if sel.forCPU() {
		c.options.Device, c.options.Threads = cpu.Device{}, a.global.threads
	}
	plan := m.Plan
	span := how.shown && len(a.ranges()) > 0 && sel.budgetFlags.asks()
	if span {
		plan = func(ctx context.Context, s memopt.Strategy, o memopt.PlanOptions) (*memopt.Plan, error) {
			return a.planSpan(ctx, m, s, o)
		}
	}
	p, err := plan(a.searchFor(c.strategy), c.strategy, c.options)
	if err != nil {
		if how.shown && !span {
			if e := a.reportInfeasible(name, m, c, err); e != nil {
				return nil, nil, classify(wrap(name, e))
			}
		}
		return nil, nil, a.classifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.warn("%s", w)
	}
	a.noteOutputs(p, forward, &sel.step)
	if !how.shown {
		if err := sel.held(p, c.configPath); err != nil {
			p.Of.Close()
			return nil, nil, err
		}
	}
	return p, c, nil
}

// spanSearches is how many searches share the effort of a plan for ranges of sizes.
const spanSearches = 5

// planSpan makes one plan for all sizes of the ranges that --dim gives.
func (a *app) planSpan(ctx context.Context, m *memopt.Model, s memopt.Strategy,
	o memopt.PlanOptions) (*memopt.Plan, error) {
	b, ok := s.(memopt.Budget)
	switch {
	case !ok:
		return nil, usage("--dim gives a range: one plan for all of it is made to a --budget alone; give " +
			"one number, or leave out --plan and --config")
	case b.Share > 0:
		return nil, usage("--budget %s: a share of the baseline's peak is another number of bytes at every "+
			"size; wanted a size such as 16GiB for a range", report.Percent(b.Share))
	case b.Runtime || b.Clusters || len(b.StashLimits) > 0 || o.Device != nil:
		return nil, usage("--dim gives a range: one plan for all of it is made to a --budget in bytes, " +
			"without --budget-in ort, --budget-for, --select and --device cpu")
	}
	b.Effort /= spanSearches
	o.Ranges, o.RowPeaks, o.Alternatives = nil, false, false
	return m.PlanSpan(ctx, b, o, a.ranges())
}

// compare adds what a plan is shown beside to reports for people and tables: level 1, of a plan to a
// budget; what lower peaks would cost, of one that recomputes nothing.
func (a *app) compare(format report.Format, p *memopt.Plan, view *report.PlanView) (err error) {
	switch {
	case format == report.JSONFormat || p.Base == nil:
	case p.Bound != nil:
		view.Level1, err = p.Layerwise()
	case !p.Options.Enabled():
		a.status.say("looking for what lower peaks cost")
		view.TradeOffs, err = p.TradeOffs(a.search)
	}
	return err
}

func (a *app) savePlanFiles(p *memopt.Plan, model, saveConfig, savePlan string, deeploy bool) error {
	if saveConfig != "" {
		if err := a.writeArtefact("--save-config", saveConfig, configs.FormatORT(p.ConfigEntries())); err != nil {
			return err
		}
	}
	if savePlan == "" {
		return nil
	}
	if deeploy {
		data, err := configs.FormatSchedule(p.Plan)
		if err != nil {
			return usage("%s: --save-plan: %w", model, err)
		}
		return a.writeArtefact("--save-plan", savePlan, data)
	}
	data, err := p.File(a.global.seed)
	if err != nil {
		return classify(err)
	}
	return a.writeArtefact("--save-plan", savePlan, data)
}

func (a *app) printPlan(format report.Format, p *memopt.Plan, step *report.Step, view report.PlanView,
	reserved int64) error {
	if err := report.StepLine(a.out, format, step); err != nil {
		return err
	}
	switch format {
	case report.JSONFormat:
		return report.PlanJSON(a.out, p.Plan, p.Of.StructureSHA256, step, reserved)
	case report.CSVFormat:
		return report.PlanCSV(a.out, p.Plan, view)
	case report.MarkdownFormat:
		return report.PlanMarkdown(a.out, p.Plan, view)
	}
	return report.PlanTable(a.out, p.Plan, view)
}

// afterPlan binds symbols without a size, names a budget for a plan without recomputation, and else writes the
// planned file.
func (a *app) afterPlan(name string, p *memopt.Plan, c *chosen, view *report.PlanView, saved string) *nextCommand {
	args := []string{name}
	byFile := [][2]string{{"plan", saved}, {"out", fileLike(name, ".opt.onnx")}}
	switch {
	case p.Fit != nil && !p.Fit.Fits():
		return nil
	case p.Span != nil && saved == "":
		return &nextCommand{verb: "plan", args: args, set: [][2]string{{"save-plan", fileLike(name, ".plan.json")}}}
	case p.Span != nil:
		return &nextCommand{verb: "apply", args: args, dims: a.examples(c.file, unbound(c.file)), set: byFile, drop: ofSelection}
	case len(p.Unbound) > 0:
		return &nextCommand{verb: "plan", args: args, dims: a.examples(c.file, p.Unbound)}
	case p.Options.Enabled() && saved != "":
		return &nextCommand{verb: "apply", args: args, set: byFile, drop: ofSelection}
	case p.Options.Enabled():
		return applied(name)
	}
	for _, o := range view.TradeOffs {
		if share, ok := strings.CutPrefix(o.Name, "--budget "); ok {
			return &nextCommand{verb: "plan", args: args, set: [][2]string{{"budget", share}}}
		}
	}
	return &nextCommand{verb: "explain", args: args}
}
