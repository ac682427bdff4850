package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/planner"
	"memopt/planner/anchor"
	"memopt/view/report"
)

func (a *app) applyCommand() *cobra.Command {
	var sel selectionFlags
	var out, external, anchors string
	cmd := &cobra.Command{
		Use:   "apply MODEL -o OUT",
		Short: "Rewrite the graph so that it recomputes what a plan says",
		Long: `apply writes a copy of the model in which the plan's subgraphs run again right
before the first backward node that needs them, in the order of execution that
the plan assumes. Weights, inputs and outputs stay as they are. Random nodes
that run again get seeds, so that they draw the same numbers twice; calls to
the model's own functions are inlined, and an If that always takes the same
branch is replaced by that branch. The rewrite is recorded in the model's
metadata; that of each node says how many bytes it makes, how long these live,
and what the plan decided, which viewers such as Netron show.

Anchors preserve the saving in a runtime that reorders nodes and merges equal
ones, as ONNX Runtime does. An anchor is a view, which copies nothing, and
waits for gradients computed earlier. Anchors are placed where they lower the
simulated peak in stock ONNX Runtime's default order. Where ONNX Runtime is
installed, it opens the file once, in a process of its own, for up to 5 s; a
file that it refuses is warned about.`,
		Example: `  memopt apply model.onnx --level 1 -o out.onnx
        recompute layer by layer
  memopt apply model.onnx --config config.json -o out.onnx --dim batch=8,seq=1024
        what a configuration lists; with bindings, clones are placed to lower the peak
  memopt apply model.onnx --budget 16GiB --budget-in ort -o out.onnx
        the cheapest file that stays within 16 GiB in stock ONNX Runtime
  memopt apply model.onnx --level 1 --anchor off -o out.onnx
        for a runtime that executes nodes in the order of the file
  memopt apply example:transformer --level 1 -o - | memopt plan -
        through a pipe`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.global.output)
			if err != nil {
				return usage("%w", err)
			}
			if out == "" {
				return usage("apply: -o OUT is missing: name the file for the rewritten model")
			}
			if anchors != "on" && anchors != "off" {
				return usage("--anchor %q: wanted on or off", anchors)
			}
			if anchors == "off" && sel.in == ortName {
				return usage("--budget-in ort and --anchor off cannot be combined: without " +
					"anchors a plan saves nothing in ONNX Runtime")
			}
			threshold, err := parseThreshold(external)
			if err != nil {
				return err
			}
			p, c, err := a.makePlan(args[0], &sel, planning{})
			if err != nil {
				return err
			}
			defer p.Of.Close()
			if a.ctx.Err() == nil {
				// The plan of an interrupted search is still written; a signal during the writing
				// of a finished plan interrupts the writing.
				a.keeper.release()
			}
			o := memopt.RewriteOptions{Stock: true, Seed: a.global.seed}
			if anchors == "on" {
				if o.Anchors, err = a.anchor(p); err != nil {
					return err
				}
			}
			r, err := p.Rewrite(o)
			if err != nil {
				return classify(err)
			}
			if err := r.Annotate(); err != nil {
				return classify(err)
			}
			if p.Analysis.Boundary.Kind != live.YieldBoundary {
				if lost := ortengine.FindLostDropouts(r.Model.Graph, ort.All); lost != nil {
					a.warnDropouts(lost)
				}
			}
			if err := a.writeModel("--out", out, r.Model, onnx.Options{ExternalDataThreshold: threshold}); err != nil {
				return err
			}
			if anchors == "on" {
				a.tryStock(out, r)
			}
			if err := a.reportApply(format, out, r, c.step); err != nil {
				return err
			}
			if out != streamName {
				if err := a.next(format, a.proved(args[0], c.file).of(c.step)); err != nil {
					return err
				}
			}
			return sel.budgetFlags.finish(a, p)
		},
	}
	sel.registerGraph(cmd.Flags())
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

// anchor chooses the anchors of a plan. It warns about obstacles to saving memory in a runtime.
func (a *app) anchor(p *memopt.Plan) (*anchor.Anchoring, error) {
	ctx, done := a.search, func() {}
	if end, ok := ctx.Deadline(); ok {
		if grace := time.Now().Add(anchorGrace); end.Before(grace) {
			end = grace
		}
		ctx, done = context.WithDeadline(a.ctx, end)
	}
	defer done()
	anchoring, err := p.Plan.Anchor(ctx)
	if err != nil {
		return nil, classify(&memopt.Error{Fault: memopt.OfMemopt, Err: err})
	}
	for _, w := range anchoring.Warnings {
		a.warn("%s", w)
	}
	a.warnBudget(p.Plan, anchoring)
	return anchoring, nil
}

// warnBudget warns that a file does not stay within the budget in stock ONNX Runtime.
func (a *app) warnBudget(p *planner.Plan, anchoring *anchor.Anchoring) {
	limit, fits := p.RuntimeBudget(anchoring)
	if fits {
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
	a.warn("in stock ONNX Runtime the arena is predicted to take %s, more than %s: the plan fits "+
		"memopt's own order and arena; plan for ONNX Runtime with --budget-in ort", took, asked)
}

// reportApply reports the rewrite, on the error stream if the model went to standard output.
func (a *app) reportApply(format report.Format, out string, r *memopt.Rewritten, step *report.Step) error {
	w := a.stdio.out
	if out == "-" {
		w = a.stdio.err
	}
	if err := report.StepLine(w, format, step); err != nil {
		return err
	}
	return report.Apply(w, format, out, r.By.Plan, r.Rewritten, r.Anchoring)
}
