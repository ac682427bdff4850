package traincmd

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/option"
	"memopt/train"
	"memopt/train/data"
	"memopt/train/schedule"
)

// trainFlags are the flags of train. Names and defaults are those of Hugging Face's
// TrainingArguments where these have them.
type trainFlags struct {
	selection option.SelectionFlags
	engine    option.EngineFlags
	data      dataFlags
	step      gradcmd.StepFlags
	schedule  scheduleFlags
	moves     cli.MoveFlags
	hostDir   string
	rankFlags

	given     string // the model
	out       string
	batch     string
	epochs    float64
	maxSteps  int
	lossScale string
	onNaN     string

	evalEvery, saveEvery, saveLimit, logging int

	dryRun   bool
	evalOnly bool
	// allowMerged trains parameters that the exporter merged or untied.
	allowMerged bool
	resume      string
	init        string
	set         *pflag.FlagSet
}

func (t *trainFlags) register(f *pflag.FlagSet) {
	t.set = f
	f.StringVarP(&t.out, "out", "o", "", "the job's folder: checkpoints, metrics.jsonl and TensorBoard's events")
	t.data.register(f)
	t.step.RegisterJob(f)
	t.schedule.register(f)
	f.StringVar(&t.batch, "batch", "",
		"samples of a step; auto: as many as fit --budget, or the free memory; default 8")
	cli.NumberVar(f, &t.epochs, "epochs", "", 3, cli.Bounds{Least: 0, Most: 1e9}, "how often the data are gone through")
	cli.NumberVar(f, &t.maxSteps, "max-steps", "", 0, cli.NotNegative, "updates in all; 0: as many as --epochs have")
	f.StringVar(&t.lossScale, "loss-scale", "auto",
		"auto: dynamic for graphs with float16, else off; dynamic; off; "+
			"or the first scale, a number")
	f.StringVar(&t.onNaN, "on-nan", "stop", "where the loss or a gradient is not finite: stop, before the "+
		"update, or skip the batch")
	cli.NumberVar(f, &t.evalEvery, "eval-every", "", 0, cli.NotNegative,
		"updates between evaluations; 0: after every epoch")
	cli.NumberVar(f, &t.saveEvery, "save-every", "", 500, cli.NotNegative,
		"updates between checkpoints; 0: only at the end")
	cli.NumberVar(f, &t.saveLimit, "save-total-limit", "", 0, cli.NotNegative, "how many checkpoints are kept; 0: all")
	cli.NumberVar(f, &t.logging, "logging-steps", "", 0, cli.NotNegative, "updates between lines of metrics; "+
		"0: 500, or a twentieth of a shorter job")
	f.BoolVar(&t.dryRun, "dry-run", false, "print the memory that the job would take, and end before its first step")
	f.BoolVar(&t.allowMerged, "allow-merged", false, "train parameters as one that the exporter of the file merged")
	f.BoolVar(&t.evalOnly, "eval-only", false, "evaluate on --eval-data, and do not train")
	f.StringVar(&t.resume, "resume", "", "go on after the newest checkpoint of -o, "+
		"or after the one that is named: --resume=PATH")
	f.Lookup("resume").NoOptDefVal = newest
	f.StringVar(&t.init, "init", "", "FILE.safetensors: begin with its weights; random:SEED: make up "+
		"those that the model has no values for")
	t.rankFlags.register(f)
	t.engine.Register(f)
	t.selection.RegisterPlan(f)
	t.moves.Register(f, option.LinkOfDevice)
	f.StringVar(&t.hostDir, "host-dir", "", "a folder that weights and optimizer states lie in, twice, and are kept "+
		"in after every update, within --host-budget")
}

// newest is the value of --resume without a path.
const newest = "newest"

// scheduleFlags say which learning rate an update has.
type scheduleFlags struct {
	rate, min float64
	kind      string
	warmup    float64
}

