// Package plancmd has the verbs that make a plan and show or write it: plan, apply, explain, report, trace.
package plancmd

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/answers/emit"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/configs"
	"memopt/executor/cpu"
	"memopt/planner"
	"memopt/view/report"
)

func Plan(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var details, noChart, deeploy bool
	var pareto int
	var saveConfig, savePlan, planFormat, plot, moduleMap, target string
	var move cli.MoveFlags
	var bands bandFlags
	cmd := &cobra.Command{
		Use:   "plan MODEL",
		Short: "Show the nodes to recompute, their saving and the peak",
		Long: `plan answers in three lines: whether the step fits, its peak before and after,
and the cost of recomputation. Then come alternatives with their prices, and
the clusters of subgraphs that can be recomputed instead of stashed, as ONNX
Runtime's memory optimizer lists them, with the bytes that each saves in total
and by how much each alone lowers the peak; for a plan to a budget, the
recomputed nodes. Below are the peak, its parts, and the stashed activations
with the reason why each is kept; on a terminal, a chart of the live bytes over
the step.

A plan to a budget recomputes, and computes regions of the graph in parts where
that is cheaper or fits only so (--chunk).

With --select modules it plans for a PyTorch program whose model is an export:
whole modules run again, as torch.utils.checkpoint does it, and the peak is the
one that PyTorch will have. -O torch prints the lines of Python that do it;
--save-plan writes a plan for memopt.torch.

With --emit it plans for another framework's own way of recomputing: torch is
torch.utils.checkpoint around whole modules, torch-policy the same with the
operators that each keeps, torch-remat checkpoints of torch_remat with modules
that are saved, torchtitan its activation checkpoints, megatron the
recomputation of Megatron-LM, and its offloading with --host-budget, jax the
policy of jax.checkpoint by names, maxtext the same in MaxText's configuration.
It prints the text for that framework; the peak in its first line is the one
that this way reaches, by a simulation of it.

Where no plan fits a budget, plan says how low it went and which is the largest
batch is that fits, and exits with 3.

If some symbols are not bound, it prints formulas instead of bytes; -w adds
formulas, exact bytes and whole names in any case.`,
		Example: `  memopt plan example:transformer
        the clusters of a built-in training graph, all of them off
  memopt plan model.onnx --dim batch=8,seq=1024 --level 1
        recompute layer by layer; the peak before and after
  memopt plan model.onnx --level 1 --device h100
        with times estimated for another device
  memopt plan model.onnx --level 1 --save-config config.json
        a configuration for ORTMODULE_MEMORY_OPT_CONFIG
  memopt plan model.onnx --config config.json -O json
        the effect of a configuration, for scripts
  memopt plan model.onnx --budget 60% --plot step.svg
        a picture of the live bytes before and after
  memopt plan model.onnx --plan plan.json --budget 16GiB
        whether a plan that was saved still fits, and by how much: exit code 3 if not
  memopt plan model.onnx --select modules --budget 60% -O torch
        the modules to put under torch.utils.checkpoint, as Python
  memopt plan step.json --emit torch-policy --budget 60%
        modules under checkpoints, and the operators whose results they keep
  memopt plan names.json --emit jax --budget 60%
        the named values that jax.checkpoint keeps, as its policy
  memopt plan network.onnx --budget 400KiB --save-plan schedule.json -F deeploy --aliases aliases.json
        a schedule for Deeploy, planned and counted by the rules of its memory`,
		Args: cli.ExactModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if target != "" {
				return planEmit(a, cmd, args[0], target, &sel, &move, moduleMap)
			}
			if sel.What == option.ModulesName {
				return planModules(a, cmd, args[0], &sel, moduleMap, savePlan)
			}
			if o, err := MovesAsked(a, cmd, &move, &sel); o != nil || err != nil {
				if err == nil {
					err = o.alone(cmd, &sel, "save-config", "plot", "pareto", "format", "module-map",
						"plans", "quantile")
				}
				if err != nil {
					return err
				}
				o.save = savePlan
				return planMoves(a, args[0], &sel, o)
			}
			format, err := report.ParseFormat(a.Global.Output)
			if err != nil {
				return cli.Usage("%w", err)
			}
			if moduleMap != "" {
				return cli.Usage("--module-map is for --select modules: add it, or leave the map out")
			}
			picture, err := PlotFormat(plot)
			if err != nil {
				return err
			}
			switch planFormat {
			case "memopt":
			case "deeploy":
				if savePlan == "" {
					return cli.Usage("-F deeploy: --save-plan FILE is missing: name the file for the " +
						"schedule")
				}
				deeploy = true
			default:
				return cli.Usage("--format %q: wanted memopt or deeploy", planFormat)
			}
			if cmd.Flags().Changed("pareto") {
				if saveConfig != "" || deeploy {
					return cli.Usage("--pareto prints the cost of many plans: leave out --save-config and -F " +
						"deeploy; --save-plan DIR saves all of them")
				}
				return printCurve(a, args[0], &sel, format, pareto, savePlan, func(c *planner.Curve) error {
					return plotCurve(a, c, args[0], plot, picture)
				})
			}
			if bands.asked(a, cmd.Flags(), &sel) {
				if saveConfig != "" || deeploy || plot != "" {
					return cli.Usage("--plans makes several plans: leave out --save-config, --plot and -F deeploy; " +
						"--save-plan DIR saves all of them")
				}
				return planBands(a, args[0], &sel, format, &bands, savePlan)
			}
			if saveConfig != "" && sel.BudgetFlags.Asks() && sel.What != "clusters" && sel.Plan == "" &&
				sel.Config == "" {
				return cli.Usage("--save-config: a configuration cannot express the nodes that a plan to a budget " +
					"recomputes; add --select clusters, or save the plan with --save-plan")
			}
			p, c, err := MakePlan(a, args[0], &sel, option.Planning{Shown: true, Writes: true, Deeploy: deeploy,
				Reading: load.Reading{Ranged: true}})
			if err != nil {
				return err
			}
			defer p.Of.Close()
			infeasible := sel.Held(p, c.ConfigPath)
			if infeasible == nil {
				if err := savePlanFiles(a, p, args[0], saveConfig, savePlan, deeploy); err != nil {
					return err
				}
				if err := plotStep(a, p, args[0], plot, picture); err != nil {
					return err
				}
			}
			view := report.PlanView{ConfigPath: c.ConfigPath, Details: details, Stashes: a.ListLimit()}
			if len(p.Unbound) > 0 {
				view.Bind = a.BindFlag(c.File, p.Unbound)
			}
			if !noChart {
				view.Chart = a.Chart
			}
			if a.Ctx.Err() == nil { // else the result so far is shown at once
				if err := compare(a, format, p, &view); err != nil {
					return cli.Classify(cli.Wrap(args[0], err))
				}
			}
			reserved, err := sel.Reserved(a, p)
			if err != nil {
				return err
			}
			if err := printPlan(a, format, p, c.Step, view, reserved); err != nil {
				return err
			}
			if !deeploy {
				next := afterPlan(a, args[0], p, c, &view, savePlan)
				if err := a.Next(format, next.About(c.Step)); err != nil {
					return err
				}
			}
			if infeasible != nil {
				return infeasible
			}
			return sel.BudgetFlags.Finish(a, p)
		},
	}
	sel.RegisterGraph(cmd.Flags())
	move.Register(cmd.Flags(), option.LinkOfDevice)
	bands.register(cmd.Flags())
	cmd.Flags().BoolVar(&details, "details", false, "also print the node-level table")
	cmd.Flags().BoolVar(&noChart, "no-chart",
		false, "leave out the chart of live bytes that a terminal of 60 columns or more shows")
	cmd.Flags().StringVar(&saveConfig, "save-config", "", "write the enabled clusters as an ONNX Runtime configuration")
	cmd.Flags().StringVar(&savePlan, "save-plan", "", "write the placements as a plan.json; with "+
		"--pareto, a folder with a plan for each budget, with --plans one with a plan for each band")
	cmd.Flags().StringVar(&plot, "plot", "",
		"draw the live bytes over the step, by kind, as FILE.svg or FILE.png; with --pareto, the curve")
	cmd.Flags().StringVarP(&planFormat, "format", "F", "memopt",
		"format of --save-plan: memopt; or deeploy, a schedule {\"seq\": [[node, 0|1], …]}, and memory is counted "+
			"as Deeploy's replay counts it")
	cmd.Flags().StringVar(&moduleMap, "module-map", "",
		"with --select modules: JSON {\"h.0\": [\"/h.0/*\"], …}, the nodes of each module, by globs of names; "+
			"default the exporter's metadata")
	cmd.Flags().StringVar(&target, "emit", "", "print a plan for another framework's own way of recomputing, with the "+
		"peak that it reaches: "+strings.Join(emit.Names(), ", "))
	cli.NumberVar(cmd.Flags(), &pareto, "pareto", "", 0, cli.Bounds{Least: 2, Most: 1000},
		"print the cost of this many budgets, from the lowest peak that was reached to no budget")
	return cmd
}

