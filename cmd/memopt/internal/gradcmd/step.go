package gradcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/precision"
	"memopt/planner"
	"memopt/symbolic"
	"memopt/train"
	"memopt/view/report"
)

// StepFlags say which training step is made of a forward model. Every verb that makes one has these
// flags, with the same meaning (docs/step.md); verbs differ in the defaults of --outputs and
// --optimizer alone.
type StepFlags struct {
	set *pflag.FlagSet // that the flags are registered in; nil where no flags are registered
	// job says that the verb is about a training job, whose step keeps the loss alone and is updated by
	// AdamW.
	job        bool
	loss       []string
	params     []string
	Freeze     []string
	outputs    []string
	fuse       bool
	Micros     int
	accumulate bool // the old flag of the graph verbs for a micro-step
	precision  string
	// Counted says that the verb counts the bytes of a precision, and makes no step in it.
	Counted   bool
	Optimizer optimizerFlags
	// HostDir is the folder of the states' home; "": they lie on the device.
	HostDir string
}

// LossScaleInput names the input for the scale of the loss.
const LossScaleInput = "loss_scale"

// RegisterJob adds the flags of a verb that is about a job.
func (s *StepFlags) RegisterJob(f *pflag.FlagSet) {
	s.job = true
	s.register(f, "adamw", []string{autograd.TheLosses})
}

// RegisterGraph adds the flags of a verb that is about a graph, which takes the file's outputs and has
// no optimizer unless told.
func (s *StepFlags) RegisterGraph(f *pflag.FlagSet) {
	s.register(f, "", nil)
	f.BoolVar(&s.accumulate, "accumulate", false, "make the micro-step")
	f.Lookup("accumulate").Hidden = true
}

func (s *StepFlags) register(f *pflag.FlagSet, optimizer string, outputs []string) {
	s.set = f
	f.StringArrayVar(&s.loss, "loss", nil, "the outputs of a forward model to differentiate: NAME, NAME=WEIGHT, "+
		"NAME=seed "+
		"for an output whose gradient is an input, or a loss that is added: "+lossForms+" (repeatable)")
	f.StringSliceVar(&s.params, "params", nil, "globs of the parameters to train, instead of all that are parameters "+
		"by their role")
	f.StringSliceVar(&s.Freeze, "freeze", nil, "globs of parameters that are not trained")
	f.StringSliceVar(&s.outputs, "outputs", outputs, "globs of the outputs of a forward model to keep, or loss for "+
		"the loss alone; the others are dropped, with the nodes that only they need")
	f.BoolVar(&s.fuse, "fuse", true, "give norms, GELUs and softmaxes that are written in many nodes "+
		"the gradients of one operator, which keep fewer activations")
	cli.NumberVar(f, &s.Micros, "gradient-accumulation-steps", "", 1, cli.Positive,
		"micro-steps whose gradients are added "+
			"up for an update")
	f.StringVar(&s.precision, "precision", "", "inexact: bf16 or fp16-mixed: compute the step of a forward model in "+
		"16 bits, but for weights, softmaxes, sums and losses; bf16-pure: with weights and moments in bfloat16, too, "+
		"rounded stochastically; fp32: as the file is")
	s.Optimizer.register(f, optimizer)
}

// RegisterHome adds the flag of the folder that states lie in. Verbs without a job of their own count its bytes, and
// leave the folder alone.
func (s *StepFlags) RegisterHome(f *pflag.FlagSet) {
	f.StringVar(&s.HostDir, "host-dir", "", "count the step as train runs it on the CPU with weights and optimizer "+
		"states in this folder, twice, within --host-budget")
}

// Precision is the precision of the step.
func (s *StepFlags) Precision() (precision.Precision, error) {
	p, err := precision.Parse(s.precision)
	if err != nil {
		return p, cli.Usage("--precision: %w", err)
	}
	return p, nil
}

// made is the precision that the step of a model is made in.
func (s *StepFlags) made(m *memopt.Model) (precision.Precision, error) {
	p, err := s.Precision()
	switch {
	case err != nil || s.Counted:
		return precision.AsIs, err
	case p != precision.AsIs && train.HasBackward(m):
		return p, cli.Usage("--precision %s: %s has a backward half, whose types stay: give the forward model", p,
			m.Path)
	case p == precision.FP32 && hasHalves(m):
		return p, cli.Usage("--precision %s: %s has values in 16 bits, which stay: leave out the flag", p, m.Path)
	}
	return p, nil
}

