package pytorch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/modules"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/planner/moduleplan"
	torchsim "memopt/sim/torch"
	"memopt/symbolic"
)

// Options of Make. Without a limit and without Every, no module is recomputed.
type Options struct {
	// Total is the most bytes that parameters, buffers, inputs and the step's values may take together; Share
	// bounds the step's values as a share of those without checkpoints. 0 means no limit.
	Total int64
	Share float64
	// Every puts every block under a checkpoint.
	Every bool
	// Map lists the nodes of each module, for example "h.0.attn" (modules.Read); nil takes the file's own.
	Map map[string][]string
	// Profile is of the device whose times count; nil means device.Default.
	Profile *device.Profile
	// Gradients are the options of the step's gradients. The program keeps the outputs that Outputs names beside
	// the loss; nil means that it keeps no others.
	Gradients autograd.Options
	// Accumulating adds gradients to the sums of steps before, which are no part of the step.
	Accumulating bool
}

// Source is the model file of a plan.
type Source struct {
	Path            string
	StructureSHA256 string
	Device          string // whose kernels the step has: "cpu" or "cuda"
	Dims            symbolic.Env
	Inputs          []torchsim.TracedInput
	Parameters      map[string][]int64 // the shapes of those that are trained, by their names in the program
	// Node names the node of the model that a step runs; "" in a step that PyTorch traced.
	Node func(s *torchsim.Step) string
}

// Plan is a choice of modules, and the memory of PyTorch with it.
type Plan struct {
	Source  Source
	Tree    *modules.Tree
	Program *torchsim.Program
	Limit   int64   // bytes in total; 0 without a limit
	Share   float64 // Options.Share
	Step    float64 // estimated seconds of a step without checkpoints
	// Joint describes the differentiation of the model; nil for a step that PyTorch traced.
	Joint *autograd.Joint
	// Gradients are those that the step makes.
	Gradients     torchsim.Gradients
	GradientSizes []int64 // the bytes of each, in the order that the step makes them
	space         *moduleplan.Search

	Baseline    *moduleplan.Plan // without recomputation
	Chosen      *moduleplan.Plan
	Every       *moduleplan.Plan // every block; nil if that makes no block keep less
	EverySecond *moduleplan.Plan
	Fits        bool
	Ladder      []Rung // the costs of other budgets (Climb)
}

// Rung is the cheapest plan for a share of the step's bytes.
type Rung struct {
	Share float64
	Plan  *moduleplan.Plan
}

// InfeasibleError means that no choice of modules fits.
type InfeasibleError struct {
	Limit, Lowest, Held int64 // bytes in total; Held are parameters, buffers and inputs
}

func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("no choice of modules fits: the lowest peak in PyTorch is %d bytes, the budget %d", e.Lowest,
		e.Limit)
}

// ErrBackward: the model has a backward half.
var ErrBackward = errors.New("has a backward half: PyTorch's step is told of a forward model, as torch.onnx.export " +
	"writes it")

// shares are the rungs of a ladder.
var shares = []float64{0.9, 0.75, 0.6, 0.45, 0.3}

// Make plans modules of a forward model. The error is modules.ErrNoModules, a *torchsim.NoRow,
// ErrBackward, an error of Differentiate or a *symbolic.UnboundError. A plan that does not fit is one with
// Fits false, of the lowest peak that was found.
func Make(ctx context.Context, m *memopt.Model, o Options) (*Plan, error) {
	p, err := Read(ctx, m, o)
	if err != nil {
		return nil, err
	}
	if len(p.Tree.Modules) == 0 {
		return nil, modules.ErrNoModules
	}
	p.search(ctx, o)
	return p, nil
}

// Read reads the step of a forward model as PyTorch runs it, without a plan: Chosen and Baseline recompute no
// modules. The errors are those of Make, except the one for a file without modules.
func Read(ctx context.Context, m *memopt.Model, o Options) (*Plan, error) {
	p := &Plan{Share: o.Share, Fits: true}
	var err error
	if p.Tree, err = modules.Read(m.Model, o.Map); errors.Is(err, modules.ErrNoModules) {
		p.Tree, err = modules.Bare(m.Model), nil
	}
	if err != nil {
		return nil, err
	}
	if o.Gradients.Params == nil {
		o.Gradients.Params = trained(m.Graph, p.Tree)
	}
	step, how, err := m.Training(o.Gradients, nil)
	switch {
	case err != nil:
		return nil, err
	case how == nil:
		return nil, ErrBackward
	}
	seconds, err := planner.NodeSeconds(m.Model, m.Types, m.Dims, o.Profile)
	if err != nil {
		return nil, err
	}
	all, err := planner.NodeSeconds(step.Model, step.Types, m.Dims, o.Profile)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		p.Step += s
	}
	p.Program, err = torchsim.Build(m.Model, m.Types, torchsim.Options{Dims: m.Dims, Tree: p.Tree, Wrt: how.Wrt,
		Loss: how.Loss, Keep: kept(m.Graph, o.Gradients.Outputs, how.Loss), Seconds: seconds})
	if err != nil {
		return nil, err
	}
	p.Joint = how
	if p.Source, err = sourceOf(m, p.Tree, how.Wrt); err != nil {
		return nil, err
	}
	p.begin(ctx, o)
	return p, nil
}

