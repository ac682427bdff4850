package main

import (
	"slices"

	"github.com/spf13/pflag"

	"memopt/autograd"
)

// trainingFlags say which training step is made of a forward model.
type trainingFlags struct {
	outputs    []string
	accumulate bool
	fuse       bool
	optimizer  optimizerFlags
}

// register adds the flags. where says to which models they apply, at the end of their descriptions.
func (t *trainingFlags) register(f *pflag.FlagSet, where string) {
	f.StringSliceVar(&t.outputs, "outputs", nil, "globs of the outputs"+where+
		" to keep; the others are dropped, with the nodes that only they need")
	f.BoolVar(&t.accumulate, "accumulate", false, "make the micro-step"+where+
		" that adds gradients to sums, in place")
	f.BoolVar(&t.fuse, "fuse", true, "give norms, GELUs and softmaxes"+where+" that are written in many "+
		"nodes the gradients of one operator, which keep fewer activations")
	t.optimizer.register(f, where)
}

// asks reports whether the flags ask for a training step.
func (t *trainingFlags) asks() bool {
	return t.optimizer.kind != "" || t.accumulate || len(t.outputs) > 0
}

// options makes autograd's options of the flags.
func (t *trainingFlags) options() autograd.Options {
	return autograd.Options{Outputs: t.outputs, Accumulate: t.accumulate, Unfused: !t.fuse}
}

// refuse says that a model is not a forward model, the only kind of which a step is made.
func (t *trainingFlags) refuse(name string) error {
	flag := ""
	switch {
	case t.optimizer.kind != "":
		flag = "--optimizer " + t.optimizer.kind
	case t.accumulate:
		flag = "--accumulate"
	case len(t.outputs) > 0:
		flag = "--outputs"
	default:
		return nil
	}
	return usage("%s: has a backward half, but %s is for forward models: memopt grad makes a whole "+
		"training step of one", name, flag)
}

// optimizerFlags say how parameters are updated.
type optimizerFlags struct {
	set          *pflag.FlagSet // the set that they are registered in
	kind         string
	lr           float64
	weightDecay  float64
	momentum     float64
	nesterov     bool
	beta1, beta2 float64
	eps          float64
	clip         float64
	keepGrads    bool
}

// register adds the flags. where says to which models they apply, at the end of --optimizer's
// description.
func (o *optimizerFlags) register(f *pflag.FlagSet, where string) {
	o.set = f
	f.StringVar(&o.kind, "optimizer", "",
		"append an optimizer that updates the parameters"+where+": sgd, adam or adamw")
	numberVar(f, &o.lr, "lr", "", 0, notNegative, "learning rate; 0: a graph input named lr")
	numberVar(f, &o.weightDecay, "weight-decay", "", 0, notNegative, "weight decay, as PyTorch's optimizers define it")
	numberVar(f, &o.momentum, "momentum", "", 0, notNegative, "momentum of sgd")
	f.BoolVar(&o.nesterov, "nesterov", false, "Nesterov's momentum, for sgd")
	numberVar(f, &o.beta1, "beta1", "", 0, shareBelow1, "of adam and adamw; 0: 0.9")
	numberVar(f, &o.beta2, "beta2", "", 0, shareBelow1, "of adam and adamw; 0: 0.999")
	numberVar(f, &o.eps, "eps", "", 0, notNegative, "of adam and adamw; 0: 1e-8")
	numberVar(f, &o.clip, "clip-norm", "", 0, notNegative, "upper bound of the global norm of all gradients; "+
		"0: none")
	f.BoolVar(&o.keepGrads, "keep-grads", false, "with an optimizer, keep the gradients as outputs")
}

// optimizerDetails are the flags that describe an optimizer.
var optimizerDetails = []string{"lr", "weight-decay", "momentum", "nesterov", "beta1", "beta2", "eps", "clip-norm",
	"keep-grads"}

// check refuses flags of an optimizer without an optimizer, and an unknown optimizer.
func (o *optimizerFlags) check() error {
	if o.kind != "" && !slices.Contains(autograd.OptimizerKinds, o.kind) {
		return usage("--optimizer: optimizer %q: wanted sgd, adam or adamw", o.kind)
	}
	if o.kind != "" || o.set == nil {
		return nil
	}
	for _, name := range optimizerDetails {
		if o.set.Changed(name) {
			return usage("--%s configures an optimizer, but there is none: add --optimizer sgd, "+
				"adam or adamw", name)
		}
	}
	return nil
}

// update is what the flags say about the parameters' update; nil: there is none.
func (o *optimizerFlags) update() *autograd.Optimizer {
	if o.kind == "" {
		return nil
	}
	return &autograd.Optimizer{Kind: o.kind, LR: o.lr, WeightDecay: o.weightDecay, Momentum: o.momentum,
		Nesterov: o.nesterov, Beta1: o.beta1, Beta2: o.beta2, Eps: o.eps, MaxNorm: o.clip, KeepGrads: o.keepGrads}
}
