// Package forwardcmd has the verbs that rewrite a forward model: optimize, quantize.
package forwardcmd

import (
	"errors"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/inference/compare"
	"memopt/symbolic"
	"memopt/view/report"
)

// inferenceFlags are the flags of the verbs that rewrite a forward model.
type inferenceFlags struct {
	out, external string
	opset         int
	freeze        bool
	check         string
	engine        option.EngineFlags // only the backend of these is a flag
	dataDir       string
	init          string
}

func (i *inferenceFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&i.out, "out", "o", "", "where to write the model; - is standard output")
	f.StringVar(&i.external, "external-data", "",
		"move tensors of at least this size to OUT.data, for example 1MiB")
	cli.NumberVar(f, &i.opset, "opset", "", 0, cli.NotNegative,
		"raise the operator set to this version first; 0: it stays")
	f.BoolVar(&i.freeze, "freeze-inputs", false,
		"make constants of initializers that are inputs, too: callers can no longer replace them")
	f.StringVar(&i.check, "check", "auto",
		"on: run both models and compare their outputs; off: do not; auto: compare if --data-dir or "+
			"--dim give all dims")
	f.StringVarP(&i.engine.Backend, "backend", "e", "cpu", "the engine that runs the models for the comparison: cpu "+
		"or ort")
	f.StringVar(&i.dataDir, "data-dir", "",
		"inputs for the comparison, as for run; without it they are made up")
	f.StringVar(&i.init, "init", "random:0", "random:SEED: how inputs and weights without data are made up")
}

// checkFlags refuses contradictions.
func (i *inferenceFlags) checkFlags(verb string) (onnx.Options, error) {
	o := onnx.Options{Apart: true}
	if i.out == "" {
		return o, cli.Usage("%s: -o OUT is missing: name the file for the model", verb)
	}
	switch i.check {
	case "auto", "on", "off":
	default:
		return o, cli.Usage("--check %q: wanted auto, on or off", i.check)
	}
	if i.check == "off" && i.dataDir != "" {
		return o, cli.Usage("--data-dir gives data for the comparison, which --check off leaves out: drop one of them")
	}
	if i.engine.Backend != "cpu" && i.engine.Backend != cli.OrtName {
		return o, cli.Usage("--backend %q: wanted cpu or ort", i.engine.Backend)
	}
	if _, _, err := option.ParseInit(i.init); err != nil {
		return o, err
	}
	var err error
	o.ExternalDataThreshold, err = cli.ParseThreshold(i.external)
	return o, err
}

// splitDefault is the least size of new tensors that go beside a model with external data.
const splitDefault = 1 << 10

// maxModelFile is the most bytes that a file of the format holds: its messages have sizes below 2 GiB.
const maxModelFile = math.MaxInt32

// storage decides where the tensors of the output lie: as the input had them, unless a flag says it.
func (i *inferenceFlags) storage(before, after *graph.Model, o *onnx.Options) error {
	if o.ExternalDataThreshold == 0 && hasExternal(before.Graph) {
		o.ExternalDataThreshold = splitDefault
	}
	if o.ExternalDataThreshold > 0 {
		return nil
	}
	file, _, err := onnx.Size(after)
	if err == nil && file > maxModelFile {
		return cli.Usage("%s: the model takes %s, and a file of the format holds less than 2 GiB: move large tensors "+
			"out of it with --external-data 1MiB", i.out, report.Bytes(file))
	}
	return err
}

// hasExternal reports whether an initializer lies outside the model's file.
func hasExternal(g *graph.Graph) bool {
	for _, v := range g.Initializers {
		if t := g.Values[v].Data; t != nil && t.External != nil {
			return true
		}
	}
	return false
}

// compared runs both models and compares their outputs; nil where the flags do not want it, or where
// dims are not known and it was not asked for.
func compared(a *cli.App, i *inferenceFlags, before, after *memopt.Model, data *dataset.Set,
	within verify.Tolerance) (*compare.Summary, error) {
	if i.check == "off" {
		return nil, nil
	}
	engine, err := i.engine.Engine(a)
	if err != nil {
		return nil, err
	}
	if err := engine.Ready(a.Ctx); err != nil {
		return nil, cli.Classify(err)
	}
	seed, _, err := option.ParseInit(i.init)
	if err != nil {
		return nil, err
	}
	outputs, err := compare.Outputs(a.Ctx, before, after, compare.Options{Engine: engine, Data: data,
		Session: executor.Options{Threads: a.Global.Threads, Seed: uint64(a.Global.Seed)}, Seed: uint64(seed),
		Tolerance: within})
	var unbound *symbolic.UnboundError
	if errors.As(err, &unbound) && i.check == "auto" {
		a.Note("outputs were not compared, because sizes are not known; bind %s with %s",
			strings.Join(unbound.Symbols, ", "), a.BindFlag(before, unbound.Symbols))
		return nil, nil
	}
	if err != nil {
		return nil, cli.ClassifyRun(before.Path, err)
	}
	source := i.init
	if i.dataDir != "" {
		source = i.dataDir
	}
	return compare.Summarize(outputs, source, engine.Name()), nil
}

// writeInference writes the output.
func writeInference(a *cli.App, i *inferenceFlags, before, after *graph.Model, o onnx.Options) error {
	if err := i.storage(before, after, &o); err != nil {
		return err
	}
	return a.WriteModel("--out", i.out, after, o)
}
