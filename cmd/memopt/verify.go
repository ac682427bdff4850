package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"memopt/executor/verify"
	"memopt/internal/library"
	"memopt/report"
)

// verifyFlags are the flags of verify alone.
type verifyFlags struct {
	bitwise string
	seeds   int
}

func (a *app) verifyCommand() *cobra.Command {
	var sel selectionFlags
	var ex execFlags
	var vf verifyFlags
	cmd := &cobra.Command{
		Use:   "verify MODEL | verify A B",
		Short: "Prove a plan: equal numbers and the promised peak",
		Long: `verify executes the graph as it is and as the plan rewrites it, on the same
inputs, weights and seeds; or two models. It compares every output, by default bit
for bit, and the measured arena with the planned one. Of several measured steps (-r)
one of each graph runs in turn, both graphs being in memory. The slowdown is the median of
the ratios of such neighbours, which means something on a busy machine, where the ratio of
the medians does not; beside it stands the predicted one, by the profile of a typical CPU or,
better, by times of this machine (--cost). One step of each graph warms up first (--warmup).

It ends with 0 where all is as promised, 4 where numbers differ (the first value
that differs is named), 5 where the measured arena is above the planned one.

With -e ort, ONNX Runtime executes both files, the planned one being what apply writes:
the peak of its arena is compared with the one that was simulated. Its
optimizations may treat the two graphs differently, so equal means within the tolerance
there; at --ort-opt basic or disable, --bitwise on holds as well.`,
		Example: `  memopt verify example:mlp --level 1 --dim batch=64 --init random:1
        a built-in training graph and its rewritten self
  memopt verify model.onnx --config config.json --data-dir test_data_set_0
        what a configuration does, on given inputs
  memopt run model.onnx --level 0 --init random:1 -r 5 --profile times.json
  memopt verify model.onnx --level 1 --init random:1 -r 5 --cost times.json
        predict the slowdown from times of this machine, then measure it
  memopt verify model.onnx --budget 60% --init random:1 -e ort -r 5
        what the plan saves in stock ONNX Runtime
  memopt verify model.onnx rewritten.onnx --data-dir test_data_set_0 --seeds 3
        two files, on three sets of inputs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("memopt verify wants one MODEL or two (paths, - or example:NAME), got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.verifyModels(args, &sel, &ex, &vf)
		},
	}
	sel.register(cmd.Flags())
	ex.register(cmd.Flags())
	cmd.Flags().StringVar(&vf.bitwise, "bitwise", "", "on: outputs must be equal bit for bit; off: within --atol and --rtol (default on; off with -e ort)")
	numberVar(cmd.Flags(), &vf.seeds, "seeds", "", 1, positive, "how many sets of inputs; those after the first are made up anew where --init makes up inputs")
	return cmd
}

func (vf *verifyFlags) check() error {
	if vf.bitwise != "" && vf.bitwise != "on" && vf.bitwise != "off" {
		return usage("--bitwise %q: wanted on or off", vf.bitwise)
	}
	return nil
}

func (a *app) verifyModels(args []string, sel *selectionFlags, ex *execFlags, vf *verifyFlags) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	if err := vf.check(); err != nil {
		return err
	}
	opts, err := ex.options(a)
	if err != nil {
		return err
	}
	sel.executes = onCPU(opts.Device)
	ex.differentiate = len(args) == 1
	if len(args) == 2 {
		if sel.level != "" || sel.config != "" || sel.plan != "" || sel.probe != "" || sel.budgetFlags.asks() {
			return usage("verify A B compares two models as they are: --level, --config, --plan, --budget and --probe are for one model")
		}
		sel.bare = true
	}
	x, err := a.prepareExecution(args[0], sel, ex)
	if err != nil {
		return err
	}
	defer x.l.Close()
	if len(args) == 2 {
		other, err := a.prepareExecution(args[1], &selectionFlags{order: sel.order, bare: true}, ex)
		if err != nil {
			return err
		}
		defer other.l.Close()
		x.planned, x.changed = other.planned, true
		if err := a.checkDims(x.l, other.l); err != nil {
			return err
		}
	}
	v := &report.VerifyView{Bitwise: vf.bitwise == "on" || vf.bitwise == "" && !isORT(opts.Device), Unchanged: !x.changed, Asked: sel.asks(a)}
	if x.plan != nil && x.changed && len(args) == 1 {
		v.Predicted, v.Profile = 1+x.plan.Overhead, x.plan.ProfileName()
	}
	runtimes, err := a.verifySeeds(args[0], x, ex, vf, v, opts)
	if err != nil {
		return err
	}
	v.Baseline = a.runView(v.Verdict.Baseline, x.baseline, opts)
	v.Planned = a.runView(v.Verdict.Planned, x.planned, opts)
	v.Baseline.Runtime, v.Planned.Runtime = runtimes.baseline, runtimes.planned
	if err := a.saveOutputs(ex, v.Verdict.Planned); err != nil {
		return err
	}
	if err := report.Verify(a.out, format, v); err != nil {
		return err
	}
	if err := verdict(args[0], v, ex.peakTolerance(opts.Device)); err != nil {
		return err
	}
	return sel.budgetFlags.finish(a, x.plan)
}

// verifySeeds compares the sides on one set of inputs after the other, up to the first on which
// they differ.
func (a *app) verifySeeds(name string, x *execution, ex *execFlags, vf *verifyFlags, v *report.VerifyView, opts verify.Options) (runtimes ortSides, err error) {
	for v.Seeds < vf.seeds {
		if err := x.fill(ex, int64(v.Seeds), opts.Device); err != nil {
			return runtimes, err
		}
		opts.Session.Seed = uint64(a.global.seed + int64(v.Seeds))
		if v.Verdict, runtimes, err = a.verifyOnce(x, ex, v.Bitwise, opts); err != nil {
			return runtimes, classifyRun(name, err)
		}
		if v.Seeds++; !v.Verdict.Equal {
			break
		}
	}
	return runtimes, nil
}

func (a *app) verifyOnce(x *execution, ex *execFlags, bitwise bool, opts verify.Options) (*verify.Verdict, ortSides, error) {
	tol := ex.tolerance()
	tol.Bitwise = bitwise
	if isORT(opts.Device) {
		return a.verifyORT(x, ex, tol, opts)
	}
	v, err := verify.Verify(a.ctx, x.baseline, x.planned, x.inputs, opts, tol)
	return v, ortSides{}, err
}

func (a *app) runView(r *verify.Run, side verify.Side, opts verify.Options) report.RunView {
	return report.RunView{Run: r, Backend: opts.Device.Name(), Steps: opts.Repeat + opts.Warmup, Warmup: opts.Warmup, Graph: side.Model.Graph,
		Backward: backwardNodes(side), Planned: !opts.Session.OnDemand, Virtual: virtual(opts.Device), Libraries: library.List()}
}

// verdict is the exit code of a comparison.
func verdict(name string, v *report.VerifyView, tolerance float64) error {
	switch {
	case !v.Verdict.Equal:
		return &exitError{exitDiffers, fmt.Errorf("%s: the numbers differ: %s", name, v.Verdict.First)}
	case v.Planned.Runtime != nil && v.Unchanged:
		return nil
	case v.Planned.Runtime != nil:
		return aboveORT(name, v.Verdict.Planned, v.Planned.Runtime, len(v.Planned.Graph.Values), tolerance)
	}
	if err := abovePlan(name, "the baseline", v.Verdict.Baseline, tolerance); err != nil {
		return err
	}
	return abovePlan(name, "the planned graph", v.Verdict.Planned, tolerance)
}

// abovePlan is the error of a run that took more of memopt's own arena than was planned, by more
// than the tolerance.
func abovePlan(name, what string, r *verify.Run, tolerance float64) error {
	planned, measured := r.Predicted.Arena, r.Measured.Arena
	if float64(measured) <= float64(planned)*(1+tolerance) {
		return nil
	}
	return &exitError{exitAbove, fmt.Errorf("%s: %s took an arena of %d bytes, %d were planned", name, what, measured, planned)}
}