// kept lists the outputs beside the loss that globs name.
func kept(g *graph.Graph, globs []string, loss string) (names []string) {
	for _, d := range g.Outputs {
		name := g.ValueName(d.Value)
		if name != loss && slices.ContainsFunc(globs, func(glob string) bool { return graph.MatchGlob(glob, name) }) {
			names = append(names, name)
		}
	}
	return names
}

// MakeTraced plans modules of a step that PyTorch traced. Options.Map and Options.Gradients have no use there.
// path names the file in reports. A plan that does not fit is one with Fits false.
func MakeTraced(ctx context.Context, t *torchsim.Traced, path, hash string, o Options) *Plan {
	p := ReadTraced(ctx, t, path, hash, o)
	p.search(ctx, o)
	return p
}

// ReadTraced is Read for a step that PyTorch traced.
func ReadTraced(ctx context.Context, t *torchsim.Traced, path, hash string, o Options) *Plan {
	p := &Plan{Share: o.Share, Fits: true, Tree: t.Tree, Program: t.Program,
		Source: Source{Path: path, StructureSHA256: hash, Device: t.Device, Dims: symbolic.Env{}, Inputs: t.Inputs,
			Parameters: t.Parameters, Node: func(*torchsim.Step) string { return "" }}}
	profile := cmp.Or(o.Profile, &device.Default)
	for i := range t.Steps {
		k := &t.Kernels[i]
		seconds := profile.Kernel(k.FLOPs > 0, k.Type, float64(k.FLOPs), float64(k.Moved))
		p.Step += seconds
		t.Steps[i].Seconds = seconds
		if i < t.Backward {
			t.Program.Seconds += seconds
		}
	}
	p.begin(ctx, o)
	return p
}

// begin makes the plan without checkpoints.
func (p *Plan) begin(ctx context.Context, o Options) {
	p.Gradients, p.GradientSizes = p.Program.Gradients(), p.Program.GradientSizes()
	if o.Accumulating {
		p.Program = p.Program.Accumulating()
	}
	p.space = moduleplan.New(ctx, p.Program)
	p.Baseline = p.space.Of(nil)
	p.Chosen = p.Baseline
}

// Within is the cheapest choice of modules found that brings the step within so many bytes, persistent ones
// included; fits is false without such a choice, and the plan is then the one with the lowest peak found.
func (p *Plan) Within(ctx context.Context, total int64) (plan *moduleplan.Plan, fits bool) {
	return p.space.Best(ctx, total)
}

// trained lists the file's trained parameters. nil means that it has no such list, and roles decide.
func trained(g *graph.Graph, tree *modules.Tree) []string {
	var out []string
	for _, name := range tree.Parameters {
		if v, ok := g.Lookup(name); ok && g.Values[v].IsInitializer() {
			out = append(out, name)
		}
	}
	return out
}

// search makes the plans.
func (p *Plan) search(ctx context.Context, o Options) {
	s := p.space
	if blocks := s.Blocks(); len(blocks) > 0 {
		p.Every = s.Of(blocks)
		var second []int32
		for i := 0; i < len(blocks); i += 2 {
			second = append(second, blocks[i])
		}
		p.EverySecond = s.Of(second)
		if o.Every {
			p.Chosen = p.Every
		}
	}
	switch {
	case o.Share > 0:
		p.Limit = p.of(o.Share)
	case o.Total > 0:
		p.Limit = o.Total
	}
	if p.Limit > 0 {
		p.Chosen, p.Fits = s.Best(ctx, p.Limit)
	}
}

// Climb finds the costs of other budgets, for reports, until the context ends.
func (p *Plan) Climb(ctx context.Context) {
	for _, share := range shares {
		if ctx.Err() != nil {
			return
		}
		if r, ok := p.space.Best(ctx, p.of(share)); ok {
			p.Ladder = append(p.Ladder, Rung{share, r})
		}
	}
}

// of is the total bytes for a share of the step's values.
func (p *Plan) of(share float64) int64 {
	return p.Program.Held + int64(share*float64(p.Baseline.Usage.Peak-p.Program.Held))
}

// Infeasible is the error of a plan that does not fit, nil of one that does.
func (p *Plan) Infeasible() error {
	if p.Fits {
		return nil
	}
	return &InfeasibleError{Limit: p.Limit, Lowest: p.Chosen.Usage.Peak, Held: p.Program.Held}
}

// Names are the names of the modules of a plan, in order of execution.
func (p *Plan) Names(x *moduleplan.Plan) []string {
	out := []string{}
	for _, c := range x.Calls {
		out = append(out, p.Tree.Modules[p.Tree.Calls[c].Module].Name)
	}
	return out
}

// Overhead is the recomputed time, as a share of a step.
func (p *Plan) Overhead(x *moduleplan.Plan) float64 {
	if p.Step <= 0 {
		return 0
	}
	return x.Usage.Seconds / p.Step
}

// Random reports whether a module of a plan draws random numbers, so that their generator's state is kept.
func (p *Plan) Random(x *moduleplan.Plan) bool {
	for i := range p.Program.Steps[:p.Program.Backward] {
		s := &p.Program.Steps[i]
		if !s.Random {
			continue
		}
		for _, c := range x.Calls {
			if p.Tree.Within(s.Call, c) {
				return true
			}
		}
	}
	return false
}
