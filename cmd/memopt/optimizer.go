package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"memopt/autograd"
	"memopt/graph"
)

// optimizerFlags say how parameters are updated.
type optimizerFlags struct {
	kind         string
	rate         float64
	weightDecay  float64
	decayAll     bool
	momentum     float64
	nesterov     bool
	beta1, beta2 float64
	eps          float64
	clip         float64
	groups       []string
	keepGrads    bool
}

func (o *optimizerFlags) register(f *pflag.FlagSet, kind string) {
	f.StringVar(&o.kind, "optimizer", kind, "what updates the parameters: sgd, adam, adamw, or none")
	numberVar(f, &o.weightDecay, "weight-decay", "", 0, notNegative, "weight decay, of parameters with two dims or "+
		"more")
	f.BoolVar(&o.decayAll, "decay-all", false, "weight decay of biases and norms, too")
	numberVar(f, &o.momentum, "momentum", "", 0, notNegative, "momentum of sgd")
	f.BoolVar(&o.nesterov, "nesterov", false, "Nesterov's momentum, for sgd")
	numberVar(f, &o.beta1, "adam-beta1", "", 0.9, shareBelow1, "of adam and adamw")
	numberVar(f, &o.beta2, "adam-beta2", "", 0.999, shareBelow1, "of adam and adamw")
	numberVar(f, &o.eps, "adam-epsilon", "", 1e-8, notNegative, "of adam and adamw")
	numberVar(f, &o.clip, "max-grad-norm", "", 1, notNegative, "upper bound of the norm of all gradients, which "+
		"keeps them until it is known; 0: none")
	f.StringArrayVar(&o.groups, "group", nil, "parameters with a rate of so many times the others', or a decay of "+
		"their own: GLOBS:lr=0.1,weight-decay=0 (repeatable; the first that matches counts)")
}

// registerRate adds the flags of an update outside of a job, which has a schedule of rates instead.
func (o *optimizerFlags) registerRate(f *pflag.FlagSet) {
	numberVar(f, &o.rate, "learning-rate", "", 0, notNegative, "a constant learning rate, and with it the update of "+
		"torch.optim: no bound of the norm and weight decay of all parameters unless told; 0: the rate is an input "+
		"named lr, and the update train's")
	f.BoolVar(&o.keepGrads, "keep-grads", false, "with an optimizer, keep the gradients as outputs")
}

// optimizerDetails are the flags that describe an optimizer.
var optimizerDetails = []string{"learning-rate", "weight-decay", "decay-all", "momentum", "nesterov", "adam-beta1",
	"adam-beta2", "adam-epsilon", "max-grad-norm", "group", "keep-grads"}

// update makes autograd's optimizer of the flags. likeTrain says that parameters of one dim have no
// weight decay.
func (o *optimizerFlags) update(m *graph.Model, likeTrain bool) (autograd.Optimizer, error) {
	out := autograd.Optimizer{Kind: o.kind, LR: o.rate, WeightDecay: o.weightDecay, Momentum: o.momentum,
		Nesterov: o.nesterov, Beta1: o.beta1, Beta2: o.beta2, Eps: o.eps, MaxNorm: o.clip, KeepGrads: o.keepGrads}
	if likeTrain && !o.decayAll {
		out.NoDecay = autograd.NoDecayOfVectors(m)
	}
	for _, text := range o.groups {
		g, err := parseGroup(text)
		if err != nil {
			return out, err
		}
		out.Groups = append(out.Groups, g)
	}
	return out, nil
}

// parseGroup reads GLOBS:KEY=VALUE,….
func parseGroup(text string) (autograd.Group, error) {
	g := autograd.Group{LRScale: 1}
	wrong := func(why string) error {
		return usage("--group %q: %s; wanted GLOBS:lr=SCALE,weight-decay=DECAY, for example "+
			"'head.*:lr=10' or 'embed.*:weight-decay=0'", text, why)
	}
	at := strings.LastIndexByte(text, ':')
	if at <= 0 {
		return g, wrong("has no colon behind the globs")
	}
	g.Match = strings.Split(text[:at], ",")
	for part := range strings.SplitSeq(text[at+1:], ",") {
		key, value, _ := strings.Cut(part, "=")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return g, wrong("the value of " + strconv.Quote(key) + " is no number of at least 0")
		}
		switch key {
		case "lr":
			g.LRScale = x
		case "weight-decay":
			g.WeightDecay = &x
		default:
			return g, wrong("has the key " + strconv.Quote(key))
		}
	}
	return g, nil
}