// Asked are those of some flags of a step that the command line or a variable gives, each once.
func (s *StepFlags) Asked(names ...string) (given []string) {
	if s.set == nil {
		return nil
	}
	for _, name := range names {
		f := s.set.Lookup(name)
		if f != nil && f.Changed && !slices.Contains(given, "--"+f.Name) {
			given = append(given, "--"+f.Name)
		}
	}
	return given
}

// Updates reports whether there is an optimizer.
func (s *StepFlags) Updates() bool {
	return s.Optimizer.Kind != "" && s.Optimizer.Kind != cli.NoOptimizer
}

// Asks reports whether the flags of a graph verb ask for a training step.
func (s *StepFlags) Asks() bool {
	return s.Updates() || s.accumulate || s.Micros > 1 || len(s.outputs)+len(s.loss)+len(s.params)+len(s.Freeze) > 0
}

// likeTrain reports whether the step is the one that memopt train makes of the same flags. Otherwise it
// has a rate of its own, or no update.
func (s *StepFlags) likeTrain() bool { return s.job || s.Updates() && s.Optimizer.rate == 0 }

// Check refuses an unknown optimizer, and an optimizer's flags without an optimizer.
func (s *StepFlags) Check() error {
	kind := s.Optimizer.Kind
	if s.Updates() && !slices.Contains(autograd.OptimizerKinds, kind) {
		return cli.Usage("--optimizer: optimizer %q: wanted %s", kind, autograd.Kinds("none"))
	}
	if given := s.Asked(OptimizerDetails...); len(given) > 0 && !s.Updates() {
		return cli.Usage("%s configures an optimizer, but the step has no optimizer: add --optimizer %s", given[0],
			autograd.Kinds())
	}
	return nil
}

// Recipe says which step is made of a forward model. guarded says that the step itself has to leave
// everything as it is where a gradient is not finite, as on a device that the loop cannot stop.
func (s *StepFlags) Recipe(m *memopt.Model, seed int64, guarded bool) (train.Recipe, error) {
	r := train.Recipe{Micros: max(s.Micros, 1), Seed: seed, Bare: !s.likeTrain(), Seeds: s.job || s.Updates(),
		Home: s.HostDir != ""}
	if s.accumulate {
		r.Micros = max(r.Micros, 2)
	}
	if err := s.Check(); err != nil {
		return r, err
	}
	var err error
	if r.Optimizer, err = s.Optimizer.Update(m.Model, s.likeTrain()); err != nil {
		return r, err
	}
	if !s.Updates() {
		r.Optimizer = autograd.Optimizer{}
	} else if s.likeTrain() {
		if s.Halves(m) {
			r.LossScale = LossScaleInput
		}
		r.Optimizer.Guard = guarded && r.LossScale == ""
	} else if !s.set.Changed("max-grad-norm") {
		r.Optimizer.MaxNorm = 0
	}
	r.Differentiate = autograd.Options{Params: s.params, NoGrad: s.Freeze, Outputs: s.outputs, Unfused: !s.fuse}
	if r.Differentiate.Precision, err = s.made(m); err != nil {
		return r, err
	}
	if !r.Bare && len(s.outputs) == 0 {
		r.Differentiate.Outputs = []string{"*"}
	}
	r.Differentiate.Losses, err = s.losses()
	return r, err
}

// Halves reports whether the step computes in float16, whose gradients need a scale of the loss.
func (s *StepFlags) Halves(m *memopt.Model) bool {
	p, _ := s.Precision() // Recipe reports the error
	return p.Half() == graph.Float16 || hasType(m, graph.Float16)
}

// hasHalves reports whether a model has values in 16 bits.
func hasHalves(m *memopt.Model) bool { return hasType(m, graph.Float16) || hasType(m, graph.BFloat16) }

func hasType(m *memopt.Model, d graph.DType) bool {
	return slices.ContainsFunc(m.Graph.Values, func(v graph.Value) bool { return v.Type.DType == d })
}

