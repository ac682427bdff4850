package estimate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/precision"
	"memopt/hint"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/symbolic"
	"memopt/train"
	"memopt/view/report"
)

// step is the estimated object: the models that a training step executes, in the types that count.
type step struct {
	opts  Options
	read  *memopt.Model
	steps *train.Steps // nil for a graph used unchanged
	rows  int64        // of steps
	// models are the step and, where gradients are accumulated, the update. They share states by name.
	models []*memopt.Model
	// trained are the parameters of a derived step; nil for a graph used unchanged. lossless marks a
	// step derived from a model without a loss.
	trained  []string
	lossless bool
	// params are the parameters, by name, with their elements.
	params map[string]int64
	kinds  map[string]kind // of values that stay throughout a step, by name
	master int64           // bytes of master weights
	memory int64
	// reserve is the memory that no step can have, without the allocator's rounding.
	reserve int64
	arena   int64 // of the step without a plan
	// home is the file of the states of homed, the steps whose states have one; nil without.
	homed *train.Steps
	home  *report.Home
}

// newStep makes the step of a model.
func newStep(m *memopt.Model, o Options) (*step, error) {
	s := &step{opts: o, read: m}
	if d := o.Device; d != nil {
		s.memory, s.reserve = d.Memory, d.Reserve
	}
	if o.Memory > 0 {
		s.memory = o.Memory
	}
	if o.Reserve != nil {
		s.reserve = *o.Reserve
	}
	if !train.HasBackward(m) {
		if err := s.differentiate(o.Recipe); err != nil {
			return nil, err
		}
	} else if err := s.take(m); err != nil {
		return nil, err
	}
	if err := s.bound(); err != nil {
		return nil, err
	}
	if err := s.classify(); err != nil {
		return nil, err
	}
	if err := s.lodge(); err != nil {
		return nil, err
	}
	s.master = s.masterBytes()
	if s.steps == nil {
		for i, x := range s.models {
			s.models[i] = s.retyped(x)
		}
	}
	return s, nil
}

// lodge sizes the home of the states, if they have one. Values that move have the rest of the host's memory.
func (s *step) lodge() error {
	if s.homed == nil {
		return nil
	}
	h, err := s.homed.HomeSize(s.rows, s.opts.Recipe.Micros)
	if err != nil {
		return err
	}
	s.home = &report.Home{Weights: h.Weights, Gradients: h.Gradients, Moments: h.Moments, Read: h.Read,
		Written: h.Written, Budget: s.opts.HostBudget, Link: s.opts.Moves.Link.BytesPerSecond}
	if s.opts.HostBudget > 0 {
		s.opts.Moves.HostBudget = min(s.opts.Moves.HostBudget, max(s.opts.HostBudget-h.Bytes(), 0))
	}
	return nil
}

// differentiate makes the models of a forward model's step. If the model makes no loss, the gradients
// of its outputs come from outside.
func (s *step) differentiate(r train.Recipe) (err error) {
	r.Seeds = true
	made, err := s.make(r)
	if s.steps = made; err != nil {
		// A step takes its bytes whether a job could feed it or not.
		if made, _ = train.MakeStep(s.read, r); made == nil {
			return err
		}
	}
	s.lossless, s.models, s.trained = made.Lossless, modelsOf(made), made.Params
	if r.Home {
		s.homed = made
	}
	return nil
}

// take takes a model that has a backward half as it is, but for the place of its states.
func (s *step) take(m *memopt.Model) error {
	s.models = []*memopt.Model{m}
	if !s.opts.Recipe.Home {
		return nil
	}
	if s.opts.Precision != precision.AsIs {
		return &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf("%s: has a backward half, whose types stay where "+
			"its states have a home: leave out %v", m.Path, hint.Precision)}
	}
	made, err := train.MakeStep(m, s.opts.Recipe)
	if err != nil {
		return err
	}
	s.homed, s.models = made, []*memopt.Model{made.Step}
	return nil
}

// modelsOf are the models of a job's steps.
func modelsOf(s *train.Steps) []*memopt.Model {
	if s.Update == nil {
		return []*memopt.Model{s.Step}
	}
	return []*memopt.Model{s.Step, s.Update}
}

