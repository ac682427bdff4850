package runcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor"
	"memopt/executor/verify"
	"memopt/view/report"
)

func Run(a *cli.App) *cobra.Command {
	var sel option.SelectionFlags
	var ex option.ExecFlags
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

Inputs come from --data-dir; --init random:SEED generates inputs and weights
that have no data: norm scales are 1, biases 0, indices lie within the tables
that they index, and weights are normally distributed with standard deviation
0.02.

With -e ort, ONNX Runtime executes the file that apply writes, in a process of
its own: the count of its arena and the growth of that process are measured.
Next values of states are bound to the old ones' buffers, where these have been
read by then, or to second buffers; the report says how much that costs. The
library is found through MEMOPT_ORT_LIB, or where npm, pip and the system
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
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			return runModel(a, args[0], &sel, &ex, phases, profile)
		},
	}
	sel.RegisterGraph(cmd.Flags())
	ex.Register(cmd.Flags())
	cmd.Flags().BoolVar(&phases, "phases", false, "print the memory at the end of the forward and "+
		"of the backward half")
	cmd.Flags().StringVar(&profile, "profile", "", "write a Chrome trace of every node and the live bytes")
	return cmd
}

func runModel(a *cli.App, name string, sel *option.SelectionFlags, ex *option.ExecFlags, phases bool,
	profile string) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	opts, err := ex.Options(a)
	if err != nil {
		return err
	}
	traits := opts.Engine.Traits()
	if traits.Reorders && (phases || profile != "") {
		return cli.Usage("--phases and --profile observe every node, which -e ort does not allow; use " +
			"memopt's own executor (-e cpu)")
	}
	x, err := PrepareExecution(a, name, sel, ex, traits, option.Planning{})
	if err != nil {
		return err
	}
	defer x.Of.Close()
	if err := x.Generate(ex, 0, traits); err != nil {
		return err
	}
	noteExecuted(a, name, x)
	var obs *observer
	if phases || profile != "" {
		obs = NewObserver(x)
		opts.Session.Observer = obs
	}
	var trace *profileFile
	if profile != "" {
		if trace, err = startProfile(a, profile); err != nil {
			return err
		}
		defer trace.discard()
		obs.TraceTo(trace, x, opts.Engine.Name(), executor.Threads(opts.Session.Threads))
	}
	// A data set expects the outputs of one step for its inputs.
	opts.Independent = opts.Independent || len(x.Expected()) > 0
	opts.Session.AdoptStates = !opts.Independent && opts.Warmup == 0
	r, err := x.Run(a.Ctx, opts)
	if err != nil {
		return cli.ClassifyRun(name, err)
	}
	v := runView(a, r, x.Planned, opts)
	v.Listed = a.ListLimit()
	if phases {
		v.Phases = obs.Phases()
	}
	if profile != "" {
		if err := commitProfile(a, trace, obs.Trace); err != nil {
			return err
		}
	}
	var first *verify.Difference
	if !v.Virtual {
		if err := option.SaveOutputs(a, ex, r); err != nil {
			return err
		}
		first = v.Checked(x.Expected(), ex.Tolerance())
	}
	if err := report.StepLine(a.Out, format, x.step); err != nil {
		return err
	}
	if err := report.RunReport(a.Out, format, &v); err != nil {
		return err
	}
	if err := a.Next(format, afterRun(a, name, sel, x).About(x.step)); err != nil {
		return err
	}
	if first != nil {
		return &cli.ExitError{Code: cli.ExitDiffers, Err: fmt.Errorf("%s: an expected output differs: %s", name, first)}
	}
	if r.Runtime == nil || x.Changed() {
		if err := Above(name, "a step", &v, ex.PeakTolerance(opts.Engine)); err != nil {
			return err
		}
	}
	return sel.BudgetFlags.Finish(a, x.Plan)
}

// noteExecuted notes on the error stream whether a training step is executed, or a forward model as
// it is.
func noteExecuted(a *cli.App, name string, x *Execution) {
	b := x.Planned.BackwardNodes()
	if b == 0 {
		a.Note("%s: the model has no backward half: only its forward half is run; add --level 0 "+
			"to run the training step that memopt grad makes of it", name)
		return
	}
	of := ""
	if x.differentiated {
		of = " that memopt made of the forward model"
	}
	a.Note("%s: running a training step%s: %d nodes forward, %d backward",
		name, of, len(x.Planned.Model.Graph.Nodes)-b, b)
}

// afterRun proves a selection, or makes one.
func afterRun(a *cli.App, name string, sel *option.SelectionFlags, x *Execution) *cli.NextCommand {
	switch {
	case x.Planned.BackwardNodes() == 0:
		return nil
	case asks(sel, a) && x.Changed():
		return a.Proved(name, x.file)
	}
	return &cli.NextCommand{Verb: "plan", Args: []string{name}, Drop: cli.OfSelection}
}