// losses reads --loss.
func (s *StepFlags) losses() (list []autograd.Loss, err error) {
	for _, text := range s.loss {
		l, err := parseLoss(text)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// ofForward are the flags that say how a step is made of a forward model.
var ofForward = []string{"outputs", "loss", "params", "fuse", "accumulate", "gradient-accumulation-steps"}

// MakeStep makes the training step of a model, as the flags describe. A model that has a backward half is a
// step already: only a given --optimizer adds to it, the update of its gradients. With accumulation it is
// the micro-step, whose memory is to be planned: the other step has no activations.
func MakeStep(a *cli.App, m *memopt.Model, f *StepFlags, guarded bool) (*memopt.Model, *report.Step, error) {
	if train.HasBackward(m) {
		return TakeStep(a, m, f)
	}
	if m.Compiled != nil {
		return nil, nil, cli.Invalid(fmt.Errorf("%s: the program has no memory but that of its arguments and results, "+
			"so that no plan can lower its peak", m.Path))
	}
	r, err := f.Recipe(m, a.Global.Seed, guarded)
	if err != nil {
		return nil, nil, err
	}
	s, err := train.MakeStep(m, r)
	if err != nil {
		return nil, nil, ClassifyGrad(m.Path, fmt.Errorf("a forward model: %w", err))
	}
	NoteGrad(a, s.Joint)
	if s.Lossless {
		a.Note("%s: makes no loss: the gradients of its outputs are inputs of the step (--loss names the outputs to "+
			"differentiate)", m.Path)
	}
	step := f.Describe(m, s)
	if f.HostDir != "" {
		step.Home, err = homeOf(s, r.Micros)
	} else if s.Update != nil {
		noteUpdate(a, s)
	}
	return s.Step, step, err
}

// homeOf is the home of a step that is made so many times for an update; no state has rows of data.
func homeOf(s *train.Steps, micros int) (*report.Home, error) {
	h, err := s.HomeSize(1, micros)
	if err != nil {
		return nil, err
	}
	return &report.Home{Weights: h.Weights, Gradients: h.Gradients, Moments: h.Moments, Read: h.Read,
		Written: h.Written}, nil
}

// Describe names in a phrase the step that the flags make of a forward model, or take as the file has it. steps is
// nil where a file is taken without an update.
func (s *StepFlags) Describe(m *memopt.Model, steps *train.Steps) *report.Step {
	step := &report.Step{Micros: 1, Made: !train.HasBackward(m)}
	j := &autograd.Joint{Updates: true}
	if steps != nil && steps.Joint != nil {
		j = steps.Joint
	}
	by := "no optimizer"
	if s.Updates() && (step.Made || !j.Updates) {
		step.Optimizer, by = &s.Optimizer.Kind, s.Optimizer.Title()
		if s.Optimizer.rate > 0 {
			by += fmt.Sprintf(" at the constant rate %g", s.Optimizer.rate)
		}
	}
	if !step.Made {
		step.Text = "the file's own, which has a backward half"
		if m.Compiled != nil && !m.Compiled.Marked {
			step.Text = "the program's own, in which no name says where the backward half begins"
		}
		if step.Optimizer != nil {
			step.Text += ", and " + by
		}
		return step
	}
	gradients := fmt.Sprintf("gradients of %d %s", len(j.Wrt), cli.Plural(len(j.Wrt), "parameter", "parameters"))
	if step.Micros = max(s.Micros, 1); step.Micros > 1 {
		gradients += fmt.Sprintf(" added up over %d micro-steps", step.Micros)
	}
	if steps.Lossless {
		gradients += " from gradients of the outputs, which are inputs"
	}
	step.Text = strings.Join([]string{s.Kept(m), gradients, by}, ", ")
	if x := j.Mixed; x != nil {
		p, _ := s.Precision() // which has been read
		step.Precision = string(p)
		pure := ""
		if p == precision.BF16Pure {
			pure = fmt.Sprintf(", %d weights in it and rounded stochastically", x.Weights)
		}
		step.Text = fmt.Sprintf("inexact, %d of %d nodes of floats in %v (%d casts)%s: ", x.Narrow, x.Narrow+x.Wide,
			x.Half, x.Casts, pure) + step.Text
	}
	return step
}

// Kept names the outputs of a forward model that stay.
func (s *StepFlags) Kept(m *memopt.Model) string {
	switch {
	case slices.Equal(s.outputs, []string{autograd.TheLosses}):
		return "loss of the file"
	case len(s.outputs) > 0:
		return "outputs " + strings.Join(s.outputs, ", ")
	}
	return cli.Plural(len(m.Graph.Outputs), "the file's output", "the file's outputs")
}

// NoteOutputs gives the cost of a forward model's large outputs, beside the loss, at the peak of its step: how much
// lower the peak is where the loss alone stays. Small differences are left out.
func NoteOutputs(a *cli.App, p *memopt.Plan, forward *memopt.Model, f *StepFlags) {
	if f.job || len(f.outputs) > 0 || p == nil || forward == p.Of || p.Base == nil || p.Sizes == nil {
		return
	}
	peak := p.Baseline().Base.Peak.Bytes
	var large []string
	for _, d := range forward.Graph.Outputs {
		n, err := forward.Graph.Values[d.Value].Type.Bytes().Eval(p.Of.Dims)
		if err == nil && n > peak/largeOutput && n > 1024 {
			large = append(large, fmt.Sprintf("%q", forward.Graph.ValueName(d.Value)))
		}
	}
	if len(large) == 0 {
		return
	}
	least, err := peakOfLoss(a, forward, f, p.Options.Order)
	if err != nil || peak-least <= peak/largeOutput {
		return
	}
	a.Note("%s %s kept to the end of the step, at the cost of %s at the peak: with --outputs loss it is %s, not %s, "+
		"before any plan", cli.Plural(len(large), "the output", "the outputs"),
		strings.Join(large, ", ")+cli.Plural(len(large), " is", " are"), report.Bytes(peak-least), report.Bytes(least),
		report.Bytes(peak))
}

// peakOfLoss is the peak of the step that is the same but for its outputs: the loss alone stays.
func peakOfLoss(a *cli.App, forward *memopt.Model, f *StepFlags, order planner.OrderChoice) (int64, error) {
	bare := *f
	bare.outputs = []string{autograd.TheLosses}
	r, err := bare.Recipe(forward, a.Global.Seed, false)
	if err != nil {
		return 0, err
	}
	s, err := train.MakeStep(forward, r)
	if err != nil {
		return 0, err
	}
	p, err := s.Step.Plan(a.Search, nil, memopt.PlanOptions{Options: planner.Options{Order: order, SkipLayout: true}})
	if err != nil || p.Base == nil {
		return 0, errors.Join(err, autograd.ErrNoLoss)
	}
	return p.Base.Peak.Bytes, nil
}

// largeOutput is the least part of the peak, one in so many, that makes an output large.
const largeOutput = 20

// TakeStep takes a model that has a backward half as it is, and appends the update if --optimizer is given
// and the model makes gradients.
func TakeStep(a *cli.App, m *memopt.Model, f *StepFlags) (*memopt.Model, *report.Step, error) {
	if err := f.Check(); err != nil {
		return nil, nil, err
	}
	if _, err := f.made(m); err != nil {
		return nil, nil, err
	}
	idle, update := f.Asked(ofForward...), f.Asked(append([]string{"optimizer", "freeze"}, OptimizerDetails...)...)
	if f.HostDir != "" && f.Updates() {
		update = append(update, "--optimizer") // as train updates, which has a home
	} else if !f.Updates() || len(f.Asked("optimizer")) == 0 {
		idle, update = append(idle, update...), nil
	}
	out, why := m, "the graph has a backward half and is taken as it is"
	step := f.Describe(m, nil)
	if len(update) > 0 {
		r, err := f.Recipe(m, a.Global.Seed, false)
		if err != nil {
			return nil, nil, err
		}
		r.Micros = 1
		s, err := train.MakeStep(m, r)
		switch {
		case f.HostDir != "" && err == nil:
			out, update = s.Step, nil
			if !s.Joint.Updates {
				step = f.Describe(m, s)
			}
			if step.Home, err = homeOf(s, 1); err != nil {
				return nil, nil, err
			}
		case errors.Is(err, autograd.ErrNoGradients) && f.HostDir == "":
			why = "the graph has a backward half without gradients of parameters by name, and is taken as it is"
		case err != nil:
			return nil, nil, ClassifyGrad(m.Path, err)
		case s.Joint.Updates:
			why = "the graph updates its parameters itself"
		default:
			out, update = s.Step, nil
			step = f.Describe(m, s)
		}
	}
	if idle = append(idle, update...); len(idle) > 0 {
		a.Warn("%s: no effect: %s", strings.Join(idle, ", "), why)
	}
	return out, step, nil
}

// noteUpdate says how much the step that updates keeps on the device while micro-steps run.
func noteUpdate(a *cli.App, s *train.Steps) {
	var sum symbolic.Expr
	for _, d := range s.Update.Graph.Inputs {
		if _, shared := s.Step.Graph.Lookup(s.Update.Graph.ValueName(d.Value)); !shared {
			sum = sum.Add(d.Type.Bytes())
		}
	}
	text := sum.String() + " bytes"
	if n, ok := sum.Const(); ok {
		text = report.Bytes(n)
	}
	a.Note("planning the micro-step; the step that applies the sums (grad --apply-out) has %s of "+
		"optimizer state, which is on the device throughout, in addition", text)
}