// make makes the steps of a forward model in the types that count.
func (s *step) make(r train.Recipe) (*train.Steps, error) {
	if s.opts.Precision == precision.FP16Mixed && r.LossScale == "" {
		r.LossScale, r.Optimizer.Guard = "loss_scale", false
	}
	// Stochastic rounding counts updates, in a state. A file in bfloat16 is counted as it is: its own step may lack the
	// operator set that rounds.
	r.Optimizer.Stochastic = s.opts.Precision == precision.BF16Pure && !slices.ContainsFunc(s.read.Graph.Values,
		func(v graph.Value) bool { return v.Type.DType == graph.BFloat16 })
	if s.rewrites() {
		r.Differentiate.Precision = s.opts.Precision
	}
	made, err := train.Make(s.read, r)
	if err != nil || s.opts.Precision == precision.AsIs || s.rewrites() {
		return made, err
	}
	// The names of trained parameters and the roles of states are those of the graph's own types.
	own := &step{opts: s.opts, read: s.read, steps: made, models: modelsOf(made), trained: made.Params}
	if err := own.classify(); err != nil {
		return nil, err
	}
	return own.retypedSteps(), nil
}

// rewrites reports whether the step is made in the types of the precision, as a job has it. Other steps have their
// values counted in them.
func (s *step) rewrites() bool { return s.opts.Recipe.Home && s.opts.Precision != precision.AsIs }

// bound requires bindings for all symbols that sizes need.
func (s *step) bound() error {
	for _, m := range s.models {
		if _, err := live.EvalSizes(m.Graph, m.Dims); err != nil {
			return err
		}
	}
	if s.steps == nil {
		return nil
	}
	s.rows = s.steps.Rows
	if s.steps.Batch != "" {
		n, ok := s.steps.Step.Dims[s.steps.Batch]
		if !ok {
			return &symbolic.UnboundError{Symbols: []string{s.steps.Batch}}
		}
		s.rows = n
	}
	return nil
}

// describe is a result with the facts that precede any plan.
func (s *step) describe() *Result {
	r := &Result{Runtime: Own, Path: s.read.Path, StructureSHA256: s.read.StructureSHA256,
		Dims: maps.Clone(s.read.Dims), Precision: s.opts.Precision, Memory: s.memory,
		Link: s.opts.Moves.Link.BytesPerSecond}
	if s.steps != nil {
		r.Joint = s.steps.Joint
	}
	if d := s.opts.Device; d != nil {
		r.Device, r.DeviceSource = d.Name, d.Source
	}
	if s.trained != nil {
		r.Made, r.Optimizer = true, s.opts.Recipe.Optimizer.Kind
		r.Micros = max(s.opts.Recipe.Micros, 1)
	}
	if r.Lossless = s.lossless; s.lossless {
		r.Notes = append(r.Notes, "The model makes no loss: gradients of its outputs are inputs of the step, and "+
			"the memory of a loss comes on top.")
	}
	if r.Precision != precision.AsIs && !s.rewrites() {
		t := parts.TypesOf(r.Precision)
		r.Types = &t
	}
	return r
}

// limit is the bytes of the device for inputs, weights and the arena.
func (s *step) limit() int64 { return s.memory - s.reserve - s.master - s.slack() }

// profile is the device whose times count.
func (s *step) profile() *device.Profile {
	if s.opts.Device != nil {
		return s.opts.Device
	}
	return &device.Default
}

// device is the executing device if its kernels' workspaces are known: the CPU, in the graph's own
// types; else nil.
func (s *step) device() executor.Device {
	if s.profile().Name == cpuProfile && (s.opts.Precision == precision.AsIs || s.rewrites()) {
		return cpu.Device{}
	}
	return nil
}

// cpuProfile is the name of the CPU's profile.
const cpuProfile = "cpu"

// selection plans the steps of a forward model.
func (s *step) selection(strategy memopt.Strategy) train.Selection {
	profile := *s.profile()
	if s.device() == nil && profile.Name == cpuProfile {
		profile.Name += ", " + string(s.opts.Precision) // no kernel of the CPU's is asked for workspaces
	}
	sel := train.Selection{Strategy: strategy, Seed: s.opts.Seed,
		Options: memopt.PlanOptions{Options: planner.Options{Profile: &profile, Chunk: s.opts.Chunk},
			Threads: s.opts.Threads}}
	sel.Traits.Device, sel.Moves = s.device(), s.opts.Moves
	return sel
}

