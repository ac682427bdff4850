package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"memopt/executor"
	"memopt/executor/verify"
	"memopt/view/report"
)

func (a *app) runCommand() *cobra.Command {
	var sel selectionFlags
	var ex execFlags
	var phases bool
	var profile string
	cmd := &cobra.Command{
		Use:   "run MODEL",
		Short: "Execute a model: time and measured memory",
		Long: `run executes a model, as it is or as a plan rewrites it, and reports the time
of a step and the memory that it needed, next to the prediction.

A forward model is run as it is, which measures inference; with a selection,
even --level 0, run executes the training step that memopt grad makes of the
model. One step warms up before the measured ones (--warmup).

It exits with 4 if an expected output differs, and with 5 if the measured arena
is larger than the planned one.

Weights and other states that the model updates carry over from step to step:
-r 5 makes five updates. The updates of warm-up steps are undone. With
--independent-steps every step starts from the given values; so it does if a data
set has expected outputs.

Inputs come from --data-dir; --init random:SEED generates what has no data:
norm scales are 1, biases 0, indices lie within the tables that they index, and
weights are normally distributed with standard deviation 0.02.

With -e ort, ONNX Runtime executes the file that apply writes, in a process of
its own: what its arena counts and the growth of that process are measured. Next
values of states are bound to the old ones' buffers, where these have been read by
then, or to second buffers; the report says what that costs. The library is found through MEMOPT_ORT_LIB, or where npm, pip and the system
install it.`,
		Example: `  memopt run example:mlp --dim batch=64 --init random:1
        a built-in training graph on generated data
  memopt run model.onnx --data-dir test_data_set_0
        on given inputs; outputs are compared with those in the folder
  memopt run model.onnx --init random:1 -e ort --threads 1 -r 5
        in stock ONNX Runtime
  memopt run model.onnx --data-dir data.npz --level 1 -r 10 --warmup 3
        as level 1 rewrites it, ten measured steps
  memopt run model.onnx --init random:1 --profile trace.json
        a trace of every node for Perfetto or chrome://tracing, and for --cost`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.runModel(args[0], &sel, &ex, phases, profile)
		},
	}
	sel.registerGraph(cmd.Flags())
	ex.register(cmd.Flags())
	cmd.Flags().BoolVar(&phases, "phases", false, "print the memory at the end of the forward and "+
		"of the backward half")
	cmd.Flags().StringVar(&profile, "profile", "", "write a Chrome trace of every node and the live bytes")
	return cmd
}

func (a *app) runModel(name string, sel *selectionFlags, ex *execFlags, phases bool, profile string) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	opts, err := ex.options(a)
	if err != nil {
		return err
	}
	traits := opts.Engine.Traits()
	if traits.Reorders && (phases || profile != "") {
		return usage("--phases and --profile observe every node, which -e ort does not allow; use " +
			"memopt's own executor (-e cpu)")
	}
	x, err := a.prepareExecution(name, sel, ex, traits, planning{})
	if err != nil {
		return err
	}
	defer x.Of.Close()
	if err := x.fill(ex, 0, traits); err != nil {
		return err
	}
	a.noteExecuted(name, x)
	var obs *observer
	if phases || profile != "" {
		obs = newObserver(x)
		opts.Session.Observer = obs
	}
	var trace *profileFile
	if profile != "" {
		if trace, err = a.startProfile(profile); err != nil {
			return err
		}
		defer trace.discard()
		obs.traceTo(trace, x, opts.Engine.Name(), executor.Threads(opts.Session.Threads))
	}
	// What a data set expects is what one step makes of the inputs.
	opts.Independent = opts.Independent || len(x.Expected()) > 0
	opts.Session.AdoptStates = !opts.Independent && opts.Warmup == 0
	r, err := x.Run(a.ctx, opts)
	if err != nil {
		return classifyRun(name, err)
	}
	v := a.runView(r, x.Planned, opts)
	v.Listed = a.listLimit()
	if phases {
		v.Phases = obs.phases()
	}
	if profile != "" {
		if err := a.commitProfile(trace, obs.trace); err != nil {
			return err
		}
	}
	var first *verify.Difference
	if !v.Virtual {
		if err := a.saveOutputs(ex, r); err != nil {
			return err
		}
		first = v.Checked(x.Expected(), ex.tolerance())
	}
	if err := report.StepLine(a.out, format, x.step); err != nil {
		return err
	}
	if err := report.RunReport(a.out, format, &v); err != nil {
		return err
	}
	if err := a.next(format, a.afterRun(name, sel, x).of(x.step)); err != nil {
		return err
	}
	if first != nil {
		return &exitError{exitDiffers, fmt.Errorf("%s: an expected output differs: %s", name, first)}
	}
	if r.Runtime == nil || x.Changed() {
		if err := above(name, "a step", &v, ex.peakTolerance(opts.Engine)); err != nil {
			return err
		}
	}
	return sel.budgetFlags.finish(a, x.Plan)
}

// noteExecuted notes on the error stream whether a training step is executed, or a forward model as
// it is.
func (a *app) noteExecuted(name string, x *execution) {
	b := x.Planned.BackwardNodes()
	if b == 0 {
		a.note("%s: the model has no backward half: only its forward half is run; add --level 0 "+
			"to run the training step that memopt grad makes of it", name)
		return
	}
	of := ""
	if x.differentiated {
		of = " that memopt made of the forward model"
	}
	a.note("%s: running a training step%s: %d nodes forward, %d backward",
		name, of, len(x.Planned.Model.Graph.Nodes)-b, b)
}

// afterRun proves a selection, or makes one.
func (a *app) afterRun(name string, sel *selectionFlags, x *execution) *nextCommand {
	switch {
	case x.Planned.BackwardNodes() == 0:
		return nil
	case sel.asks(a) && x.Changed():
		return a.proved(name, x.file)
	}
	return &nextCommand{verb: "plan", args: []string{name}, drop: ofSelection}
}
