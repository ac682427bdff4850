package plancmd

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/internal/fileio"
	"memopt/recompute"
	"memopt/view/report"
	"memopt/view/timeline"
	"memopt/view/torchsnapshot"
)

// The formats of trace.
const (
	perfettoFormat      = "perfetto"
	torchSnapshotFormat = "torch-snapshot"
	modelExplorerFormat = "model-explorer"
)

var TraceFormats = []string{perfettoFormat, torchSnapshotFormat, modelExplorerFormat}

func Trace(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var moves cli.MoveFlags
	var format, out string
	var baseline bool
	cmd := &cobra.Command{
		Use:   "trace MODEL -o OUT",
		Short: "Write the predicted step for the viewers that people have",
		Long: `trace writes a step that has not run: the values that are live at each node,
the nodes that hold them, and the times of nodes, as estimated or as --cost
says.

-F perfetto writes a trace for ui.perfetto.dev and chrome://tracing: nodes and
phases on tracks, live bytes by kind as counters, and arrows from a node to its
recomputation; copies to the host and back have tracks of their own. Events say
which buffers they read, write and free, and which others they wait for, as
check --trace reads it. Its times are estimates, so --cost refuses it.

-F torch-snapshot writes a snapshot of PyTorch's allocator for
pytorch.org/memory_viz: the blocks of the arena with the values in them, their
producers, last readers and layers. Each kind has a colour.

-F model-explorer writes a folder of node data for Model Explorer, a file for
each measure, to be laid over the file that apply writes with the same flags:
bytes, peak-bytes, live-bytes, decision and milliseconds.

The flags that select recomputed values say which plan is traced; without them
it is the graph as it is.`,
		Example: `  memopt trace model.onnx --dim batch=8,seq=1024 -o step.json
        the step as it is, for ui.perfetto.dev
  memopt trace model.onnx --budget 60% -F torch-snapshot -o snapshot.pickle
        a plan to a budget, for pytorch.org/memory_viz
  memopt trace model.onnx --level 1 -F model-explorer -o overlays
        the plan of level 1, as overlays for Model Explorer
  memopt trace model.onnx --budget 60% --baseline -F torch-snapshot -o before.pickle
        the graph that the plan is compared with`,
		Args: cli.ExactModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := report.ParseFormat(a.Global.Output); err != nil {
				return cli.Usage("%w", err)
			}
			asked, err := MovesAsked(a, cmd, &moves, &sel)
			if err != nil {
				return err
			}
			return writeTraceOf(a, args[0], &sel, asked, format, out, baseline)
		},
	}
	sel.RegisterGraph(cmd.Flags())
	moves.Register(cmd.Flags(), option.LinkOfDevice)
	cmd.Flags().StringVarP(&format, "format", "F", perfettoFormat, "format of the output: "+
		""+strings.Join(TraceFormats, ", "))
	cmd.Flags().StringVarP(&out, "out", "o", "", "where to write it: a file, - for standard output; with "+
		"-F model-explorer a new folder")
	cmd.Flags().BoolVar(&baseline, "baseline", false, "trace the graph as it was given, not as the plan rewrites it")
	return cmd
}

// writeTraceOf writes the step of a plan.
func writeTraceOf(a *cli.App, name string, sel *option.SelectionFlags, moves *Moves, format, out string,
	baseline bool) error {
	if !slices.Contains(TraceFormats, format) {
		return cli.Usage("-F %q: wanted one of %s", format, strings.Join(TraceFormats, ", "))
	}
	if out == "" {
		return cli.Usage("trace: -o OUT is missing: name the file, or with -F %s the folder, to write",
			modelExplorerFormat)
	}
	if format == modelExplorerFormat {
		if err := newFolder("-o", "for a file of each measure", out); err != nil {
			return err
		}
	}
	if moves != nil && !baseline {
		return traceMoves(a, name, sel, moves, format, out)
	}
	p, c, err := MakePlan(a, name, sel, option.Planning{})
	if err != nil {
		return err
	}
	defer p.Of.Close()
	if a.Ctx.Err() == nil {
		a.Keeper.Release() // as apply: a signal during the writing interrupts it
	}
	of := timeline.Of
	if baseline {
		of = timeline.Baseline
	}
	t, err := of(p.Plan)
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	t.Pack(a.Ctx)
	if err := writeTrace(a, p, t, format, out, p.Rewrites() && !baseline); err != nil {
		return err
	}
	a.Note("%s: step: %s", name, c.Step.Text)
	a.Note("%s: %d nodes, at the peak %s beside the %s that live throughout, in an arena of %s", name, len(t.Steps),
		report.Bytes(t.PeakBytes()), report.Bytes(t.Persistent.Sum()), report.Bytes(t.Layout.Bytes))
	return sel.BudgetFlags.Finish(a, p)
}

// traceMoves writes the step of a plan whose values move.
func traceMoves(a *cli.App, name string, sel *option.SelectionFlags, moves *Moves, format, out string) error {
	p, c, err := MakeMoves(a, name, sel, option.Planning{}, moves)
	if err != nil {
		return err
	}
	defer p.Plan.Of.Close()
	t, err := timeline.Of(p.Laid)
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	t.Pack(a.Ctx)
	if err := writeTrace(a, &memopt.Plan{Plan: p.Laid, Of: p.Plan.Of}, t, format, out, true); err != nil {
		return err
	}
	a.Note("%s: step: %s", name, c.Step.Text)
	a.Note("%s: %d nodes, at the peak %s beside the %s that live throughout, in an arena of %s; copies take up to %s "+
		"of the host", name, len(t.Steps), report.Bytes(t.PeakBytes()), report.Bytes(t.Persistent.Sum()),
		report.Bytes(t.Layout.Bytes), report.Bytes(p.HostPeak))
	return sel.BudgetFlags.FinishMoves(a, p)
}

// writeTrace writes a step in a format.
func writeTrace(a *cli.App, p *memopt.Plan, t *timeline.Timeline, format, out string, rewritten bool) error {
	switch format {
	case modelExplorerFormat:
		return writeOverlays(a, t, out)
	case torchSnapshotFormat:
		return a.StreamArtefact("--out", out, func(w io.Writer) error { return torchsnapshot.Write(w, t) })
	}
	h := report.TimelineHeader{StructureSHA256: p.Of.StructureSHA256, Dims: p.Of.Dims, Costs: p.ProfileName(),
		Rewritten: rewritten}
	if r := recompute.RecordOf(p.Model); r != nil && r.MovedRecord != nil {
		h.Link = r.Link
	}
	return a.StreamArtefact("--out", out, func(w io.Writer) error { return report.PlanTrace(w, t, h) })
}

// writeOverlays writes a folder with a file for each measure, or leaves no folder.
func writeOverlays(a *cli.App, t *timeline.Timeline, out string) error {
	folder, err := fileio.CreateFolder(filepath.Clean(out))
	if err != nil {
		return cli.Usage("--out: %w", err)
	}
	defer folder.Discard()
	for i := range report.Overlays {
		o := &report.Overlays[i]
		err := folder.Write(o.Name+".json", func(w io.Writer) error { return report.WriteOverlay(w, t, o) })
		if err != nil {
			return cli.Usage("--out: %w", err)
		}
	}
	if err := folder.Commit(); err != nil {
		return cli.Usage("--out: %w", err)
	}
	return nil
}