// outcome plans the step.
func (s *step) outcome(ctx context.Context, strategy memopt.Strategy) (*Outcome, error) {
	plans, moving, err := s.plans(ctx, strategy)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Plans: plans, Overhead: plans[0].Overhead, Nodes: plans[0].Recompute.Nodes,
		stopped: plans[0].Stopped}
	if moving != nil {
		out.Overhead, out.Nodes, out.stopped = moving.Overhead, moving.Plan.Recompute.Nodes, moving.Plan.Stopped
		plans[0] = moving.Whole()
	}
	if out.Copies, err = plans[0].Copies(timelimit.Without(ctx), s.opts.Moves.Link); err != nil {
		return nil, err
	}
	worst := slices.MaxFunc(plans, func(a, b *memopt.Plan) int { return cmp.Compare(a.Arena.Bytes, b.Arena.Bytes) })
	if at := worst.After.Peak; at.Step >= 0 {
		out.Node = worst.Analysis.Graph.NodeLabel(at.Node)
	}
	if strategy == nil {
		s.arena = worst.Arena.Bytes
	}
	out.Parts = s.persistent().Add(arenaParts(worst))
	out.Parts.State += s.master
	out.Parts.Master = s.master
	out.Parts.Rounding = s.rounding(worst.Arena.Bytes)
	out.Parts.Reserve = s.reserve + out.Parts.Rounding
	return out, s.serve(ctx, out)
}

// plans plans the models; only the step has a strategy. moving is the step's plan where values may move.
func (s *step) plans(ctx context.Context, strategy memopt.Strategy) (plans []*memopt.Plan, moving *memopt.Moving,
	err error) {
	sel := s.selection(strategy)
	if s.steps != nil {
		made, err := s.steps.Plan(ctx, s.rows, 0, sel)
		if err != nil {
			return nil, nil, err
		}
		plans := []*memopt.Plan{made.Step.Plan}
		if made.Update != nil {
			plans = append(plans, made.Update.Plan)
		}
		return plans, made.Step.Moving, nil
	}
	for i, m := range s.models {
		if i > 0 {
			strategy = nil
		}
		beside := s.beside(strategy)
		if b, ok := beside.(memopt.Budget); ok && s.opts.Moves.Asked() {
			sel.Options.Device = s.device()
			moves := s.opts.Moves
			moves.Seed = s.opts.Seed
			if moving, err = m.PlanMoves(ctx, b, sel.Options, moves); err != nil {
				return nil, nil, err
			}
			plans = append(plans, moving.Plan)
			continue
		}
		p, err := s.planModel(ctx, m, beside, sel.Options)
		if err != nil {
			return nil, nil, err
		}
		plans = append(plans, p)
	}
	return plans, moving, nil
}

// planModel plans a model for the device that executes it.
func (s *step) planModel(ctx context.Context, m *memopt.Model, strategy memopt.Strategy,
	o memopt.PlanOptions) (*memopt.Plan, error) {
	o.Device = s.device()
	return m.Plan(ctx, strategy, o)
}

// beside is a budget for everything less persistent memory that the step does not read.
func (s *step) beside(strategy memopt.Strategy) memopt.Strategy {
	b, ok := strategy.(memopt.Budget)
	if !ok || len(s.models) == 1 {
		return strategy
	}
	g := s.models[0].Graph
	s.each(func(name string, _ kind, n int64) {
		if v, ok := g.Lookup(name); !ok || !stays(g, v) {
			b.Total -= n
		}
	})
	b.Total = max(b.Total, 1)
	return b
}

// arenaParts are the parts of a plan's peak that lie in its arena.
func arenaParts(p *memopt.Plan) parts.Parts {
	at, gaps := p.AtPeak()
	a := p.Analysis
	roles := live.FindRoles(a.Graph, p.Sizes.States, a.Backward, a.Order)
	always := live.PersistentParts(a.Graph, p.Sizes, roles)
	return parts.Parts{Gradients: at.Gradients - always.Gradients, Activations: at.Activations,
		Temporaries: at.Temporaries + at.Inner + gaps, Gaps: gaps, Workspace: at.Workspace}
}

// countParameters fills in the number of parameters and the cost of each.
func (r *Result) countParameters(s *step) {
	for _, n := range s.params {
		r.Parameters += n
	}
	if !r.Made || r.Parameters == 0 || !s.opts.Recipe.Optimizer.Uniform() { // parameters differ in their states
		return
	}
	types := r.Types
	if types == nil {
		types = s.ownTypes()
	}
	if types != nil {
		per := types.PerParameter(len(s.opts.Recipe.Optimizer.States()))
		r.PerParameter = &per
	}
}

// ownTypes are the types of a graph's parameters; nil if they differ.
func (s *step) ownTypes() *parts.Types {
	d := graph.Undefined
	g := s.models[0].Graph
	for _, name := range s.sortedParams() {
		v, ok := g.Lookup(name)
		if !ok {
			return nil
		}
		switch t := g.Values[v].Type.DType; d {
		case graph.Undefined, t:
			d = t
		default:
			return nil
		}
	}
	return &parts.Types{Weights: d, Activations: d, Gradients: d, Moments: d}
}
