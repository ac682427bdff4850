package planner

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/envelope"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

// Formula is the peak of live bytes of a training graph, or of a plan for it, over ranges of its
// symbols.
type Formula struct {
	*envelope.Envelope
	// Persistent is the bytes of inputs and weights. Together with the peak they are the least that a
	// step takes; the arena adds the rounding of buffers and gaps between them.
	Persistent symbolic.Expr

	programs *programs
}

// FormulaOf returns the peak of an unchanged training graph over a box of bindings. Only the options Order
// and Aliased count; symbols that the box lacks are taken from Options.Dims. The order is that of a plan at
// each binding (OrderMemory excepted, which has no formula). The error is envelope.ErrPieces if there is no
// useful formula, a *symbolic.UnboundError for symbols neither in the box nor bound, or one of a
// simulation.
func FormulaOf(ctx context.Context, m *graph.Model, types *op.Result, opts Options,
	box envelope.Box) (*Formula, error) {
	p, err := newPrograms(m, types, opts)
	if err != nil {
		return nil, err
	}
	return p.formula(ctx, box)
}

// Formula returns the peak of the rewritten graph over a box of bindings: of the plan's placements in
// the plan's order, also where another plan would be better. The plan may be one without sizes.
// Errors are those of FormulaOf.
func (p *Plan) Formula(ctx context.Context, box envelope.Box) (*Formula, error) {
	q, err := p.programs()
	if err != nil {
		return nil, err
	}
	return q.formula(ctx, box)
}

// programs makes the programs of a graph, or of a plan, at any bindings.
type programs struct {
	*request
	sizes      *envelope.Sizes
	states     []live.State
	plan       *recompute.Analysis // whose order the placements are in; nil for the unchanged graph
	placements []recompute.Placement
}

func newPrograms(m *graph.Model, types *op.Result, opts Options) (*programs, error) {
	switch {
	case opts.Order == OrderMemory:
		return nil, fmt.Errorf("order %q is looked for at one size: the peak has no formula in it; take "+
			"another order, or bind all symbols", OrderMemory)
	case opts.Workspace != nil:
		return nil, fmt.Errorf("workspaces of kernels are known at one size only: the peak has no formula " +
			"with them")
	}
	r, err := newRequest(m, types, opts)
	if err != nil {
		return nil, err
	}
	p := &programs{request: r, sizes: envelope.NewSizes(m.Graph, opts.Aliased)}
	if opts.Aliased == nil {
		p.states, err = live.FindStates(m)
	}
	return p, err
}

// programs are those of the plan.
func (p *Plan) programs() (*programs, error) {
	opts := p.Options
	opts.Workspace = nil
	q, err := newPrograms(p.Model, p.Types, opts)
	if err != nil {
		return nil, err
	}
	q.plan, q.placements = p.Analysis, p.Placements
	return q, nil
}

// A formula takes at most about this much work (envelope.Work), for each node of the graph a part of
// it: a few tenths of a second for a thousand nodes.
const (
	formulaWork     = 5_000_000
	formulaStepWork = 1_500
)

func (p *programs) formula(ctx context.Context, box envelope.Box) (*Formula, error) {
	p = p.over(box)
	persistent, err := p.sizes.Persistent()
	if err != nil {
		return nil, err
	}
	work := envelope.NewWork(formulaWork + formulaStepWork*int64(len(p.model.Graph.Nodes)))
	e, err := envelope.Build(ctx, box, p.sample, p.bound, work)
	if err != nil {
		return nil, err
	}
	return &Formula{e, persistent.Bind(p.opts.Dims), p}, nil
}

// over returns the programs with the symbols of a box open.
func (p *programs) over(box envelope.Box) *programs {
	q := *p
	r := *p.request
	q.request = &r
	r.opts.Dims = maps.Clone(p.opts.Dims)
	for _, a := range box {
		delete(r.opts.Dims, a.Symbol)
	}
	return &q
}

// bindings are those of a box, completed by those of the options.
func (p *programs) bindings(env symbolic.Env) symbolic.Env {
	all := symbolic.Env{}
	for name, n := range p.opts.Dims {
		all[name] = n
	}
	for name, n := range env {
		all[name] = n
	}
	return all
}

// sample simulates at a binding.
func (p *programs) sample(box symbolic.Env) (*envelope.Sample, error) {
	env := p.bindings(box)
	o, err := p.fileOrder()
	if err != nil {
		return nil, err
	}
	first, err := p.sampleIn(o, env)
	if err != nil || p.plan != nil || p.opts.Order != "" && p.opts.Order != OrderAuto || p.opts.Aliased != nil {
		return first, err
	}
	return p.sampleLate(first, o, env)
}

