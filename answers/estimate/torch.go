package estimate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/autograd"
	"memopt/graph"
	"memopt/planner/moduleplan"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// Runtime says whose training step is estimated.
type Runtime string

// The runtimes.
const (
	// Own is memopt's, whose step memopt train runs.
	Own Runtime = "memopt"
	// Torch is PyTorch's eager mode: forward, backward, an optimizer of torch.optim, and zero_grad.
	Torch Runtime = "torch"
)

// Runtimes lists the runtimes.
var Runtimes = []Runtime{Own, Torch}

// torchStep is a training step of PyTorch, from the second one on: the state of the optimizer is there.
type torchStep struct {
	opts    Options
	plan    *pytorch.Plan
	inputs  int64 // bytes of the data of the step
	update  torchUpdate
	sums    int64 // bytes of the sums that accumulate gradients
	memory  int64
	reserve int64
	gpu     bool
}

// torchUpdate is the memory of an optimizer of torch.optim.
type torchUpdate struct {
	states      int   // tensors of a parameter's size in the state of each
	counts      bool  // and a count of steps
	copies      int   // tensors of a parameter's size that an update makes
	together    bool  // of all parameters at one time
	state       int64 // bytes of its state
	temporaries int64 // the most that an update makes at one time beside parameters, gradients and state
}

// MakeTorch estimates PyTorch's own step of a forward model. It ignores the options Precision, Effort, Chunk,
// Threads and Advise; outputs that Options.Recipe keeps are those that the program keeps to the end of the step.
// The errors are those of pytorch.Read.
func MakeTorch(ctx context.Context, m *memopt.Model, o Options) (*Result, error) {
	p, err := pytorch.Read(ctx, m, pytorch.Options{Profile: o.Device, Gradients: o.Recipe.Differentiate,
		Accumulating: o.Recipe.Micros > 1})
	if err != nil {
		return nil, err
	}
	var inputs int64
	for _, in := range p.Source.Inputs {
		n := int64(1)
		for _, d := range in.Shape {
			n *= d
		}
		if d, ok := graph.ParseDType(in.Type); ok {
			n = (n*int64(d.Bits()) + 7) / 8
		}
		inputs += n
	}
	return newTorchStep(p, inputs, o).result(ctx)
}

// MakeTraced is MakeTorch for a step that PyTorch traced; path and hash are those of its file.
func MakeTraced(ctx context.Context, t *torchsim.Traced, path, hash string, o Options) (*Result, error) {
	p := pytorch.ReadTraced(ctx, t, path, hash, pytorch.Options{Profile: o.Device, Accumulating: o.Recipe.Micros > 1})
	return newTorchStep(p, t.InputBytes, o).result(ctx)
}

func newTorchStep(p *pytorch.Plan, inputs int64, o Options) *torchStep {
	s := &torchStep{opts: o, plan: p, inputs: inputs, memory: o.Memory, gpu: p.Source.Device != cpuProfile}
	if d := o.Device; d != nil {
		s.gpu = s.gpu || d.Name != cpuProfile
		s.reserve = d.Reserve
		if s.memory == 0 {
			s.memory = d.Memory
		}
	}
	if o.Reserve != nil {
		s.reserve = *o.Reserve
	}
	s.update = updateOf(&o.Recipe.Optimizer, p.Gradients, s.gpu)
	if o.Recipe.Micros > 1 {
		s.sums = p.Gradients.Bytes
	}
	return s
}

// countBytes is the bytes of a parameter's count of steps, in float32.
const countBytes = 4

// updateOf is the memory of an optimizer in the form that PyTorch chooses by itself: on a GPU all parameters together
// (foreach), else one by one (torch/optim/adam.py, adamw.py and sgd.py). bench/torch2/step.py measures both. Counts of
// steps are on the host.
func updateOf(o *autograd.Optimizer, g torchsim.Gradients, gpu bool) torchUpdate {
	decays := o.WeightDecay > 0 || slices.ContainsFunc(o.Groups, func(g autograd.Group) bool {
		return g.WeightDecay != nil && *g.WeightDecay > 0
	})
	u := torchUpdate{together: gpu}
	switch {
	case o.Kind == "adam" || o.Kind == "adamw":
		u.states = 2
		if u.copies = 1; !gpu {
			u.counts = true
			u.copies = 2 // the root of the second moment, and its quotient by the correction of its bias
			if o.Kind == "adam" && decays {
				u.copies++ // the gradient with the decay
			}
		}
	case o.Kind == "lion": // its authors' implementation goes through the parameters one by one
		u.states, u.copies, u.together = 1, 2, false
	case o.Kind == "sgd":
		if o.Momentum > 0 {
			u.states = 1
		}
		if decays {
			u.copies++
		}
		if o.Momentum > 0 && o.Nesterov && !gpu {
			u.copies++
		}
	}
	u.state, u.temporaries = int64(u.states)*g.Bytes, int64(u.copies)*g.Largest
	if u.counts {
		u.state += countBytes * int64(g.Count)
	}
	if u.together {
		u.temporaries = int64(u.copies) * g.Bytes
	}
	return u
}

// result estimates the step, and looks for a plan if it does not fit.
func (s *torchStep) result(ctx context.Context) (*Result, error) {
	src, recipe := &s.plan.Source, &s.opts.Recipe
	r := &Result{Runtime: Torch, Path: src.Path, StructureSHA256: src.StructureSHA256, Dims: src.Dims, Made: true,
		Optimizer: recipe.Optimizer.Kind, Micros: max(recipe.Micros, 1), Joint: s.plan.Joint, Memory: s.memory,
		Foreach: s.gpu && s.opts.Recipe.Optimizer.Kind != "lion"}
	if d := s.opts.Device; d != nil {
		r.Device, r.DeviceSource = d.Name, d.Source
	}
	s.countParameters(r)
	r.Plain = s.outcome(ctx, s.plan.Baseline)
	fits, known := r.Fits()
	switch {
	case !known:
	case fits:
		r.Planned = r.Plain
	default:
		s.search(ctx, r)
		r.Advice = r.expandable()
	}
	return r, nil
}

