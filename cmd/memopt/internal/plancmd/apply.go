package plancmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/planner"
	"memopt/planner/anchor"
	"memopt/view/report"
)

func Apply(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var out, external, anchors string
	var move cli.MoveFlags
	cmd := &cobra.Command{
		Use:   "apply MODEL -o OUT",
		Short: "Rewrite the graph so that it recomputes the values of a plan",
		Long: `apply writes a copy of the model whose backward half recomputes the plan's
subgraphs, each right before the first backward node that needs it, in the
order of execution that the plan assumes. Weights, inputs and outputs stay as they are. Random nodes
that run again get seeds, so that they draw the same numbers twice; calls to
the model's own functions are inlined, and an If that always takes the same
branch is replaced by that branch. The rewrite is recorded in the model's
metadata; that of each node says how many bytes it makes, how long these live,
and the plan's decision, which viewers such as Netron show.

Anchors preserve the saving in a runtime that reorders nodes and merges equal
ones, as ONNX Runtime does. An anchor is a view, which copies no data, and
waits for gradients computed earlier. Anchors are placed where they lower the
simulated peak in stock ONNX Runtime's default order. Where ONNX Runtime is
installed, it opens the file once, in a process of its own, for up to 5 s; a
file that it refuses is warned about.`,
		Example: `  memopt apply model.onnx --level 1 -o out.onnx
        recompute layer by layer
  memopt apply model.onnx --config config.json -o out.onnx --dim batch=8,seq=1024
        the clusters of a configuration; with bindings, clones are placed to lower the peak
  memopt apply model.onnx --budget 16GiB --budget-in ort -o out.onnx
        the cheapest file that stays within 16 GiB in stock ONNX Runtime
  memopt apply model.onnx --level 1 --anchor off -o out.onnx
        for a runtime that executes nodes in the order of the file
  memopt apply example:transformer --level 1 -o - | memopt plan -
        through a pipe`,
		Args: cli.ExactModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.Global.Output)
			if err != nil {
				return cli.Usage("%w", err)
			}
			if out == "" {
				return cli.Usage("apply: -o OUT is missing: name the file for the rewritten model")
			}
			if anchors != "on" && anchors != "off" {
				return cli.Usage("--anchor %q: wanted on or off", anchors)
			}
			if anchors == "off" && sel.In == cli.OrtName {
				return cli.Usage("--budget-in ort and --anchor off cannot be combined: without anchors a plan saves " +
					"no memory in ONNX Runtime")
			}
			threshold, err := cli.ParseThreshold(external)
			if err != nil {
				return err
			}
			if o, err := MovesAsked(a, cmd, &move, &sel); o != nil || err != nil {
				if err == nil && anchors == "on" && cmd.Flags().Changed("anchor") {
					err = cli.Usage("--link and --anchor on cannot be combined: anchors are for ONNX Runtime, " +
						"which moves no values")
				}
				if err != nil {
					return err
				}
				o.out, o.write = out, onnx.Options{ExternalDataThreshold: threshold}
				return planMoves(a, args[0], &sel, o)
			}
			p, c, err := MakePlan(a, args[0], &sel, option.Planning{Writes: anchors == "on",
				Rewrites: true})
			if err != nil {
				return err
			}
			defer p.Of.Close()
			if a.Ctx.Err() == nil {
				// The plan of an interrupted search is still written; a signal during the writing
				// of a finished plan interrupts the writing.
				a.Keeper.Release()
			}
			o := memopt.RewriteOptions{Stock: true, Seed: a.Global.Seed}
			if anchors == "on" {
				if o.Anchors, err = Anchor(a, p); err != nil {
					return err
				}
			}
			r, err := p.Rewrite(o)
			if err != nil {
				return cli.Classify(err)
			}
			if err := r.Annotate(); err != nil {
				return cli.Classify(err)
			}
			if p.Analysis.Boundary.Kind != live.YieldBoundary {
				if lost := ortengine.FindLostDropouts(r.Model.Graph, ort.All); lost != nil {
					option.WarnDropouts(a, lost)
				}
			}
			if err := a.WriteModel("--out", out, r.Model, onnx.Options{ExternalDataThreshold: threshold}); err != nil {
				return err
			}
			if anchors == "on" {
				TryStock(a, out, r)
			}
			if err := reportApply(a, format, out, r, c.Step); err != nil {
				return err
			}
			if out != cli.StreamName {
				if err := a.Next(format, a.Proved(args[0], c.File).About(c.Step)); err != nil {
					return err
				}
			}
			return sel.BudgetFlags.Finish(a, p)
		},
	}
	sel.RegisterGraph(cmd.Flags())
	move.Register(cmd.Flags(), option.LinkOfDevice)
	cmd.Flags().StringVar(&anchors, "anchor", "on",
		"on: preserve the saving in ONNX Runtime's default order; off: rewrite without anchors")
	cmd.Flags().StringVarP(&out, "out", "o", "", "where to write the rewritten model; - is standard output")
	cmd.Flags().StringVar(&external, "external-data", "",
		"move tensors of at least this size to OUT.data, for example 1MiB")
	return cmd
}