// MakePlan loads a model and plans it. The caller closes the model.
func MakePlan(a *cli.App, name string, sel *option.SelectionFlags, how option.Planning) (*memopt.Plan, *option.Chosen,
	error) {
	if err := sel.Step.Check(); err != nil {
		return nil, nil, err
	}
	how.States = sel.States
	m, err := load.Model(a, name, how.Reading)
	if err != nil {
		return nil, nil, err
	}
	return planLoaded(a, m, name, sel, how)
}

// planLoaded plans a model that was read.
func planLoaded(a *cli.App, m *memopt.Model, name string, sel *option.SelectionFlags,
	how option.Planning) (*memopt.Plan, *option.Chosen,
	error) {
	forward := m
	m, step, err := gradcmd.MakeStep(a, m, &sel.Step, sel.Guarded())
	if err != nil {
		return nil, nil, err
	}
	c, err := sel.Resolve(a, m, how)
	if err != nil {
		return nil, nil, err
	}
	c.File, c.Step = forward, step
	c.Options.RowPeaks, c.Options.Alternatives = how.Shown, how.Shown
	if how.Shown {
		c.Options.Ranges, c.Options.CheckSeed = a.Ranges(), a.Global.Seed
	}
	if b, ok := c.Strategy.(memopt.Budget); ok {
		b.Found, b.Progress = a.Keeper.Keep, a.Searched
		c.Strategy = b
	}
	a.Status.Say("planning")
	if sel.ForCPU() {
		c.Options.Device, c.Options.Threads = cpu.Device{}, a.Global.Threads
	}
	plan := m.Plan
	span := how.Shown && len(a.Ranges()) > 0 && sel.BudgetFlags.Asks()
	if span {
		plan = func(ctx context.Context, s memopt.Strategy, o memopt.PlanOptions) (*memopt.Plan, error) {
			return planSpan(a, ctx, m, s, o)
		}
	}
	p, err := plan(a.SearchFor(c.Strategy), c.Strategy, c.Options)
	if err != nil {
		if how.Shown && !span {
			if e := reportInfeasible(a, name, m, c, err); e != nil {
				return nil, nil, cli.Classify(cli.Wrap(name, e))
			}
		}
		return nil, nil, a.ClassifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.Warn("%s", w)
	}
	gradcmd.NoteOutputs(a, p, forward, &sel.Step)
	if !how.Shown {
		if err := sel.Held(p, c.ConfigPath); err != nil {
			p.Of.Close()
			return nil, nil, err
		}
	}
	return p, c, nil
}

