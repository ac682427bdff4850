package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"memopt/autograd"
	"memopt/graph"
	"memopt/train"
	"memopt/train/data"
	"memopt/train/schedule"
)

// trainFlags are the flags of train. Names and defaults are those of Hugging Face's
// TrainingArguments where these have them.
type trainFlags struct {
	selection selectionFlags
	engine    engineFlags
	data      dataFlags
	optimizer trainOptimizerFlags
	rankFlags

	out       string
	loss      []string
	fuse      bool
	batch     string
	micros    int
	epochs    float64
	maxSteps  int
	lossScale string
	onNaN     string

	evalEvery, saveEvery, saveLimit, logging int

	dryRun bool
	resume string
	init   string
	set    *pflag.FlagSet
}

func (t *trainFlags) register(f *pflag.FlagSet) {
	t.set = f
	f.StringVarP(&t.out, "out", "o", "", "the job's folder: checkpoints, metrics.jsonl and TensorBoard's events")
	t.data.register(f)
	t.optimizer.register(f)
	f.StringArrayVar(&t.loss, "loss", nil, "what is differentiated, as for grad: NAME or NAME=WEIGHT (repeatable)")
	f.BoolVar(&t.fuse, "fuse", true, "give norms, GELUs and softmaxes that are written in many nodes "+
		"the gradients of one operator")
	f.StringVar(&t.batch, "batch", "",
		"samples of a step; auto: as many as fit --budget, or the free memory; default 8")
	numberVar(f, &t.micros, "gradient-accumulation-steps", "",
		1, positive, "steps whose gradients are added up for an update")
	numberVar(f, &t.epochs, "epochs", "", 3, bounds{least: 0, most: 1e9}, "how often the data are gone through")
	numberVar(f, &t.maxSteps, "max-steps", "", 0, notNegative, "updates in all; 0: as many as --epochs have")
	f.StringVar(&t.lossScale, "loss-scale", "auto",
		"auto: dynamic for graphs with float16, else off; dynamic; off; "+
			"or the first scale, a number")
	f.StringVar(&t.onNaN, "on-nan", "stop", "where the loss or a gradient is not finite: stop, before the "+
		"update, or skip the batch")
	numberVar(f, &t.evalEvery, "eval-every", "", 0, notNegative, "updates between evaluations; 0: after every epoch")
	numberVar(f, &t.saveEvery, "save-every", "", 500, notNegative, "updates between checkpoints; 0: only at the end")
	numberVar(f, &t.saveLimit, "save-total-limit", "", 0, notNegative, "how many checkpoints are kept; 0: all")
	numberVar(f, &t.logging, "logging-steps", "", 0, notNegative, "updates between lines of metrics; "+
		"0: 500, or a twentieth of a shorter job")
	f.BoolVar(&t.dryRun, "dry-run", false, "say what the job would take, and end before its first step")
	f.StringVar(&t.resume, "resume", "", "go on after the newest checkpoint of -o, "+
		"or after the one that is named: --resume=PATH")
	f.Lookup("resume").NoOptDefVal = newest
	f.StringVar(&t.init, "init", "", "FILE.safetensors: begin with its weights; random:SEED: make up "+
		"those that the model has no values for")
	t.rankFlags.register(f)
	t.engine.register(f)
	t.selection.registerPlan(f)
}

// newest is the value of --resume without a path.
const newest = "newest"

// trainOptimizerFlags say how parameters are updated.
type trainOptimizerFlags struct {
	kind         string
	rate, min    float64
	weightDecay  float64
	decayAll     bool
	momentum     float64
	nesterov     bool
	beta1, beta2 float64
	eps          float64
	clip         float64
	scheduler    string
	warmup       float64
	groups       []string
	params       []string
	freeze       []string
}

func (o *trainOptimizerFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.kind, "optimizer", "adamw", "sgd, adam or adamw")
	numberVar(f, &o.rate, "learning-rate", "", 5e-5, notNegative, "the highest learning rate")
	numberVar(f, &o.min, "min-lr", "", 0, notNegative, "what linear and cosine schedules fall to")
	f.StringVar(&o.scheduler, "lr-scheduler", "linear", strings.Join(schedule.Kinds, ", "))
	numberVar(f, &o.warmup, "warmup-steps", "",
		0, notNegative, "updates in which the rate rises from 0; below 1: "+
			"a share of all updates")
	numberVar(f, &o.weightDecay, "weight-decay", "",
		0, notNegative, "weight decay, of parameters with two dims or more")
	f.BoolVar(&o.decayAll, "decay-all", false, "weight decay of biases and norms, too")
	numberVar(f, &o.momentum, "momentum", "", 0, notNegative, "momentum of sgd")
	f.BoolVar(&o.nesterov, "nesterov", false, "Nesterov's momentum, for sgd")
	numberVar(f, &o.beta1, "adam-beta1", "", 0.9, shareBelow1, "of adam and adamw")
	numberVar(f, &o.beta2, "adam-beta2", "", 0.999, shareBelow1, "of adam and adamw")
	numberVar(f, &o.eps, "adam-epsilon", "", 1e-8, notNegative, "of adam and adamw")
	numberVar(f, &o.clip, "max-grad-norm", "", 1, notNegative, "upper bound of the norm of all gradients; 0: none")
	f.StringArrayVar(&o.groups, "group",
		nil, "parameters with a rate of so many times the others', or a decay of their own: "+
			"GLOBS:lr=0.1,weight-decay=0 (repeatable; the first that matches counts)")
	f.StringSliceVar(&o.params, "params", nil, "globs of the parameters to train, instead of all")
	f.StringSliceVar(&o.freeze, "freeze", nil, "globs of parameters that are not trained")
}