func (s *scheduleFlags) register(f *pflag.FlagSet) {
	cli.NumberVar(f, &s.rate, "learning-rate", "", 5e-5, cli.NotNegative, "the highest learning rate")
	cli.NumberVar(f, &s.min, "min-lr", "", 0, cli.NotNegative, "the final rate of linear and cosine schedules")
	f.StringVar(&s.kind, "lr-scheduler", "linear", strings.Join(schedule.Kinds, ", "))
	cli.NumberVar(f, &s.warmup, "warmup-steps", "",
		0, cli.NotNegative, "updates while the rate rises from 0; below 1: a share of all updates")
}

// rates makes the learning rates of the flags, for so many updates.
func (o *scheduleFlags) rates(updates int64) (schedule.Schedule, error) {
	s := schedule.Schedule{Kind: o.kind, LR: o.rate, MinLR: o.min, Warmup: int64(math.Ceil(o.warmup)),
		Total: updates}
	if o.warmup < 1 {
		s.Warmup = int64(math.Ceil(o.warmup * float64(updates)))
	}
	if err := s.Check(); err != nil {
		return s, cli.Usage("--lr-scheduler, --learning-rate, --min-lr or --warmup-steps: %w", err)
	}
	return s, nil
}

// dataFlags are the flags of the training data.
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
		"type of tokens: uint8, uint16, uint32, int32 or int64; auto is the type in a header, bytes in .txt files, "+
			"and else uint16")
	f.StringVar(&d.blocks, "blocks", "disjoint",
		"samples of tokens: disjoint blocks, one after the other; random ones, from anywhere; or documents, which "+
			"differ in length: lines of a text, or documents:50256, which end with that token")
	f.StringVar(&d.labels, "labels", "auto",
		"labels of tokens: next, the token that follows; same, for models that shift labels "+
			"themselves, as those of Hugging Face do; auto, as the model needs")
	f.StringVar(&d.record, "record", "",
		"fields of a record of raw bytes, for example 'label:uint8,image:uint8[3,32,32]/255'")
	f.StringArrayVar(&d.names, "input",
		nil, "INPUT=NAME: the model's input is the array or field NAME, or "+
			"for tokens one of "+strings.Join(data.Roles(), ", ")+" (repeatable)")
	f.BoolVar(&d.shuffle, "shuffle", true, "draw samples in another order in each epoch; else in the files' order")
	f.StringVar(&d.last, "last-batch", "keep",
		"samples that do not fill a batch at the end of an epoch: keep, drop, or "+
			"pad with others")
	cli.NumberVar(f, &d.seed, "data-seed", "", 0, cli.NotNegative, "seed of the order of samples; without it --seed")
}

// options are those of a source.
func (d *dataFlags) options(seed uint64) (data.Options, error) {
	o := data.Options{Format: d.format, TokenType: d.tokens, Blocks: d.blocks, Labels: d.labels, Record: d.record,
		Seed: seed, Names: map[string]string{}}
	for _, text := range d.names {
		input, name, ok := strings.Cut(text, "=")
		if !ok || input == "" || name == "" {
			return o, cli.Usage("--input %q: wanted INPUT=NAME", text)
		}
		o.Names[input] = name
	}
	return o, nil
}

// nan is the reaction to numbers that are not finite.
func (t *trainFlags) nan() (train.OnNaN, error) {
	switch t.onNaN {
	case "stop":
		return train.StopOnNaN, nil
	case "skip":
		return train.SkipOnNaN, nil
	}
	return 0, cli.Usage("--on-nan %q: wanted stop or skip", t.onNaN)
}

// scale is the loss scale of a model, or nil.
func (t *trainFlags) scale(m *memopt.Model) (*schedule.Scale, error) {
	s := schedule.NewScale()
	switch t.lossScale {
	case "off":
		return nil, nil
	case "dynamic":
		return &s, nil
	case "auto":
		if t.step.Halves(m) {
			return &s, nil
		}
		return nil, nil
	}
	x, err := strconv.ParseFloat(t.lossScale, 64)
	s.Value = x
	if err != nil || s.Check() != nil {
		return nil, cli.Usage("--loss-scale %q: wanted auto, dynamic, off, or a number from 1 on", t.lossScale)
	}
	return &s, nil
}