// spanSearches is how many searches share the effort of a plan for ranges of sizes.
const spanSearches = 5

// planSpan makes one plan for all sizes of the ranges that --dim gives.
func planSpan(a *cli.App, ctx context.Context, m *memopt.Model, s memopt.Strategy,
	o memopt.PlanOptions) (*memopt.Plan, error) {
	b, err := spanBudget(s, o)
	if err != nil {
		return nil, err
	}
	b.Effort /= spanSearches
	o.Ranges, o.RowPeaks, o.Alternatives = nil, false, false
	return m.PlanSpan(ctx, b, o, a.Ranges())
}

// spanBudget is the budget of plans for many sizes.
func spanBudget(s memopt.Strategy, o memopt.PlanOptions) (memopt.Budget, error) {
	b, ok := s.(memopt.Budget)
	switch {
	case !ok:
		return b, cli.Usage("--dim gives a range: one plan for all of it is made to a --budget alone; give " +
			"one number, or leave out --plan and --config")
	case b.Share > 0:
		return b, cli.Usage("--budget %s: a share of the baseline's peak is another number of bytes at every "+
			"size; wanted a size such as 16GiB for a range", report.Percent(b.Share))
	case b.Runtime || b.Clusters || len(b.StashLimits) > 0 || o.Device != nil:
		return b, cli.Usage("--dim gives a range: one plan for all of it is made to a --budget in bytes, " +
			"without --budget-in ort, --budget-for, --select and --device cpu")
	}
	return b, nil
}