// anchorGrace is the time that the search for places of anchors has where the limit has ended that for the
// plan.
const anchorGrace = 100 * time.Millisecond

// Anchor chooses the anchors of a plan. It warns about obstacles to saving memory in a runtime.
func Anchor(a *cli.App, p *memopt.Plan) (*anchor.Anchoring, error) {
	ctx, done := a.Search, func() {}
	if end, ok := ctx.Deadline(); ok {
		if grace := time.Now().Add(anchorGrace); end.Before(grace) {
			end = grace
		}
		ctx, done = context.WithDeadline(a.Ctx, end)
	}
	defer done()
	anchoring, err := p.Plan.Anchor(ctx)
	if err != nil {
		return nil, cli.Classify(&memopt.Error{Fault: memopt.OfMemopt, Err: err})
	}
	for _, w := range anchoring.Warnings {
		a.Warn("%s", w)
	}
	warnBudget(a, p.Plan, anchoring)
	return anchoring, nil
}

// warnBudget warns that a file does not stay within the budget in stock ONNX Runtime.
func warnBudget(a *cli.App, p *planner.Plan, anchoring *anchor.Anchoring) {
	limit, fits := p.RuntimeBudget(anchoring)
	if fits || p.Session == nil && p.Analysis.Boundary.Kind == live.YieldBoundary {
		return // stock ONNX Runtime runs no graph with a YieldOp
	}
	if p.Session != nil {
		a.Warn("in ORTModule the peak is predicted to be %s, more than the %s that the budget allows: plan for it "+
			"with --budget-in ortmodule", report.Bytes(p.Session.Planned), report.Bytes(limit))
		return
	}
	took, asked := report.Bytes(anchoring.AnchoredArena),
		fmt.Sprintf("the %s that the budget allows of the %s that the unchanged graph takes there",
			report.Bytes(limit), report.Bytes(anchoring.BaseArena))
	if total := p.Options.Limit().Total; total > 0 {
		took = fmt.Sprintf("%s, plus %s of inputs and weights: %s in total", took, report.Bytes(p.Persistent),
			report.Bytes(anchoring.AnchoredArena+p.Persistent))
		asked = "the budget of " + report.Bytes(total)
	}
	a.Warn("in stock ONNX Runtime the arena is predicted to take %s, more than %s: the plan fits "+
		"memopt's own order and arena; plan for ONNX Runtime with --budget-in ort", took, asked)
}

// reportApply reports the rewrite, on the error stream if the model went to standard output.
func reportApply(a *cli.App, format report.Format, out string, r *memopt.Rewritten, step *report.Step) error {
	w := a.Stdio.Out
	if out == "-" {
		w = a.Stdio.Err
	}
	if err := report.StepLine(w, format, step); err != nil {
		return err
	}
	return report.Apply(w, format, out, r.By.Plan, r.Rewritten, r.Anchoring)
}
