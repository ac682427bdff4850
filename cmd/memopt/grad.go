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
	"memopt/symbolic"
)

// gradFlags are the flags of grad.
type gradFlags struct {
	out, applyOut  string
	external       string
	loss           []string
	params, noGrad []string
	inputs         bool
	training       trainingFlags
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
of the step.

Norms, GELUs and softmaxes that are written in many nodes get the gradient of
one operator, which keeps fewer activations and rounds otherwise; --fuse=false
differentiates node by node.

--accumulate makes a micro-step: it adds each gradient to the input
NAME_grad_sum, in place, and counts in grad_count; both begin as zeros. With
--optimizer, --apply-out gets the step that divides the sums by the count,
updates the parameters and leaves zeros.`,
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
        a whole training step
  memopt grad model.onnx -o micro.onnx --accumulate --optimizer adamw --apply-out apply.onnx
        for batches in parts: a step that adds up gradients, and one that applies them`,
		Args: exactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := gf.check(); err != nil {
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
	f.BoolVar(&gf.inputs, "input-grads", false, "take float inputs of any shape as parameters too")
	gf.training.register(f, "")
	f.StringVar(&gf.applyOut, "apply-out", "", "with --accumulate and --optimizer: where to write the "+
		"step that updates the parameters by the sums")
	f.StringVar(&gf.lossScale, "loss-scale", "",
		"add an input of this name, a float scalar that scales all gradients, for float16; the "+
			"optimizer divides by it again")
	return cmd
}

// check refuses flags that do not go together.
func (gf *gradFlags) check() error {
	t := &gf.training
	if err := t.optimizer.check(); err != nil {
		return err
	}
	switch {
	case t.accumulate && t.optimizer.kind != "" && gf.applyOut == "":
		return usage("grad --accumulate --optimizer %s makes two steps: -o gets the micro-step, and "+
			"--apply-out, which is missing, names the file for the step that updates", t.optimizer.kind)
	case gf.applyOut != "" && !(t.accumulate && t.optimizer.kind != ""):
		return usage("--apply-out is for the update of accumulated gradients: add --accumulate and --optimizer " +
			"sgd, " +
			"adam or adamw")
	case gf.out == streamName && gf.applyOut == streamName:
		return usage("-o and --apply-out are both standard output: name a file for one of them")
	}
	return nil
}

// options makes autograd's options of the flags.
func (gf *gradFlags) options() (autograd.Options, error) {
	o := gf.training.options()
	o.Params, o.NoGrad, o.AllInputs = gf.params, gf.noGrad, gf.inputs
	for _, text := range gf.loss {
		l, err := parseLoss(text)
		if err != nil {
			return o, err
		}
		o.Losses = append(o.Losses, l)
	}
	o.LossScale = gf.lossScale
	return o, nil
}

// parseLoss reads NAME, NAME=WEIGHT or NAME=seed.
func parseLoss(text string) (autograd.Loss, error) {
	at := strings.LastIndexByte(text, '=')
	if at <= 0 {
		return autograd.Loss{Name: text}, nil
	}
	value := text[at+1:]
	if value == "seed" {
		return autograd.Loss{Name: text[:at], Seed: true}, nil
	}
	w, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(w) || math.IsInf(w, 0) {
		return autograd.Loss{}, usage("--loss %q: wanted NAME, NAME=WEIGHT with a finite weight, or NAME=seed", text)
	}
	return autograd.Loss{Name: text[:at], Weight: w}, nil
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
	step, apply, j, err := gf.steps(l, opts)
	if err != nil {
		return classifyGrad(name, err)
	}
	a.noteGrad(j)
	o := onnx.Options{ExternalDataThreshold: threshold}
	if err := a.writeModel("--out", gf.out, step.Model, o); err != nil {
		return err
	}
	if apply != nil {
		if err := a.writeModel("--apply-out", gf.applyOut, apply.Model, o); err != nil {
			return err
		}
	}
	w := a.out
	if gf.out == streamName || gf.applyOut == streamName {
		w = a.err
	}
	return report.Grad(w, format, gf.out, gf.applyOut, l.Model, j)
}

// steps makes the training step, or the micro-step and the step that applies what it adds up.
func (gf *gradFlags) steps(l *memopt.Model, o autograd.Options) (step, apply *memopt.Model,
	j *autograd.Joint, err error) {
	update := gf.training.optimizer.update()
	if o.Accumulate && update != nil {
		return l.Accumulate(o, *update)
	}
	step, j, err = l.Differentiate(o, update)
	return step, nil, j, err
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

// training makes a training graph from a forward model, as the flags describe; a training graph is
// returned as it is. Of accumulation it is the micro-step, whose memory is to be planned: the other
// step has no activations.
func (a *app) training(m *memopt.Model, sel *selectionFlags) (*memopt.Model, error) {
	t := &sel.training
	update := t.optimizer.update()
	appended := update
	if t.accumulate {
		appended = nil
	}
	step, how, err := m.Training(t.options(), appended)
	if err != nil {
		return nil, classifyGrad(m.Path, err)
	}
	if how == nil {
		return step, t.refuse(m.Path)
	}
	a.noteGrad(how)
	if t.accumulate && update != nil {
		err = a.noteUpdate(how, *update)
	}
	return step, err
}

// noteUpdate says what the step that updates keeps on the device while micro-steps run.
func (a *app) noteUpdate(micro *autograd.Joint, o autograd.Optimizer) error {
	apply, err := autograd.UpdateStep(micro, o)
	if err != nil {
		return usage("%w", err)
	}
	var sum symbolic.Expr
	for _, d := range apply.Model.Graph.Inputs {
		if _, shared := micro.Model.Graph.Lookup(apply.Model.Graph.ValueName(d.Value)); !shared {
			sum = sum.Add(d.Type.Bytes())
		}
	}
	text := sum.String() + " bytes"
	if n, ok := sum.Const(); ok {
		text = report.Bytes(n)
	}
	a.note("planning the micro-step; the step that applies the sums (grad --apply-out) has %s of "+
		"optimizer state, which is on the device throughout, in addition", text)
	return nil
}
