package gradcmd

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
)

// optimizerFlags say how parameters are updated.
type optimizerFlags struct {
	Kind         string
	rate         float64
	WeightDecay  float64
	DecayAll     bool
	Momentum     float64
	nesterov     bool
	Beta1, Beta2 float64
	beta2        *pflag.Flag // that of Beta2, whose default is not lion's
	adjustLR     string
	Eps          float64
	Clip         float64
	Groups       []string
	keepGrads    bool
}

func (o *optimizerFlags) register(f *pflag.FlagSet, kind string) {
	f.StringVar(&o.Kind, "optimizer", kind, "the optimizer that updates the parameters: "+
		autograd.Kinds(cli.NoOptimizer))
	cli.NumberVar(f, &o.WeightDecay, "weight-decay", "", 0, cli.NotNegative,
		"weight decay, of parameters with two dims or "+
			"more")
	f.BoolVar(&o.DecayAll, "decay-all", false, "weight decay of biases and norms, too")
	cli.NumberVar(f, &o.Momentum, "momentum", "", 0, cli.NotNegative, "momentum of sgd; of muon, where 0 means 0.95")
	f.BoolVar(&o.nesterov, "nesterov", false, "Nesterov's momentum, for sgd")
	f.StringVar(&o.adjustLR, "adjust-lr", "", "factor of muon's rate by the shape of a matrix: match_rms_adamw (the "+
		"default), for rates of adamw, or original")
	cli.NumberVar(f, &o.Beta1, "adam-beta1", "", 0.9, cli.ShareBelow1, "of adam, adamw, muon and lion")
	cli.NumberVar(f, &o.Beta2, "adam-beta2", "", 0.999, cli.ShareBelow1,
		"of adam, adamw and muon, and of lion, whose default is 0.99")
	o.beta2 = f.Lookup("adam-beta2")
	cli.NumberVar(f, &o.Eps, "adam-epsilon", "", 1e-8, cli.NotNegative, "of adam, adamw and muon")
	cli.NumberVar(f, &o.Clip, "max-grad-norm", "", 1, cli.NotNegative,
		"upper bound of the norm of all gradients, which keeps them until it is known; 0: no bound")
	f.StringArrayVar(&o.Groups, "group", nil, "parameters with a rate of so many times the others', or a decay of "+
		"their own: GLOBS:lr=0.1,weight-decay=0 (repeatable; the first that matches counts)")
}

// Title names the optimizer in texts.
func (o *optimizerFlags) Title() string { return (&autograd.Optimizer{Kind: o.Kind}).Title() }

// Bits is how many bits an element of the optimizer's states has; 0: they are floats.
func (o *optimizerFlags) Bits() int { return (&autograd.Optimizer{Kind: o.Kind}).Bits() }

// Uniform reports whether all parameters have the same states, as floats in their own shape.
func (o *optimizerFlags) Uniform() bool { return (&autograd.Optimizer{Kind: o.Kind}).Uniform() }

// RegisterRate adds the flags of an update outside of a job, which has a schedule of rates instead.
func (o *optimizerFlags) RegisterRate(f *pflag.FlagSet) {
	cli.NumberVar(f, &o.rate, "learning-rate", "", 0, cli.NotNegative,
		"a constant learning rate, and with it the update of "+
			"torch.optim: no bound of the norm and weight decay of all parameters unless told; 0: the rate is an "+
			"input named lr, and the update train's")
	f.BoolVar(&o.keepGrads, "keep-grads", false, "with an optimizer, keep the gradients as outputs")
}

// OptimizerDetails are the flags that describe an optimizer.
var OptimizerDetails = []string{"learning-rate", "weight-decay", "decay-all", "momentum", "nesterov", "adjust-lr",
	"adam-beta1", "adam-beta2", "adam-epsilon", "max-grad-norm", "group", "keep-grads"}

// Update makes autograd's optimizer of the flags. likeTrain says that parameters of one dim have no
// weight decay.
func (o *optimizerFlags) Update(m *graph.Model, likeTrain bool) (autograd.Optimizer, error) {
	out := autograd.Optimizer{Kind: o.Kind, LR: o.rate, WeightDecay: o.WeightDecay, Momentum: o.Momentum,
		Nesterov: o.nesterov, AdjustLR: o.adjustLR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, MaxNorm: o.Clip,
		KeepGrads: o.keepGrads}
	if o.Kind == "lion" && !o.beta2.Changed {
		out.Beta2 = 0.99
	}
	if likeTrain && !o.DecayAll {
		out.NoDecay = autograd.NoDecayOfVectors(m)
	}
	for _, text := range o.Groups {
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
		return cli.Usage("--group %q: %s; wanted GLOBS:lr=SCALE,weight-decay=DECAY, for example "+
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
