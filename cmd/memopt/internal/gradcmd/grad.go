// Package gradcmd has the verb grad, and the flags that say which training step is made of a forward model, which
// other verbs have, too.
package gradcmd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/graph/onnx"
	"memopt/graph/roles"
	"memopt/train"
	"memopt/view/report"
)

// gradFlags are the flags of grad.
type gradFlags struct {
	out, applyOut string
	external      string
	inputs        bool
	step          StepFlags
	lossScale     string
}

func Grad(a *cli.App) *cobra.Command {
	var gf gradFlags
	cmd := &cobra.Command{
		Use:   "grad MODEL -o OUT",
		Short: "Make a training graph of a forward model",
		Long: `grad differentiates a forward model. The file that it writes has the original
outputs, first and unchanged, then NAME_grad for every parameter, in the order
of the parameters. It uses only ONNX's own operators, so any runtime can run
it.

The loss is the first scalar float output; outputs of loss operators come
first. --loss cross-entropy:logits:labels adds one to a model that makes
logits only, with a new input for the labels.

The parameters are those that the file names (in the signature that PyTorch's
exporter leaves), else the float initializers that are weights by their role,
and the float inputs of static shape that are no data. Constants, such as an
exponent or an epsilon, scales of quantization and running statistics are not
parameters; a line counts them, and -v names each. --params and --freeze select
by globs (* matches any characters); --params may name a value that is no
parameter by its role.

--outputs names the original outputs to keep. An output that training does not
need, such as the logits beside the loss, otherwise stays in memory to the end
of the step.

Norms, GELUs and softmaxes that are written in many nodes get the gradient of
one operator, which keeps fewer activations and rounds otherwise; --fuse=false
differentiates node by node.

--gradient-accumulation-steps makes a micro-step: it adds each gradient to the
input NAME_grad_sum, in place, and counts in grad_count; both begin as zeros. With
--optimizer, --apply-out gets the step that divides the sums by the count,
updates the parameters and leaves zeros.`,
		Example: `  memopt grad model.onnx -o train.onnx
        gradients of the loss with respect to all parameters
  memopt grad model.onnx -o train.onnx --params '*.weight' --freeze 'embed.*'
        with respect to some parameters only
  memopt grad model.onnx -o train.onnx --loss main --loss aux=0.4
        of a weighted sum of two losses
  memopt grad model.onnx -o train.onnx --loss logits=seed
        of an output of any shape; its gradient is the input logits_grad_seed
  memopt grad model.onnx -o train.onnx --loss cross-entropy:logits:labels:shift
        of a loss that is added: the logits of each token against the next label
  memopt grad model.onnx -o train.onnx --outputs loss
        without the other outputs, which would occupy memory throughout the backward half
  memopt grad model.onnx -o step.onnx --optimizer adamw --learning-rate 3e-4 --weight-decay 0.01
        a whole training step
  memopt grad model.onnx -o micro.onnx --gradient-accumulation-steps 4 --optimizer adamw \
      --apply-out apply.onnx
        for batches in parts: a step that adds up gradients, and one that applies them`,
		Args: cli.ExactModel,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := gf.check(); err != nil {
				return err
			}
			return writeGrad(a, args[0], &gf)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&gf.out, "out", "o", "", "where to write the training graph; - is standard output")
	f.StringVar(&gf.external, "external-data", "", "move tensors of at least this size to OUT.data, for example 1MiB")
	f.BoolVar(&gf.inputs, "input-grads", false, "take float inputs of any shape as parameters too")
	gf.step.RegisterGraph(f)
	gf.step.Optimizer.RegisterRate(f)
	f.StringVar(&gf.applyOut, "apply-out", "", "with --gradient-accumulation-steps and --optimizer: where to write "+
		"the step that updates the parameters by the sums")
	f.StringVar(&gf.lossScale, "loss-scale", "",
		"add an input of this name, a float scalar that scales all gradients, for float16; the "+
			"optimizer divides by it again")
	return cmd
}

// check refuses flags that do not go together.
func (gf *gradFlags) check() error {
	s := &gf.step
	if err := s.Check(); err != nil {
		return err
	}
	several := s.accumulate || s.Micros > 1
	switch {
	case several && s.Updates() && gf.applyOut == "":
		return cli.Usage("grad --gradient-accumulation-steps --optimizer %s makes two steps: -o gets the micro-step, "+
			"and --apply-out, which is missing, names the file for the step that updates", s.Optimizer.Kind)
	case gf.applyOut != "" && !(several && s.Updates()):
		return cli.Usage("--apply-out is for the update of accumulated gradients: add --gradient-accumulation-steps "+
			"N and --optimizer %s", autograd.Kinds())
	case gf.out == cli.StreamName && gf.applyOut == cli.StreamName:
		return cli.Usage("-o and --apply-out are both standard output: name a file for one of them")
	}
	return nil
}

