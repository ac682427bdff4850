package forwardcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/verify"
	"memopt/inference/compare"
	"memopt/inference/optimize"
	"memopt/view/report"
)

// optimizeFlags are the flags of optimize.
type optimizeFlags struct {
	inferenceFlags
	skip      []string
	exact     bool
	inference bool
	growth    string
	within    verify.Tolerance
}

func Optimize(a *cli.App) *cobra.Command {
	var of optimizeFlags
	cmd := &cobra.Command{
		Use:   "optimize MODEL -o OUT",
		Short: "Write a forward model with fewer nodes: constants folded, operators fused",
		Long: `optimize computes values that depend on constants or on fixed shapes once,
removes nodes without effect, merges equal nodes and constants, and writes
operators in place of the nodes that together compute them: norms of batches go
into convolutions, products and sums become Gemm, decomposed norms and
activations the operators that the model's operator set has (--opset raises
it). Only ONNX's own operators are used, so that every runtime reads the file.

Both models are run on the same data, made up or given (--data-dir), and their
outputs compared: the largest differences are printed, and where one is beyond
--atol and --rtol, no file is written and the exit code is 4. The table says
which passes keep all bits and which may change the last ones; --exact leaves
out the latter. Without --dim for the symbols of a model there is no data and
no comparison.

The file does not grow: constants that are larger than the nodes that they
replace stay as they are (--growth). Nodes in training mode stay, too, unless
--inference asks for the form for evaluation. A training graph is refused.`,
		Example: `  memopt optimize model.onnx -o smaller.onnx --dim batch=1
        optimize, and compare the outputs on made-up data
  memopt optimize model.onnx -o smaller.onnx --opset 20 --data-dir test_data_set_0
        with LayerNormalization and Gelu, compared on given data
  memopt optimize model.onnx -o smaller.onnx --exact --check off
        only passes that keep every bit
  memopt optimize model.onnx -o smaller.onnx --dim batch=1 -e ort
        compared in stock ONNX Runtime`,
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error { return optimizeModel(a, args[0], &of) },
	}
	f := cmd.Flags()
	of.register(f)
	f.StringSliceVar(&of.skip, "skip", nil, "leave out passes: globs of names (constants, targets, identities, "+
		"chains, duplicates, affine, products, patterns)")
	f.BoolVar(&of.exact, "exact", false, "leave out passes that may change bits")
	f.BoolVar(&of.inference, "inference", false, "first make the form for evaluation: Dropout drops no element, "+
		"norms take the running statistics")
	cli.NumberVar(f, &of.within.Abs, "atol", "", verify.DefaultTolerance.Abs, cli.NotNegative, "absolute tolerance")
	cli.NumberVar(f, &of.within.Rel, "rtol", "", verify.DefaultTolerance.Rel, cli.NotNegative, "relative tolerance")
	f.StringVar(&of.growth, "growth", "0", "by how much a constant may be larger than the nodes that it replaces, "+
		"for example 1MiB")
	return cmd
}

func optimizeModel(a *cli.App, name string, of *optimizeFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	storage, err := of.checkFlags("optimize")
	if err != nil {
		return err
	}
	o := optimize.Options{Skip: of.skip, Exact: of.exact, Inference: of.inference, Opset: int64(of.opset),
		FreezeInputs: of.freeze, Threads: a.Global.Threads}
	if err := o.CheckSkip(); err != nil {
		return cli.Usage("--skip: %w", err)
	}
	if o.Growth, err = report.ParseBytes(of.growth); err != nil || o.Growth < 0 {
		return cli.Usage("--growth %q: wanted a size such as 0 or 1MiB", of.growth)
	}
	m, err := load.Model(a, name, load.Reading{})
	if err != nil {
		return err
	}
	defer m.Close()
	data, err := option.LoadData(a, m, of.dataDir)
	if err != nil {
		return err
	}
	r, err := optimize.Run(a.Ctx, m, o)
	if err != nil {
		return cli.Classify(err)
	}
	for _, c := range r.Changes {
		a.Note("%s", c)
	}
	if r.Trains > 0 && !of.inference {
		a.Note("nodes in training mode, which stay so: %d; --inference makes the form for evaluation", r.Trains)
	}
	compared, err := compared(a, &of.inferenceFlags, r.Start, r.Model, data, of.within)
	if err != nil {
		return err
	}
	if err := differs(name, compared); err != nil {
		return err
	}
	if err := writeInference(a, &of.inferenceFlags, m.Model, r.Model.Model, storage); err != nil {
		return err
	}
	w := a.Out
	if of.out == cli.StreamName {
		w = a.Err
	}
	if err := optimize.Report(w, format, optimize.View{Result: r, Model: name, Out: of.out, Compared: compared,
		All: a.Global.Verbose}); err != nil {
		return err
	}
	return a.Next(format, &cli.NextCommand{Verb: "inspect", Args: []string{of.out}, Bare: true})
}

// differs is the error of outputs that are not equal within the tolerance.
func differs(name string, s *compare.Summary) error {
	if s == nil || s.Equal {
		return nil
	}
	return &cli.ExitError{Code: cli.ExitDiffers,
		Err: fmt.Errorf("%s: the numbers differ beyond --atol and --rtol, and no file was written: "+
			"%s", name, s.First())}
}
