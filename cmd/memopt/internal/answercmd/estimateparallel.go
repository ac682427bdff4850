package answercmd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/estimate"
	"memopt/answers/estimate/parallel"
	"memopt/answers/estimate/parts"
	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/graph"
	"memopt/graph/precision"
	"memopt/planner"
	"memopt/train"
	"memopt/view/report"
)

// layoutFlags say among how many devices a step is divided.
type layoutFlags struct{ parallel.Layout }

func (f *layoutFlags) register(s *pflag.FlagSet) {
	cli.NumberVar(s, &f.DP, "dp", "", 1, cli.Positive, "replicas of the model, each with data of its own")
	cli.NumberVar(s, &f.Zero, "zero", "", 0, cli.Bounds{Least: 0, Most: 3},
		"the parts that replicas share by ZeRO: 1 the optimizer's state, 2 gradients, too, 3 weights, too")
	cli.NumberVar(s, &f.TP, "tp", "", 1, cli.Positive,
		"devices that tensors are divided among: as the file's annotations "+
			"say (IR version 11), else by Megatron's rule")
	cli.NumberVar(s, &f.PP, "pp", "", 1, cli.Positive, "stages of a pipeline: the file's, else layers at equal cost")
	cli.NumberVar(s, &f.Microbatches, "microbatches", "", 0, cli.NotNegative, "micro-batches of an update under 1F1B; "+
		"0: those of --gradient-accumulation-steps, else one for each stage")
	cli.NumberVar(s, &f.Interleave, "interleave", "", 1, cli.Positive, "runs of layers on each device of the pipeline")
	s.BoolVar(&f.SequenceParallel, "sequence-parallel", false, "divide the values that --tp leaves whole along the "+
		"sequence")
}

// several reports whether anything is divided, or said of several devices.
func (f *layoutFlags) several() bool {
	l := f.Layout
	l.Microbatches = 0
	return l.WithDefaults() != parallel.Layout{}.WithDefaults() || f.Microbatches > 0
}

// layout is the layout that the flags ask for.
func (f *estimateFlags) parallel() (parallel.Layout, error) {
	l := f.layout.Layout
	switch {
	case l.Microbatches > 0 && f.step.Micros > 1 && l.Microbatches != f.step.Micros:
		return l, cli.Usage("--microbatches %d and --gradient-accumulation-steps %d: both say how many micro-batches "+
			"make an update; give one of them", l.Microbatches, f.step.Micros)
	case l.Microbatches == 0:
		l.Microbatches = max(f.step.Micros, l.PP)
	}
	if err := l.Check(); err != nil {
		return l, cli.Usage("%w", err)
	}
	return l, nil
}

// estimateParallel answers whether a step fits the devices of a layout.
func estimateParallel(a *cli.App, name string, m *memopt.Model, f *estimateFlags, o *estimate.Options,
	format report.Format) error {
	if !f.step.Optimizer.Uniform() {
		return cli.Usage("--optimizer %s: an estimate for several devices divides states by elements, and not by "+
			"blocks or rows: wanted an optimizer with the same float states of all parameters", f.step.Optimizer.Kind)
	}
	l, err := f.parallel()
	if err != nil {
		return err
	}
	o.Recipe.Micros = max(2, l.Microbatches) // the step of a micro-batch, which adds to sums
	made, err := train.Make(m, o.Recipe)
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	gradcmd.NoteRoles(a, made.Joint)
	step, facts := made.Step, f.facts(a, m, o)
	if t := facts.Types; t != nil {
		if step, err = parallel.Retype(step, made.Params, *t); err != nil {
			return a.ClassifyPlan(name, err)
		}
	}
	r, err := parallel.Split(a.Search, step, made.Params, l, f.splitOptions(a, o, l))
	if err != nil {
		return classifySplit(a, name, err)
	}
	facts.Parameters, facts.Text = r.Parameters, f.step.Describe(m, made).Text
	if err := r.Report(a.Out, format, facts, a.Global.Verbose); err != nil {
		return err
	}
	return fitsParallel(a, name, r)
}

// classifySplit gives an error of a division its exit code.
func classifySplit(a *cli.App, name string, err error) error {
	var layout *parallel.LayoutError
	var stage *parallel.StageError
	var shard *parallel.ShardError
	switch {
	case errors.As(err, &layout):
		return cli.Usage("%w", err)
	case errors.As(err, &stage):
		return cli.Usage("%s: %w", name, err)
	case errors.As(err, &shard):
		return &cli.ExitError{Code: cli.ExitInvalid, Err: fmt.Errorf("%s: %w", name, err)}
	}
	return a.ClassifyPlan(name, err)
}

// fitsParallel is the exit code of an answer.
func fitsParallel(a *cli.App, name string, r *parallel.Result) error {
	fits, known := r.Fits()
	switch {
	case a.Ctx.Err() != nil:
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: errors.New("interrupted: the search for plans was cut short")}
	case !known || fits:
		return nil
	}
	most := r.Most()
	return &cli.ExitError{Code: cli.ExitInfeasible, Err: fmt.Errorf("%s: stage %d does not fit as it is: %s of %s",
		name, most.Stage,
		report.Bytes(most.Parts.Total()), report.Bytes(r.Options.Memory))}
}

// splitOptions are the options of the division.
func (f *estimateFlags) splitOptions(a *cli.App, o *estimate.Options, l parallel.Layout) parallel.Options {
	out := parallel.Options{Memory: o.Memory, Cost: f.cost(o),
		Plan: memopt.PlanOptions{Options: planner.Options{Profile: o.Device}}}
	if d := o.Device; d != nil {
		out.Memory, out.Reserve = cmp.Or(o.Memory, d.Memory), d.Reserve
	}
	if o.Reserve != nil {
		out.Reserve = *o.Reserve
	}
	// The effort is for all stages and all searches of each.
	n := float64(l.PP * l.Interleave * parallel.Searches)
	out.Search = memopt.Budget{Solver: "auto", Seed: o.Seed, Effort: o.Effort / n, Found: a.Keeper.Keep}
	return out
}

// cost is the bytes that an element of a parameter takes throughout a step.
func (f *estimateFlags) cost(o *estimate.Options) func(graph.DType) parts.PerParameter {
	update := autograd.Optimizer{Kind: f.step.Optimizer.Kind, Momentum: f.step.Optimizer.Momentum}
	moments := len(update.States())
	if o.Precision != precision.AsIs {
		per := parts.TypesOf(o.Precision).PerParameter(moments)
		return func(graph.DType) parts.PerParameter { return per }
	}
	return func(d graph.DType) parts.PerParameter {
		// As autograd makes updates: in float32 for types of 16 bits.
		wide := d
		if d == graph.Float16 || d == graph.BFloat16 {
			wide = graph.Float32
		}
		return parts.Types{Weights: d, Gradients: wide, Moments: wide}.PerParameter(moments)
	}
}

// facts are the report's facts about the model and the step.
func (f *estimateFlags) facts(a *cli.App, m *memopt.Model, o *estimate.Options) *parallel.Facts {
	out := &parallel.Facts{Path: m.Path, StructureSHA256: m.StructureSHA256, Dims: maps.Clone(m.Dims),
		Optimizer: f.step.Optimizer.Kind, Precision: o.Precision, Device: f.Device}
	if d := o.Device; d != nil {
		out.Sources = []string{d.Source}
		if f.Device != "" {
			out.Device = d.Name
		}
	}
	if o.Precision != precision.AsIs {
		t := parts.TypesOf(o.Precision)
		out.Types = &t
		per := f.cost(o)(graph.Float32)
		out.PerParameter = &per
	}
	return out
}
