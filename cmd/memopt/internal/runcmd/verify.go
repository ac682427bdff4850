package runcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/library"
	"memopt/planner"
	"memopt/recompute"
	"memopt/view/report"
)

// verifyFlags are the flags of verify alone.
type verifyFlags struct {
	bitwise string
	seeds   int
}

func Verify(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var ex option.ExecFlags
	var vf verifyFlags
	cmd := &cobra.Command{
		Use:   "verify MODEL | verify A B",
		Short: "Prove a plan: equal numbers and the promised peak",
		Long: `verify executes the graph as it is and as the plan rewrites it, or two models,
on the same inputs, weights and seeds. It compares every output, by default bit
for bit, and the measured arena with the planned one. With several measured
steps (-r), steps of the two graphs alternate. The slowdown is the median of
the ratios of neighbouring steps, which is meaningful even on a busy machine,
where the ratio of the medians is not. Next to it stands the predicted
slowdown, from the profile of a typical CPU or, better, from times measured on
this machine (--cost). One step of each graph warms up first (--warmup).

It exits with 0 if all is as promised, with 4 if numbers differ (the first
value that differs is named), and with 5 if the measured arena is larger than
the planned one.

With -e ort, ONNX Runtime executes both files; the planned one is the output of
apply. The peak of its arena is compared with the simulated peak. ONNX Runtime
may optimize the two graphs differently, so outputs are compared within the
tolerance; with --ort-opt basic or disable, they are equal bit for bit
(--bitwise on).`,
		Example: `  memopt verify example:mlp --level 1 --dim batch=64 --init random:1
        a built-in training graph and its rewritten form
  memopt verify model.onnx --config config.json --data-dir test_data_set_0
        the effect of a configuration, on given inputs
  memopt run model.onnx --level 0 --init random:1 -r 5 --profile times.json
  memopt verify model.onnx --level 1 --init random:1 -r 5 --cost times.json
        predict the slowdown from times on this machine, then measure it
  memopt verify model.onnx --budget 60% --init random:1 -e ort -r 5
        the saving of the plan in stock ONNX Runtime
  memopt verify model.onnx rewritten.onnx --data-dir test_data_set_0 --seeds 3
        two files, on three sets of inputs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.Usage("memopt verify wants one MODEL or two (paths, - or example:NAME), got %d arguments",
					len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return verifyModels(a, args, &sel, &ex, &vf)
		},
	}
	sel.RegisterGraph(cmd.Flags())
	ex.Register(cmd.Flags())
	cmd.Flags().StringVar(&vf.bitwise, "bitwise", "",
		"on: outputs must be equal bit for bit; off: equal within --atol and --rtol (default on; "+
			"off with -e ort)")
	cli.NumberVar(cmd.Flags(), &vf.seeds, "seeds", "",
		1, cli.Positive, "number of sets of inputs; after the first, --init generates each set anew")
	return cmd
}

func (vf *verifyFlags) check() error {
	if vf.bitwise != "" && vf.bitwise != "on" && vf.bitwise != "off" {
		return cli.Usage("--bitwise %q: wanted on or off", vf.bitwise)
	}
	return nil
}

func verifyModels(a *cli.App, args []string, sel *option.SelectionFlags, ex *option.ExecFlags, vf *verifyFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if err := vf.check(); err != nil {
		return err
	}
	opts, err := ex.Options(a)
	if err != nil {
		return err
	}
	traits := opts.Engine.Traits()
	ex.Differentiate = len(args) == 1
	how := option.Planning{Bare: len(args) == 2}
	if how.Bare {
		if sel.Level != "" || sel.Config != "" || sel.Plan != "" || sel.Probe != "" || sel.BudgetFlags.Asks() ||
			sel.Step.Asks() || len(sel.States) > 0 {
			return cli.Usage("verify A B compares two models as they are: --level, --config, --plan, --budget, " +
				"--probe, --outputs, --optimizer, --state and the like are for one model")
		}
	}
	x, err := PrepareExecution(a, args[0], sel, ex, traits, how)
	if err != nil {
		return err
	}
	defer x.Of.Close()
	var recorded *planner.Cuts // of files that are compared
	if len(args) == 2 {
		other, err := PrepareExecution(a, args[1], &option.SelectionFlags{Order: sel.Order}, ex, traits, how)
		if err != nil {
			return err
		}
		defer other.Of.Close()
		recorded = cutsOf(x.Of, other.Of)
		x.Against(other.Execution)
		if err := load.CheckDims(a, x.Of, other.Of); err != nil {
			return err
		}
	}
	v := &report.VerifyView{
		Bitwise: vf.bitwise == "on" || vf.bitwise == "" && !traits.Reorders, Unchanged: !x.Changed(),
		Asked: !how.Bare && asks(sel, a),
	}
	if x.Plan != nil && len(args) == 1 {
		v.Parts = x.Plan.FissionText()
		v.Bitwise = v.Bitwise && (vf.bitwise == "on" || x.Plan.ExactBits())
	}
	if recorded != nil {
		v.Parts = recorded.Text()
		v.Bitwise = v.Bitwise && (vf.bitwise == "on" || recorded.Exact())
	}
	v.DrawnInParts = drawnInParts(x.Planned.Model.Graph)
	if x.Plan != nil && x.Changed() && len(args) == 1 {
		v.Predicted, v.Profile = 1+x.Plan.Overhead, x.Plan.ProfileName()
		if x.Moving != nil {
			v.Predicted = 1 + x.Moving.Overhead
		}
	}
	if err := verifySeeds(a, args[0], x, ex, vf, v, opts); err != nil {
		return err
	}
	v.Baseline = runView(a, v.Verdict.Baseline, x.Baseline, opts)
	v.Planned = runView(a, v.Verdict.Planned, x.Planned, opts)
	if err := option.SaveOutputs(a, ex, v.Verdict.Planned); err != nil {
		return err
	}
	if err := report.StepLine(a.Out, format, x.step); err != nil {
		return err
	}
	if err := report.Verify(a.Out, format, v); err != nil {
		return err
	}
	if len(args) == 1 && v.Verdict.Equal {
		if err := a.Next(format, afterVerify(a, args[0], v).About(x.step)); err != nil {
			return err
		}
	}
	if err := Verdict(args[0], v, ex.PeakTolerance(opts.Engine)); err != nil {
		return err
	}
	return sel.BudgetFlags.Finish(a, x.Plan)
}

// verifySeeds compares the sides on one set of inputs after the other, up to the first on which
// they differ.
func verifySeeds(a *cli.App,
	name string, x *Execution, ex *option.ExecFlags, vf *verifyFlags, v *report.VerifyView, opts verify.Options,
) error {
	within := ex.Tolerance()
	within.Bitwise = v.Bitwise
	for v.Seeds < vf.seeds {
		if err := x.Generate(ex, int64(v.Seeds), opts.Engine.Traits()); err != nil {
			return err
		}
		opts.Session.Seed = uint64(a.Global.Seed + int64(v.Seeds))
		var err error
		if v.Verdict, err = x.Verify(a.Ctx, opts, within); err != nil {
			return cli.ClassifyRun(name, err)
		}
		if v.Seeds++; !v.Verdict.Equal {
			break
		}
	}
	return nil
}

func runView(a *cli.App, r *verify.Run, side verify.Side, opts verify.Options) report.RunView {
	return report.RunView{Run: r, Backend: opts.Engine.Name(), Steps: opts.Repeat + opts.Warmup, Warmup: opts.Warmup,
		Graph:    side.Model.Graph,
		Backward: side.BackwardNodes(), Planned: !opts.Session.OnDemand, Virtual: opts.Engine.Traits().Virtual,
		Libraries: library.List()}
}

// Verdict is the exit code of a comparison. A baseline in ONNX Runtime has no promise, since the runtime's own order
// decides its peak.
func Verdict(name string, v *report.VerifyView, tolerance float64) error {
	switch {
	case !v.Verdict.Equal:
		return &cli.ExitError{Code: cli.ExitDiffers, Err: fmt.Errorf("%s: the numbers differ: %s", name,
			v.Verdict.First)}
	case v.Planned.Run.Runtime != nil && v.Unchanged:
		return nil
	case v.Planned.Run.Runtime == nil:
		if err := Above(name, "the baseline", &v.Baseline, tolerance); err != nil {
			return err
		}
	}
	return Above(name, "the planned graph", &v.Planned, tolerance)
}

// Above is the error of a run that took more of the arena than was promised, by more than the
// tolerance.
func Above(name, what string, v *report.RunView, tolerance float64) error {
	r := v.Run
	promised, above := r.Above(len(v.Graph.Values), tolerance)
	switch {
	case !above:
		return nil
	case r.Runtime == nil:
		return &cli.ExitError{Code: cli.ExitAbove,
			Err: fmt.Errorf("%s: %s took an arena of %d bytes, but %d were planned", name, what, r.Measured.Arena,
				promised)}
	}
	return &cli.ExitError{Code: cli.ExitAbove,
		Err: fmt.Errorf("%s: in ONNX Runtime %s the planned graph took %s of the arena, but %s were "+
			"predicted (%d and %d bytes; --peak-tolerance %g)",
			name, r.Runtime.Version, report.Bytes(r.Measured.Arena), report.Bytes(promised), r.Measured.Arena,
			promised, tolerance)}
}

// afterVerify writes the file that was verified.
func afterVerify(a *cli.App, name string, v *report.VerifyView) *cli.NextCommand {
	if v.Unchanged {
		return &cli.NextCommand{Verb: "plan", Args: []string{name}, Drop: cli.OfSelection}
	}
	return cli.Applied(name)
}

// cutsOf returns the chunked regions that memopt has recorded in files; nil means that it recorded no region.
func cutsOf(files ...*memopt.Model) *planner.Cuts {
	var all planner.Cuts
	for _, m := range files {
		if r := recompute.RecordOf(m.Model); r != nil {
			all.List = append(all.List, planner.ReadCuts(r.InParts())...)
		}
	}
	if all.List == nil {
		return nil
	}
	return &all
}

// drawnInParts counts the random nodes that draw for a part of another one.
func drawnInParts(g *graph.Graph) (n int) {
	for _, node := range g.Nodes {
		if _, ok, err := op.DrawsOf(node); ok && err == nil {
			n++
		}
	}
	return n
}
