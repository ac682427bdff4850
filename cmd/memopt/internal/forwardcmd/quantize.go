package forwardcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/verify"
	"memopt/inference/compare"
	"memopt/inference/quantize"
	"memopt/view/report"
)

// quantizeFlags are the flags of quantize.
type quantizeFlags struct {
	inferenceFlags
	weightType  string
	perChannel  bool
	reduceRange bool
	exclude     []string
	inference   bool
	failAbove   float64
}

func Quantize(a *cli.App) *cobra.Command {
	var qf quantizeFlags
	cmd := &cobra.Command{
		Use:   "quantize MODEL -o OUT",
		Short: "Write a forward model with weights of 8 bits (dynamic quantization)",
		Long: `quantize makes the weights of MatMul, Gemm and Gather integers of 8 bits. The
other factor of a product is quantized in every run, so that no data is needed
beforehand. The file has only ONNX's own operators (DynamicQuantizeLinear,
MatMulInteger, DequantizeLinear; operator set 11 or newer, see --opset), in the
forms of onnxruntime.quantization.quantize_dynamic. Before, the passes of
optimize that keep every bit run.

Both models are run on the same data, made up or given (--data-dir), and the
largest differences of the outputs are printed, relative to the largest element
of the output. Data that is made up says little about accuracy: judge by data
of the model's task. Without --dim for the symbols of a model there is no data
and no comparison. With --fail-above, a larger share is an error (exit code 4),
and no file is written.

A weight that several nodes read is quantized for all of them or not at all.
The table lists the nodes that were left alone, with the reasons. A training
graph is refused.`,
		Example: `  memopt quantize model.onnx -o small.onnx --data-dir test_data_set_0
        quantize, and say by how much the outputs differ on given data
  memopt quantize model.onnx -o small.onnx --per-channel --exclude 'lm_head*'
        a scale for each column, and the head in floats
  memopt quantize model.onnx -o small.onnx --weight-type int8 --reduce-range
        symmetric weights that do not saturate on processors without VNNI
  memopt quantize model.onnx -o small.onnx --dim batch=1,seq=16 -e ort
        compared in stock ONNX Runtime`,
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error { return quantizeModel(a, args[0], &qf) },
	}
	f := cmd.Flags()
	qf.register(f)
	f.StringVar(&qf.weightType, "weight-type", "uint8", "uint8 (with a zero point) or int8 (symmetric)")
	f.BoolVar(&qf.perChannel, "per-channel", false, "a scale for each column of a product's weight and each row of "+
		"an embedding")
	f.BoolVar(&qf.reduceRange, "reduce-range", false, "weights of 7 bits: with int8, processors without VNNI "+
		"saturate sums of two products of 8 bits in ONNX Runtime")
	f.StringSliceVar(&qf.exclude, "exclude", nil, "globs of nodes, operators or weights that stay as they are")
	f.BoolVar(&qf.inference, "inference", false, "first make the form for evaluation: Dropout drops no element, "+
		"norms take the running statistics")
	cli.NumberVar(f, &qf.failAbove, "fail-above", "", 0, cli.NotNegative,
		"the largest difference that is accepted, as a "+
			"share of the output's largest element; 0: any")
	return cmd
}

func quantizeModel(a *cli.App, name string, qf *quantizeFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	storage, err := qf.checkFlags("quantize")
	if err != nil {
		return err
	}
	if qf.weightType != "int8" && qf.weightType != "uint8" {
		return cli.Usage("--weight-type %q: wanted uint8 or int8", qf.weightType)
	}
	o := quantize.Options{Signed: qf.weightType == "int8", PerChannel: qf.perChannel,
		ReduceRange: qf.reduceRange, Exclude: qf.exclude}
	o.Prepare.Inference, o.Prepare.Opset, o.Prepare.FreezeInputs = qf.inference, int64(qf.opset), qf.freeze
	o.Prepare.Threads = a.Global.Threads
	m, err := load.Model(a, name, load.Reading{})
	if err != nil {
		return err
	}
	defer m.Close()
	data, err := option.LoadData(a, m, qf.dataDir)
	if err != nil {
		return err
	}
	r, err := quantize.Run(a.Ctx, m, o)
	if err != nil {
		return cli.Classify(err)
	}
	for _, c := range r.Changes {
		a.Note("%s", c)
	}
	if o.Signed && !o.ReduceRange {
		a.Note("with int8 weights of 8 bits, ONNX Runtime gives other numbers on processors without VNNI, where " +
			"sums of two products saturate: try -e ort there, or take uint8 or --reduce-range")
	}
	compared, err := compared(a, &qf.inferenceFlags, r.Start, r.Model, data, verify.Tolerance{})
	if err != nil {
		return err
	}
	if err := qf.tooFar(name, compared); err != nil {
		return err
	}
	if err := writeInference(a, &qf.inferenceFlags, m.Model, r.Model.Model, storage); err != nil {
		return err
	}
	if r.After.Bytes > r.Before.Bytes {
		a.Warn("%s is larger than %s: nodes take more than small weights save; leave weights out with --exclude",
			qf.out, name)
	}
	w := a.Out
	if qf.out == cli.StreamName {
		w = a.Err
	}
	if err := quantize.Report(w, format, quantize.View{Result: r, Options: o, Model: name, Out: qf.out,
		Compared: compared, All: a.Global.Verbose}); err != nil {
		return err
	}
	return a.Next(format, &cli.NextCommand{Verb: "inspect", Args: []string{qf.out}, Bare: true})
}

// tooFar is the error of outputs that differ by more than --fail-above accepts.
func (qf *quantizeFlags) tooFar(name string, s *compare.Summary) error {
	if qf.failAbove == 0 || s == nil {
		return nil
	}
	if output, share := s.Worst(); !(share <= qf.failAbove) {
		return &cli.ExitError{Code: cli.ExitDiffers,
			Err: fmt.Errorf("%s: output %q differs by %.3g of its largest element, above --fail-above %g, and no "+
				"file was written: leave out nodes with --exclude, or try --per-channel", name,
				output, share, qf.failAbove)}
	}
	return nil
}
