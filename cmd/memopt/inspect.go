package main

import (
	"github.com/spf13/cobra"

	"memopt"
	"memopt/graph"
	"memopt/graph/live"
	ortsim "memopt/sim/ort"
	"memopt/train"
	"memopt/view/report"
)

func (a *app) inspectCommand() *cobra.Command {
	var by string
	var top int
	var text bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show what is in the graph: operators, dims, sizes as formulas",
		Long: `inspect prints what a model holds: its operator sets, symbols, inputs and
outputs, and then its operators, nodes, layers or categories of values with
their sizes as formulas, and which of them are stashed for the backward half.

With --text it prints the graph itself, in ONNX's textual syntax, with inferred
types.`,
		Example: `  memopt inspect model.onnx
        operators by the bytes that they produce
  memopt inspect model.onnx --by node --top 20
        the 20 nodes that produce the most bytes
  memopt inspect model.onnx --text
        the graph as text`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.global.output)
			if err != nil {
				return usage("%w", err)
			}
			if !report.ValidGrouping(by) {
				return usage("--by %q: wanted one of op, node, layer, category", by)
			}
			l, err := a.load(args[0], reading{})
			if err != nil {
				return err
			}
			defer l.Close()
			if text {
				_, err := a.out.Write([]byte(graph.Format(l.Model, graph.FormatOptions{Types: true})))
				return err
			}
			if err := a.inspect(format, l, by, top); err != nil {
				return err
			}
			return a.next(format, a.afterInspect(args[0], l))
		},
	}
	cmd.Flags().StringVar(&by, "by", "op", "what to group values by: op, node, layer or category")
	numberVar(cmd.Flags(), &top, "top", "", 0, notNegative, "how many groups to print; 0 is all")
	cmd.Flags().BoolVar(&text, "text", false, "print the graph in ONNX's textual syntax")
	return cmd
}

func (a *app) inspect(format report.Format, l *memopt.Model, by string, top int) error {
	in := &report.Inspection{Model: l.Model, Types: l.Types, Dims: l.Dims, SHA: l.StructureSHA256, By: by, Top: top}
	var err error
	if in.States, err = live.FindStates(l.Model); err != nil {
		a.warn("%s: %v", l.Path, err)
	}
	if b, err := live.FindBoundary(l.Model); err == nil {
		order, err := graph.Topological(l.Graph)
		if err != nil {
			return invalid(err)
		}
		if b.Kind == live.YieldBoundary {
			order = ortsim.MemoryEfficientOrder(l.Graph, b.Node)
		}
		in.Boundary, in.Backward = &b, live.Split(l.Graph, b, order)
		in.Order = order
	}
	return report.Inspect(a.out, format, in)
}

// afterInspect plans the model with sizes; nil where it has no gradients.
func (a *app) afterInspect(name string, m *memopt.Model) *nextCommand {
	if !train.HasBackward(m) {
		if _, err := train.MakeStep(m, train.Recipe{Micros: 1, Bare: true}); err != nil {
			return nil
		}
	}
	return &nextCommand{verb: "plan", args: []string{name}, dims: a.examples(m, unbound(m))}
}