// recipe says which step is made.
func (gf *gradFlags) recipe(a *cli.App, m *memopt.Model) (train.Recipe, error) {
	r, err := gf.step.Recipe(m, a.Global.Seed, false)
	r.Differentiate.AllInputs, r.Seeds = gf.inputs, false
	r.LossScale = cmp.Or(gf.lossScale, r.LossScale)
	return r, err
}

func writeGrad(a *cli.App, name string, gf *gradFlags) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if gf.out == "" {
		return cli.Usage("grad: -o OUT is missing: name the file for the training graph")
	}
	threshold, err := cli.ParseThreshold(gf.external)
	if err != nil {
		return err
	}
	l, err := load.Model(a, name, load.Reading{})
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := gf.recipe(a, l)
	if err != nil {
		return err
	}
	if train.HasBackward(l) {
		return ClassifyGrad(name, autograd.ErrBackward)
	}
	s, err := train.MakeStep(l, r)
	if err != nil {
		return ClassifyGrad(name, err)
	}
	NoteGrad(a, s.Joint)
	o := onnx.Options{ExternalDataThreshold: threshold}
	if err := a.WriteModel("--out", gf.out, s.Step.Model, o); err != nil {
		return err
	}
	if s.Update != nil {
		if err := a.WriteModel("--apply-out", gf.applyOut, s.Update.Model, o); err != nil {
			return err
		}
	}
	w := a.Out
	if gf.out == cli.StreamName || gf.applyOut == cli.StreamName {
		w = a.Err
	}
	if err := report.StepLine(w, format, gf.step.Describe(l, s)); err != nil {
		return err
	}
	if err := report.Grad(w, format, gf.out, gf.applyOut, l.Model, s.Joint); err != nil || w == a.Err {
		return err
	}
	return a.Next(format, afterGrad(a, gf.out, s.Step))
}

// NoteGrad reports decisions that no flag asked for.
func NoteGrad(a *cli.App, j *autograd.Joint) {
	for _, c := range j.Changes {
		a.Warn("%s", c)
	}
	if len(j.DataInputs) > 0 {
		a.Warn("treated as data, because they have as many rows as other data, or because the weights are "+
			"initializers: %s (--params names the parameters)", strings.Join(j.DataInputs, ", "))
	}
	if len(j.GuessedInputs) > 0 {
		a.Warn("treated as parameters, because their shapes are static: the inputs %s (leave out "+
			"data with --freeze)", strings.Join(j.GuessedInputs, ", "))
	}
	NoteRoles(a, j)
	if n := len(j.Unreached); n > 0 {
		a.Warn("the loss does not depend on %d parameters, whose gradients are zeros: %s",
			n, strings.Join(j.Unreached, ", "))
	}
}

// NoteRoles names tensors that are no parameters by their roles, and the changes by the exporter.
func NoteRoles(a *cli.App, j *autograd.Joint) {
	if text := untrained(j.Untrained); text != "" {
		a.Note("not trained: %s; --params names them", text)
		for _, u := range j.Untrained {
			if a.Global.Verbose {
				a.Note("not trained: %s, %s", u.Name, u.Role.Why)
			}
		}
	}
	noteExported(a, j.Exported)
}

// untrained counts the tensors that are no parameters, by kind in order, for example "5 constants"; "" if there are
// no such tensors.
func untrained(list []autograd.Untrained) string {
	count := map[roles.Kind]int{}
	for _, u := range list {
		count[u.Role.Kind]++
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, k.Count(count[k]))
	}
	return strings.Join(parts, ", ")
}

// SomeOf lists names, of many the first.
func SomeOf(names []string) string {
	const shown = 4
	if len(names) > shown {
		names = append(slices.Clone(names[:shown]), "…")
	}
	return strings.Join(names, ", ")
}

// ClassifyGrad gives an error of differentiation its code.
func ClassifyGrad(name string, err error) error {
	var none *autograd.NoRule
	var fault *memopt.Error
	if errors.As(err, &fault) {
		return cli.Classify(err)
	}
	var unmatched *autograd.UnmatchedError
	if errors.As(err, &unmatched) {
		return cli.Usage("%s: --freeze %q matches no parameter; they are %s", name, unmatched.Glob,
			unmatched.Parameters)
	}
	if errors.Is(err, autograd.ErrNoLoss) {
		err = fmt.Errorf("%w (--loss NAME names it, --loss cross-entropy:LOGITS:LABELS adds one, or mse or bce, and "+
			"--loss NAME=seed takes the gradient of an output of any shape from outside)", err)
	}
	switch {
	case errors.As(err, &none), errors.Is(err, autograd.ErrNoLoss), errors.Is(err, autograd.ErrBackward):
		return cli.Invalid(cli.Wrap(name, err))
	}
	return cli.Usage("%w", cli.Wrap(name, err))
}

// afterGrad plans the file that was written.
func afterGrad(a *cli.App, out string, step *memopt.Model) *cli.NextCommand {
	return &cli.NextCommand{Verb: "plan", Args: []string{out}, Dims: a.Examples(step, cli.Unbound(step)), Bare: true}
}