// compare adds the plans beside this one to reports for people and tables: level 1 beside a plan to a
// budget, the price of lower peaks beside a plan without recomputation.
func compare(a *cli.App, format report.Format, p *memopt.Plan, view *report.PlanView) (err error) {
	switch {
	case format == report.JSONFormat || p.Base == nil:
	case p.Bound != nil:
		view.Level1, err = p.Layerwise()
	case !p.Options.Enabled():
		a.Status.Say("looking for the cost of lower peaks")
		view.TradeOffs, err = p.TradeOffs(a.Search)
	}
	return err
}

func savePlanFiles(a *cli.App, p *memopt.Plan, model, saveConfig, savePlan string, deeploy bool) error {
	if saveConfig != "" {
		if err := a.WriteArtefact("--save-config", saveConfig, configs.FormatORT(p.ConfigEntries())); err != nil {
			return err
		}
	}
	if savePlan == "" {
		return nil
	}
	if deeploy {
		data, err := configs.FormatSchedule(p.Plan)
		if err != nil {
			return cli.Usage("%s: --save-plan: %w", model, err)
		}
		return a.WriteArtefact("--save-plan", savePlan, data)
	}
	data, err := p.File(a.Global.Seed)
	if err != nil {
		return cli.Classify(err)
	}
	return a.WriteArtefact("--save-plan", savePlan, data)
}

func printPlan(a *cli.App, format report.Format, p *memopt.Plan, step *report.Step, view report.PlanView,
	reserved int64) error {
	if err := report.StepLine(a.Out, format, step); err != nil {
		return err
	}
	switch format {
	case report.JSONFormat:
		return report.PlanJSON(a.Out, p.Plan, p.Of.StructureSHA256, step, reserved)
	case report.CSVFormat:
		return report.PlanCSV(a.Out, p.Plan, view)
	case report.MarkdownFormat:
		return report.PlanMarkdown(a.Out, p.Plan, view)
	}
	return report.PlanTable(a.Out, p.Plan, view)
}

// afterPlan binds symbols without a size, names a budget for a plan without recomputation, and else writes the
// planned file.
func afterPlan(a *cli.App, name string, p *memopt.Plan, c *option.Chosen, view *report.PlanView,
	saved string) *cli.NextCommand {
	args := []string{name}
	byFile := [][2]string{{"plan", saved}, {"out", cli.FileLike(name, ".opt.onnx")}}
	switch {
	case p.Fit != nil && !p.Fit.Fits():
		return nil
	case p.Span != nil && saved == "":
		return &cli.NextCommand{Verb: "plan", Args: args, Set: [][2]string{{"save-plan",
			cli.FileLike(name, ".plan.json")}}}
	case p.Span != nil:
		return &cli.NextCommand{Verb: "apply", Args: args, Dims: a.Examples(c.File, cli.Unbound(c.File)), Set: byFile,
			Drop: cli.OfSelection}
	case len(p.Unbound) > 0:
		return &cli.NextCommand{Verb: "plan", Args: args, Dims: a.Examples(c.File, p.Unbound)}
	case p.Options.Enabled() && saved != "":
		return &cli.NextCommand{Verb: "apply", Args: args, Set: byFile, Drop: cli.OfSelection}
	case p.Options.Enabled():
		return cli.Applied(name)
	}
	for _, o := range view.TradeOffs {
		if o.Kind == planner.ToShare {
			share := strconv.Itoa(o.Share) + "%"
			return &cli.NextCommand{Verb: "plan", Args: args, Set: [][2]string{{"budget", share}}}
		}
	}
	return &cli.NextCommand{Verb: "explain", Args: args}
}