// countParameters fills in the number of parameters and the bytes of each.
func (s *torchStep) countParameters(r *Result) {
	for _, shape := range s.plan.Source.Parameters {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		r.Parameters += n
	}
	if all := s.plan.Gradients.Bytes; r.Parameters > 0 && all%r.Parameters == 0 {
		n := all / r.Parameters
		moments := int64(len(s.opts.Recipe.Optimizer.States()))
		r.PerParameter = &parts.PerParameter{Weight: n, Gradient: n, Moments: moments * n}
	}
}

// search looks for the cheapest choice of modules that makes the step fit.
func (s *torchStep) search(ctx context.Context, r *Result) {
	limit := s.memory - s.reserve - s.update.state - s.sums
	if s.allocator() != ByRuntime {
		limit -= s.plan.Baseline.Usage.Blocks - s.plan.Baseline.Usage.Peak
	}
	for range tries {
		if limit <= s.plan.Program.Held {
			return
		}
		best, _ := s.plan.Within(ctx, limit)
		r.Stopped = ctx.Err() != nil
		if best == nil {
			return
		}
		out := s.outcome(ctx, best)
		if out.fits(s.memory) {
			r.Planned, r.Lowest = out, 0
			return
		}
		r.Lowest = min(cmp.Or(r.Lowest, out.Total()), out.Total(), r.Plain.Total())
		if s.allocator() == ByRuntime || r.Stopped {
			return
		}
		limit -= max(out.Total()-s.memory, s.memory/tightening) // the allocator takes more than the plan
	}
}

// allocator is the one that serves the step; ByRuntime: its bytes are counted as they are asked for.
func (s *torchStep) allocator() Allocator {
	if s.opts.Allocator == ByRuntime && s.gpu && s.reserve > 0 {
		return Caching
	}
	return s.opts.Allocator
}

// outcome is the step with a choice of modules, at the worse of two moments: the peak of forward and backward, and
// the update, when all gradients are live.
func (s *torchStep) outcome(ctx context.Context, x *moduleplan.Plan) *Outcome {
	p := s.plan.Program
	out := &Outcome{Overhead: s.plan.Overhead(x), Nodes: s.again(x)}
	held := parts.Parts{Weights: p.Held, Inputs: s.inputs, Gradients: s.sums, State: s.update.state}
	sim := p.Simulator()
	usage := sim.Run(x.Calls)
	at := sim.Parts(len(x.Calls))
	out.Parts = held.Add(parts.Parts{Gradients: at.Gradients, Activations: at.Activations,
		Temporaries: at.Temporaries, Workspace: at.Work})
	step := &p.Steps[usage.At]
	if out.Node = s.plan.Source.Node(step); out.Node == "" {
		out.Node = step.Op
	}
	held.Gradients = s.plan.Gradients.Bytes
	held.Temporaries = s.update.temporaries + p.Outputs()
	if update := held.Total(); s.updates() && update > out.Parts.Total() {
		out.Parts, out.Node = held, s.optimizer()
	}
	out.Parts.Reserve = s.reserve
	if name := s.allocator(); name != ByRuntime {
		j := &job{held: s.heldSizes()}
		events, kept, next := sim.Events(len(x.Calls), int32(len(j.held)))
		out.serve(ctx, &s.opts, name, s.job(j, events, kept, next), memoryOf(s.memory, s.reserve))
	}
	return out
}

// again counts the recomputed steps of the forward half.
func (s *torchStep) again(x *moduleplan.Plan) (n int) {
	for i := range s.plan.Program.Steps[:s.plan.Program.Backward] {
		call := s.plan.Program.Steps[i].Call
		if slices.ContainsFunc(x.Calls, func(c int32) bool { return s.plan.Tree.Within(call, c) }) {
			n++
		}
	}
	return n
}

func (s *torchStep) updates() bool { return s.opts.Recipe.Optimizer.Kind != "" }

// optimizer names the update.
func (s *torchStep) optimizer() string { return torchOptimizers[s.opts.Recipe.Optimizer.Kind] }

// torchOptimizers are the classes of torch.optim, and Lion, which has none there.
var torchOptimizers = map[string]string{"sgd": "torch.optim.SGD", "adam": "torch.optim.Adam",
	"adamw": "torch.optim.AdamW", "lion": "Lion"}

// torchDetails describes PyTorch's step in a sentence.
func (r *Result) torchDetails() string {
	text := "The step is PyTorch's in eager mode: forward, backward"
	if r.Micros > 1 {
		text = fmt.Sprintf("The step is PyTorch's in eager mode: forward and backward %d times, with gradients added "+
			"up", r.Micros)
	}
	switch class := torchOptimizers[r.Optimizer]; {
	case class == "":
		return text + ", and no update."
	case r.Foreach:
		return fmt.Sprintf("%s, and %s, which updates all parameters together (foreach, its default on GPUs).", text,
			class)
	case r.Optimizer == "lion":
		return text + ", and Lion as its authors wrote it, which updates parameters one by one."
	default:
		return fmt.Sprintf("%s, and %s, which updates parameters one by one (its default on CPUs).", text, class)
	}
}