// optimizer makes autograd's optimizer of the flags.
func (o *trainOptimizerFlags) optimizer(m *graph.Model) (autograd.Optimizer, error) {
	out := autograd.Optimizer{Kind: o.kind, WeightDecay: o.weightDecay, Momentum: o.momentum, Nesterov: o.nesterov,
		Beta1: o.beta1, Beta2: o.beta2, Eps: o.eps, MaxNorm: o.clip}
	if !slices.Contains(autograd.OptimizerKinds, o.kind) {
		return out, usage("--optimizer: optimizer %q: wanted sgd, adam or adamw", o.kind)
	}
	if !o.decayAll {
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

// schedule makes the learning rates of the flags, for so many updates.
func (o *trainOptimizerFlags) schedule(updates int64) (schedule.Schedule, error) {
	s := schedule.Schedule{Kind: o.scheduler, LR: o.rate, MinLR: o.min, Warmup: int64(math.Ceil(o.warmup)),
		Total: updates}
	if o.warmup < 1 {
		s.Warmup = int64(math.Ceil(o.warmup * float64(updates)))
	}
	if err := s.Check(); err != nil {
		return s, usage("--lr-scheduler, --learning-rate, --min-lr or --warmup-steps: %w", err)
	}
	return s, nil
}

// dataFlags say what is trained on.
type dataFlags struct {
	paths, eval []string
	format      string
	tokens      string
	blocks      string
	labels      string
	record      string
	names       []string
	shuffle     bool
	last        string
	seed        int
}

func (d *dataFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&d.paths, "data", nil, "files, folders or globs of samples, or example:text (repeatable)")
	f.StringArrayVar(&d.eval, "eval-data", nil, "samples for evaluation (repeatable)")
	f.StringVar(&d.format, "data-format", "auto", "auto, which goes by names; or "+strings.Join(data.Formats(), ", "))
	f.StringVar(&d.tokens, "token-type", "auto",
		"type of tokens: uint8, uint16, uint32, int32 or int64; auto is what a header says, "+
			"bytes in .txt files, and else uint16")
	f.StringVar(&d.blocks, "blocks", "disjoint",
		"blocks of tokens: disjoint, one after the other; or random, from anywhere")
	f.StringVar(&d.labels, "labels", "auto",
		"labels of tokens: next, the token that follows; same, for models that shift labels "+
			"themselves, as those of Hugging Face do; auto, by what the model does")
	f.StringVar(&d.record, "record", "",
		"fields of a record of raw bytes, for example 'label:uint8,image:uint8[3,32,32]/255'")
	f.StringArrayVar(&d.names, "input",
		nil, "INPUT=NAME: the model's input is the array or field NAME, or "+
			"for tokens one of "+strings.Join(data.Roles(), ", ")+" (repeatable)")
	f.BoolVar(&d.shuffle, "shuffle", true, "draw samples in another order in each epoch; else in the files' order")
	f.StringVar(&d.last, "last-batch", "keep",
		"samples that do not fill a batch at the end of an epoch: keep, drop, or "+
			"pad with others")
	numberVar(f, &d.seed, "data-seed", "", 0, notNegative, "seed of the order of samples; without it --seed")
}

// options are those of a source.
func (d *dataFlags) options(seed uint64) (data.Options, error) {
	o := data.Options{Format: d.format, TokenType: d.tokens, Blocks: d.blocks, Labels: d.labels, Record: d.record,
		Seed: seed, Names: map[string]string{}}
	for _, text := range d.names {
		input, name, ok := strings.Cut(text, "=")
		if !ok || input == "" || name == "" {
			return o, usage("--input %q: wanted INPUT=NAME", text)
		}
		o.Names[input] = name
	}
	return o, nil
}

// nan is what happens where numbers are not finite.
func (t *trainFlags) nan() (train.OnNaN, error) {
	switch t.onNaN {
	case "stop":
		return train.StopOnNaN, nil
	case "skip":
		return train.SkipOnNaN, nil
	}
	return 0, usage("--on-nan %q: wanted stop or skip", t.onNaN)
}

// scale is the loss scale of a model; nil: there is none.
func (t *trainFlags) scale(m *graph.Model) (*schedule.Scale, error) {
	s := schedule.NewScale()
	switch t.lossScale {
	case "off":
		return nil, nil
	case "dynamic":
		return &s, nil
	case "auto":
		half := slices.ContainsFunc(m.Graph.Values, func(v graph.Value) bool { return v.Type.DType == graph.Float16 })
		if half {
			return &s, nil
		}
		return nil, nil
	}
	x, err := strconv.ParseFloat(t.lossScale, 64)
	s.Value = x
	if err != nil || s.Check() != nil {
		return nil, usage("--loss-scale %q: wanted auto, dynamic, off, or a number from 1 on", t.lossScale)
	}
	return &s, nil
}
