package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	optimizer      string
	lr             float64
	weightDecay    float64
	momentum       float64
	nesterov       bool
	beta1, beta2   float64
	eps            float64
	clip           float64
	lossScale      string
	keepGrads      bool
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := gf.checkOptimizer(cmd.Flags()); err != nil {
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
	f.StringVar(&gf.optimizer, "optimizer", "", "append an optimizer that updates the parameters: "+
		"sgd, adam or adamw")
	numberVar(f, &gf.lr, "lr", "", 0, notNegative, "learning rate; 0: a graph input named lr")
	numberVar(f, &gf.weightDecay, "weight-decay", "", 0, notNegative, "weight decay, as PyTorch's optimizers define it")
	numberVar(f, &gf.momentum, "momentum", "", 0, notNegative, "momentum of sgd")
	f.BoolVar(&gf.nesterov, "nesterov", false, "Nesterov's momentum, for sgd")
	numberVar(f, &gf.beta1, "beta1", "", 0, shareBelow1, "of adam and adamw; 0: 0.9")
	numberVar(f, &gf.beta2, "beta2", "", 0, shareBelow1, "of adam and adamw; 0: 0.999")
	numberVar(f, &gf.eps, "eps", "", 0, notNegative, "of adam and adamw; 0: 1e-8")
	numberVar(f, &gf.clip, "clip-norm", "", 0, notNegative, "upper bound of the global norm of "+
		"all gradients; 0: none")
	f.StringVar(&gf.lossScale, "loss-scale", "",
		"add an input of this name, a float scalar that scales all gradients, for float16; the "+
			"optimizer divides by it again")
	f.BoolVar(&gf.keepGrads, "keep-grads", false, "with an optimizer, keep the gradients as "+
		"outputs")
	return cmd
}

// checkOptimizer refuses flags of an optimizer without one.
func (gf *gradFlags) checkOptimizer(flags *pflag.FlagSet) error {
	if gf.optimizer != "" {
		return nil
	}
	for _, name := range []string{"lr", "weight-decay", "momentum", "nesterov", "beta1", "beta2", "eps", "clip-norm",
		"keep-grads"} {
		if flags.Changed(name) {
			return usage("--%s configures an optimizer, but there is none: add --optimizer sgd, "+
				"adam or adamw", name)
		}
	}
	return nil
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
	step, j, err := l.Differentiate(opts, gf.update())
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

// update is the optimizer that the flags describe; nil: none.
func (gf *gradFlags) update() *autograd.Optimizer {
	if gf.optimizer == "" {
		return nil
	}
	return &autograd.Optimizer{Kind: gf.optimizer, LR: gf.lr, WeightDecay: gf.weightDecay, Momentum: gf.momentum,
		Nesterov: gf.nesterov, Beta1: gf.beta1, Beta2: gf.beta2, Eps: gf.eps, MaxNorm: gf.clip, KeepGrads: gf.keepGrads}
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

// training makes a training graph from a forward model; a training graph is returned as it is.
func (a *app) training(m *memopt.Model) (*memopt.Model, error) {
	step, how, err := m.Training()
	if err != nil {
		return nil, classifyGrad(m.Path, err)
	}
	if how != nil {
		a.noteGrad(how)
	}
	return step, nil
}
