// Package lookcmd has the verbs that look at models and tables: inspect, ops, examples.
package lookcmd

import (
	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/graph"
	"memopt/graph/live"
	ortsim "memopt/sim/ort"
	"memopt/train"
	"memopt/view/report"
)

func Inspect(a *cli.App) *cobra.Command {
	var by string
	var top int
	var text bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show the contents of the graph: operators, dims, sizes as formulas",
		Long: `inspect prints the contents of a model: its operator sets, symbols, inputs and
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
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			format, err := report.ParseFormat(a.Global.Output)
			if err != nil {
				return cli.Usage("%w", err)
			}
			if !report.ValidGrouping(by) {
				return cli.Usage("--by %q: wanted one of op, node, layer, category", by)
			}
			l, err := load.Model(a, args[0], load.Reading{})
			if err != nil {
				return err
			}
			defer l.Close()
			if text {
				_, err := a.Out.Write([]byte(graph.Format(l.Model, graph.FormatOptions{Types: true})))
				return err
			}
			if err := inspectModel(a, format, l, by, top); err != nil {
				return err
			}
			return a.Next(format, afterInspect(a, args[0], l))
		},
	}
	cmd.Flags().StringVar(&by, "by", "op", "group values by op, node, layer or category")
	cli.NumberVar(cmd.Flags(), &top, "top", "", 0, cli.NotNegative, "how many groups to print; 0 is all")
	cmd.Flags().BoolVar(&text, "text", false, "print the graph in ONNX's textual syntax")
	return cmd
}

func inspectModel(a *cli.App, format report.Format, l *memopt.Model, by string, top int) error {
	in := &report.Inspection{Model: l.Model, Types: l.Types, Dims: l.Dims, SHA: l.StructureSHA256, By: by, Top: top}
	var err error
	if in.States, err = live.FindStates(l.Model); err != nil {
		a.Warn("%s: %v", l.Path, err)
	}
	in.Program = programOf(l)
	if b, err := live.FindBoundary(l.Model); err == nil {
		order, err := graph.Topological(l.Graph)
		if err != nil {
			return cli.Invalid(err)
		}
		if b.Kind == live.YieldBoundary {
			order = ortsim.MemoryEfficientOrder(l.Graph, b.Node)
		}
		in.Boundary, in.Backward = &b, live.Split(l.Graph, b, order)
		in.Order = order
	}
	return report.Inspect(a.Out, format, in)
}

// programOf describes the program of a model that XLA compiled; nil for others.
func programOf(l *memopt.Model) *report.Program {
	p := l.Compiled
	if p == nil {
		return nil
	}
	m := p.Read
	out := &report.Program{Instructions: m.Instructions(), Computations: len(m.Computations), Scheduled: m.Scheduled,
		Partitions: m.Devices(), Whole: m.IsWhole(), Replicas: m.Replicas, Marked: p.Marked,
		Peak: report.ProgramPeak{Live: p.LiveBytes(), Step: p.PeakLabel(), Arguments: p.ArgumentBytes,
			Results: p.ResultBytes, Donated: p.DonatedBytes, Temporary: p.HeapBytes, Host: p.HostBytes}}
	if out.Whole {
		part := p.ArgumentPartBytes()
		out.Peak.Part = &part
	}
	if p.Packed {
		out.Peak.Arena = &p.ArenaBytes
	}
	return out
}

// afterInspect plans the model with sizes; nil where it has no gradients.
func afterInspect(a *cli.App, name string, m *memopt.Model) *cli.NextCommand {
	if !train.HasBackward(m) {
		if _, err := train.MakeStep(m, train.Recipe{Micros: 1, Bare: true}); err != nil {
			return nil
		}
	}
	return &cli.NextCommand{Verb: "plan", Args: []string{name}, Dims: a.Examples(m, cli.Unbound(m))}
}
