package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/autograd"
	"memopt/graph/onnx"
	"memopt/report"
)

// gradFlags are the flags of grad.
type gradFlags struct {
	out, external  string
	loss           []string
	params, noGrad []string
	outputs        []string
	inputs         bool
	optimizer      optimizerFlags
	lossScale      string
}

func (a *app) gradCommand() *cobra.Command {
	var gf gradFlags
	cmd := &cobra.Command{
		Use:   "grad MODEL -o OUT",
		Short: "Make a training graph of a forward model",
		Long: `grad differentiates a forward model. The file that it writes has the original
outputs, first and unchanged, then NAME_grad for every parameter, in the order
of the parameters. It uses only ONNX's own operators, so any runtime can run
it.

The loss is the first scalar float output; outputs of loss operators come
first. The parameters are all float initializers that the loss depends on, and
all float inputs of static shape, except for data: inputs with as many rows as
an input that holds integers or has a symbol among its dims. --params and
--no-grad select by globs (* matches any characters). Other inputs get
gradients if --params names them.

--outputs names the original outputs to keep. An output that training does not
need, such as the logits beside the loss, otherwise stays in memory to the end
of the step.`,
		Example: `  memopt grad model.onnx -o train.onnx
        gradients of the loss with respect to all parameters
  memopt grad model.onnx -o train.onnx --params '*.weight' --no-grad 'embed.*'
        with respect to some parameters only
  memopt grad model.onnx -o train.onnx --loss main --loss aux=0.4
        of a weighted sum of two losses
  memopt grad model.onnx -o train.onnx --loss logits=seed
        of an output of any shape; its gradient is the input logits_grad_seed
  memopt grad model.onnx -o train.onnx --outputs loss
        without the other outputs, which would occupy memory throughout the backward half
  memopt grad model.onnx -o step.onnx --optimizer adamw --lr 3e-4 --weight-decay 0.01
        a whole training step`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := gf.optimizer.check(); err != nil {
				return err
			}
			return a.grad(args[0], &gf)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&gf.out, "out", "o", "", "where to write the training graph; - is standard output")
	f.StringVar(&gf.external, "external-data", "", "move tensors of at least this size to OUT.data, for example 1MiB")
	f.StringArrayVar(&gf.loss, "loss",
		nil, "what to differentiate: NAME, NAME=WEIGHT, or NAME=seed for an output whose gradient "+
			"is an input (repeatable)")
	f.StringSliceVar(&gf.params, "params", nil, "globs of the inputs and initializers whose gradients are wanted")
	f.StringSliceVar(&gf.noGrad, "no-grad", nil, "globs of parameters to leave out")
	f.StringSliceVar(&gf.outputs, "outputs", nil,
		"globs of the outputs to keep; the others are dropped, with the nodes that only they need")
	f.BoolVar(&gf.inputs, "input-grads", false, "take float inputs of any shape as parameters too")
	gf.optimizer.register(f, "")
	f.StringVar(&gf.lossScale, "loss-scale", "",
		"add an input of this name, a float scalar that scales all gradients, for float16; the "+
			"optimizer divides by it again")
	return cmd
}

// options makes autograd's options of the flags.
func (gf *gradFlags) options() (autograd.Options, error) {
	o := autograd.Options{Params: gf.params, NoGrad: gf.noGrad, AllInputs: gf.inputs,
		Outputs: gf.outputs}
	for _, text := range gf.loss {
		l := autograd.Loss{Name: text}
		if at := strings.LastIndexByte(text, '='); at > 0 {
			value := text[at+1:]
			w, err := strconv.ParseFloat(value, 64)
			switch {
			case value == "seed":
				l = autograd.Loss{Name: text[:at], Seed: true}
			case err == nil && !math.IsNaN(w) && !math.IsInf(w, 0):
				l = autograd.Loss{Name: text[:at], Weight: w}
			default:
				return o, usage("--loss %q: wanted NAME, NAME=WEIGHT with a finite weight, or NAME=seed", text)
			}
		}
		o.Losses = append(o.Losses, l)
	}
	o.LossScale = gf.lossScale
	return o, nil
}

func (a *app) grad(name string, gf *gradFlags) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	if gf.out == "" {
		return usage("grad: -o OUT is missing: name the file for the training graph")
	}
	threshold, err := parseThreshold(gf.external)
	if err != nil {
		return err
	}
	opts, err := gf.options()
	if err != nil {
		return err
	}
	l, err := a.load(name)
	if err != nil {
		return err
	}
	defer l.Close()
	step, j, err := l.Differentiate(opts, gf.optimizer.update())
	if err != nil {
		return classifyGrad(name, err)
	}
	a.noteGrad(j)
	if err := a.writeModel(gf.out, step.Model, onnx.Options{ExternalDataThreshold: threshold}); err != nil {
		return err
	}
	w := a.out
	if gf.out == "-" {
		w = a.err
	}
	return report.Grad(w, format, gf.out, l.Model, j)
}

// noteGrad reports what was decided without being asked for.
func (a *app) noteGrad(j *autograd.Joint) {
	for _, c := range j.Changes {
		a.warn("%s", c)
	}
	if len(j.DataInputs) > 0 {
		a.warn("treated as data, because they have as many rows as the data inputs: %s (name what "+
			"gets gradients with memopt grad --params)", strings.Join(j.DataInputs, ", "))
	}
	if len(j.GuessedInputs) > 0 {
		a.warn("treated as parameters, because their shapes are static: the inputs %s (leave out "+
			"data with memopt grad --no-grad)", strings.Join(j.GuessedInputs, ", "))
	}
	if n := len(j.Unreached); n > 0 {
		a.warn("the loss does not depend on %d parameters, whose gradients are zeros: %s",
			n, strings.Join(j.Unreached, ", "))
	}
}

// classifyGrad gives an error of differentiation its code.
func classifyGrad(name string, err error) error {
	var none *autograd.NoRule
	var fault *memopt.Error
	if errors.As(err, &fault) {
		return classify(err)
	}
	if errors.Is(err, autograd.ErrNoLoss) {
		err = fmt.Errorf("%w (make the training graph with memopt grad -o train.onnx --loss NAME, "+
			"or NAME=seed for an output of any shape)", err)
	}
	switch {
	case errors.As(err, &none), errors.Is(err, autograd.ErrNoLoss), errors.Is(err, autograd.ErrBackward):
		return invalid(wrap(name, err))
	}
	return usage("%w", wrap(name, err))
}

// training makes a training graph from a forward model, with the optimizer that the flags describe;
// a training graph is returned as it is.
func (a *app) training(m *memopt.Model, sel *selectionFlags) (*memopt.Model, error) {
	step, how, err := m.Training(sel.optimizer.update())
	if err != nil {
		return nil, classifyGrad(m.Path, err)
	}
	if how == nil {
		return step, sel.optimizer.refuse(m.Path)
	}
	a.noteGrad(how)
	return step, nil
}
