package main

import (
	"slices"

	"github.com/spf13/pflag"

	"memopt/autograd"
)

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

// refuse says that a model is not a forward model, the only kind that can be given an optimizer.
func (o *optimizerFlags) refuse(name string) error {
	if o.kind == "" {
		return nil
	}
	return usage("%s: has a backward half, but --optimizer %s is for forward models: memopt grad makes a whole "+
		"training step of one", name, o.kind)
}
