package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/internal/fileio"
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

var traceFormats = []string{perfettoFormat, torchSnapshotFormat, modelExplorerFormat}

func (a *app) traceCommand() *cobra.Command {
	var sel selectionFlags
	var format, out string
	var baseline bool
	cmd := &cobra.Command{
		Use:   "trace MODEL -o OUT",
		Short: "Write the predicted step for the viewers that people have",
		Long: `trace writes a step that has not run: what is live at which node, for what,
and how long the nodes take, as estimated or as --cost says.

-F perfetto writes a trace for ui.perfetto.dev and chrome://tracing: nodes and
phases on tracks, live bytes by kind as counters, and arrows from a node to its
recomputation. Its times are estimates, so --cost refuses it.

-F torch-snapshot writes a snapshot of PyTorch's allocator for
pytorch.org/memory_viz: the blocks of the arena with what lies in them, who
makes it, who reads it last, and the layer. Each kind has a colour.

-F model-explorer writes a folder of node data for Model Explorer, a file for
each measure, to be laid over the file that apply writes with the same flags:
bytes, peak-bytes, live-bytes, decision and milliseconds.

The flags that select what is recomputed say which plan is traced; without them
it is the graph as it is.`,
		Example: `  memopt trace model.onnx --dim batch=8,seq=1024 -o step.json
        the step as it is, for ui.perfetto.dev
  memopt trace model.onnx --budget 60% -F torch-snapshot -o snapshot.pickle
        a plan to a budget, for pytorch.org/memory_viz
  memopt trace model.onnx --level 1 -F model-explorer -o overlays
        what level 1 does, as overlays for Model Explorer
  memopt trace model.onnx --budget 60% --baseline -F torch-snapshot -o before.pickle
        the graph that the plan is compared with`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := report.ParseFormat(a.global.output); err != nil {
				return usage("%w", err)
			}
			return a.trace(args[0], &sel, format, out, baseline)
		},
	}
	sel.registerGraph(cmd.Flags())
	cmd.Flags().StringVarP(&format, "format", "F", perfettoFormat, "what to write: "+strings.Join(traceFormats, ", "))
	cmd.Flags().StringVarP(&out, "out", "o", "", "where to write it: a file, - for standard output; with "+
		"-F model-explorer a new folder")
	cmd.Flags().BoolVar(&baseline, "baseline", false, "trace the graph as it was given, not what the plan makes of it")
	return cmd
}

// trace writes the step of a plan.
func (a *app) trace(name string, sel *selectionFlags, format, out string, baseline bool) error {
	if !slices.Contains(traceFormats, format) {
		return usage("-F %q: wanted one of %s", format, strings.Join(traceFormats, ", "))
	}
	if out == "" {
		return usage("trace: -o OUT is missing: name the file, or with -F %s the folder, to write", modelExplorerFormat)
	}
	if format == modelExplorerFormat {
		if err := newFolder("-o", "for a file of each measure", out); err != nil {
			return err
		}
	}
	p, c, err := a.makePlan(name, sel, planning{})
	if err != nil {
		return err
	}
	defer p.Of.Close()
	if a.ctx.Err() == nil {
		a.keeper.release() // as apply: a signal during the writing interrupts it
	}
	of := timeline.Of
	if baseline {
		of = timeline.Baseline
	}
	t, err := of(p.Plan)
	if err != nil {
		return classify(wrap(name, err))
	}
	t.Pack(a.ctx)
	if err := a.writeTrace(p, t, format, out, p.Rewrites() && !baseline); err != nil {
		return err
	}
	a.note("%s: step: %s", name, c.step.Text)
	a.note("%s: %d nodes, at the peak %s beside the %s that live throughout, in an arena of %s", name, len(t.Steps),
		report.Bytes(t.PeakBytes()), report.Bytes(t.Persistent.Sum()), report.Bytes(t.Layout.Bytes))
	return sel.budgetFlags.finish(a, p)
}

// writeTrace writes a step in a format.
func (a *app) writeTrace(p *memopt.Plan, t *timeline.Timeline, format, out string, rewritten bool) error {
	switch format {
	case modelExplorerFormat:
		return a.writeOverlays(t, out)
	case torchSnapshotFormat:
		return a.streamArtefact("--out", out, func(w io.Writer) error { return torchsnapshot.Write(w, t) })
	}
	h := report.TimelineHeader{StructureSHA256: p.Of.StructureSHA256, Dims: p.Of.Dims, Costs: p.ProfileName(),
		Rewritten: rewritten}
	return a.streamArtefact("--out", out, func(w io.Writer) error { return report.PlanTrace(w, t, h) })
}

// writeOverlays writes a folder with a file for each measure, or leaves no folder.
func (a *app) writeOverlays(t *timeline.Timeline, out string) error {
	folder, err := fileio.CreateFolder(filepath.Clean(out))
	if err != nil {
		return usage("--out: %w", err)
	}
	defer folder.Discard()
	for i := range report.Overlays {
		o := &report.Overlays[i]
		err := folder.Write(o.Name+".json", func(w io.Writer) error { return report.WriteOverlay(w, t, o) })
		if err != nil {
			return usage("--out: %w", err)
		}
	}
	if err := folder.Commit(); err != nil {
		return usage("--out: %w", err)
	}
	return nil
}