// sampleLate is writingLate in symbols: it returns the sample of the order that is taken there.
func (p *programs) sampleLate(best *envelope.Sample, file graph.Order, env symbolic.Env) (*envelope.Sample, error) {
	copied := best.Timeline.Copied
	if len(copied) == 0 {
		return best, nil
	}
	sizes, err := live.EvalSizes(p.model.Graph, env)
	if err != nil {
		return nil, err
	}
	backward := live.Split(p.model.Graph, p.boundary, file)
	for _, failing := range []bool{false, true} {
		late := live.WriteLate(p.model.Graph, file, sizes, backward, copied, failing)
		s, err := p.sampleIn(late, env)
		if err != nil {
			return nil, err
		}
		if sizes.Failures, err = op.FailuresOf(p.model, p.types, late, env); err != nil {
			return nil, err
		}
		better := len(s.Timeline.Copied) < len(best.Timeline.Copied)
		if better {
			s.AskPeaks(s.Loads, best.Loads)
			better = s.Timeline.Peak.Bytes <= best.Timeline.Peak.Bytes
		}
		if better {
			s, best = best, s
		}
		best.Adopt(s)
	}
	return best, nil
}

// bound finds loads whose maximum is at least the peak at all bindings of a box.
func (p *programs) bound(box envelope.Box) ([]envelope.Load, error) {
	order, err := p.fileOrder()
	if err != nil {
		return nil, err
	}
	holds := box.Holds(p.opts.Dims)
	program, _, err := p.at(order, p.bindings(box.High()), func(x, y symbolic.Expr, _ bool) bool {
		return holds(x, y)
	})
	if err != nil {
		return nil, err
	}
	loads, err := p.sizes.Bound(program, box, p.opts.Dims)
	for i := range loads {
		loads[i].Bytes = loads[i].Bytes.Bind(p.opts.Dims)
	}
	return loads, err
}

// fileOrder is the order of the placements, or that of the graph before states are written late.
func (p *programs) fileOrder() (graph.Order, error) {
	if p.plan != nil {
		return p.plan.Order, nil
	}
	return chooseOrder(p.model, p.boundary, p.opts.Order)
}

// sampleIn simulates in an order.
func (p *programs) sampleIn(o graph.Order, env symbolic.Env) (*envelope.Sample, error) {
	type comparison struct{ x, y symbolic.Expr }
	var asked []comparison
	known := map[string]bool{}
	program, sizes, err := p.at(o, env, func(x, y symbolic.Expr, holds bool) bool {
		if text := x.String() + "<" + y.String(); !known[text] {
			known[text] = true
			asked = append(asked, comparison{x, y})
		}
		return holds
	})
	if err != nil {
		return nil, err
	}
	s, err := p.sizes.Simulate(program, sizes, env)
	if err != nil {
		return nil, err
	}
	for _, c := range asked {
		s.Ask(c.x, c.y)
	}
	s.Bind(p.opts.Dims)
	return s, nil
}

// at makes the program at bindings, in an order.
func (p *programs) at(o graph.Order, env symbolic.Env, ask op.Asked) (*live.Program, *live.Sizes, error) {
	g := p.model.Graph
	sizes, err := live.EvalSizes(g, env)
	if err != nil {
		return nil, nil, err
	}
	if sizes.States = p.states; len(p.states) > 0 {
		if sizes.Failures, err = op.FailuresAsking(p.model, p.types, o, env, ask); err != nil {
			return nil, nil, err
		}
	}
	if p.opts.Aliased != nil {
		sizes.Alias(g, p.opts.Aliased)
	}
	if p.plan == nil {
		return live.NewProgram(g, o, sizes), sizes, nil
	}
	evaluator := place.NewEvaluator(p.plan, sizes, place.Memory{CloneBytes: p.opts.CloneBytes})
	program, err := evaluator.Program(p.placements)
	return program, sizes, err
}

// Simulated returns the peak at a binding of the box as a simulation has it, without the formula.
func (f *Formula) Simulated(box symbolic.Env) (*live.Timeline, error) {
	p := f.programs
	opts := p.opts
	opts.Dims = p.bindings(box)
	r := *p.request
	r.opts = opts
	o, err := r.order()
	if p.plan != nil {
		o, err = p.plan.Order, nil
	}
	if err != nil {
		return nil, err
	}
	program, _, err := p.at(o, opts.Dims, nil)
	if err != nil {
		return nil, err
	}
	return program.Simulate()
}

// Check compares the formula with simulations at random bindings of its box, and returns the largest
// difference in bytes; of an upper bound, by how much it is too low. The same seed draws the same bindings.
func (f *Formula) Check(ctx context.Context, points int, seed int64) (largest int64, err error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	for range points {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		env := symbolic.Env{}
		for _, a := range f.Box {
			env[a.Symbol] = a.Lo + rng.Int64N(a.Hi-a.Lo+1)
		}
		want, _, err := f.Peak(env)
		if err != nil {
			return 0, err
		}
		t, err := f.Simulated(env)
		if err != nil {
			return 0, err
		}
		if largest = max(largest, t.Peak.Bytes-want); !f.Piece(env).Bound {
			largest = max(largest, want-t.Peak.Bytes)
		}
	}
	return largest, nil
}
