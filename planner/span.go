package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner/arena"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// Span proves that a plan keeps within its budget at all sizes of a box.
type Span struct {
	Box envelope.Box
	// Parts is the number of parts of the box that share memory in different ways. In each, the arena that
	// was packed for its largest sizes suffices for all others.
	Parts int
	// Worst are the sizes that take the most bytes that the budget counts, and Most is these bytes.
	Worst symbolic.Env
	Most  int64
	// Repairs is how many plans were given up because they do not fit everywhere.
	Repairs int
	// Prices compare the plan with plans for single sizes.
	Prices []Price
}

// Price compares the cost of a plan for a span at one size with that of the plan for this size alone.
type Price struct {
	Dims     symbolic.Env
	Total    int64     // bytes of inputs, weights and arena
	Overhead float64   // more time, as a share
	Own      *OwnPrice // nil if no plan for this size was found, or the time was up
}

// OwnPrice is that of a plan for one size.
type OwnPrice struct {
	Total    int64
	Overhead float64
}

// maxRepairs is how many plans are given up before a span is.
const maxRepairs = 12

// MakeSpan plans for all bindings of a box at once: one set of placements that keeps within the budget at
// every size. The strategy must be a Budget of bytes, in memopt's own arena. The plan is that of the largest
// sizes, repaired where it does not fit at others; its figures are those of the largest sizes. Its Span
// proves that it fits everywhere. Errors are those of MakeContext and FormulaOf; if no plan is found that
// fits everywhere, the error is an ErrInfeasible.
func MakeSpan(ctx context.Context, m *graph.Model, types *op.Result, opts Options, box envelope.Box) (*Plan, error) {
	if err := checkSpan(&opts); err != nil {
		return nil, err
	}
	s := &spanner{ctx: ctx, model: m, types: types, opts: opts, budget: *opts.Budget(), box: box}
	p, err := s.find()
	if err != nil {
		return nil, err
	}
	return p, s.price(p)
}

// checkSpan wants a budget of bytes in memopt's own arena.
func checkSpan(opts *Options) error {
	b := opts.Budget()
	if b == nil || b.Runtime || b.Share > 0 || len(b.StashLimits) > 0 || opts.Workspace != nil {
		return errors.New("a plan for a range of sizes keeps within a number of bytes: no share, no limit of " +
			"stashes, and no other runtime or device")
	}
	return nil
}

// spanner looks for a plan for a box.
type spanner struct {
	ctx    context.Context
	model  *graph.Model
	types  *op.Result
	opts   Options
	budget Budget
	box    envelope.Box
}

// at plans at bindings.
func (s *spanner) at(ctx context.Context, env symbolic.Env, strategy Strategy) (*Plan, error) {
	o := s.opts
	o.Strategy, o.Chunk = strategy, ""
	o.Dims = symbolic.Env{}
	for name, n := range s.opts.Dims {
		o.Dims[name] = n
	}
	for name, n := range env {
		o.Dims[name] = n
	}
	return MakeContext(ctx, s.model, s.types, o)
}

// find plans at the largest sizes, and as long as that does not fit somewhere, there, or within less.
func (s *spanner) find() (*Plan, error) {
	env, budget := s.box.High(), s.budget
	var span *Span
	for repairs := range maxRepairs {
		p, err := s.at(s.ctx, env, budget)
		if err != nil {
			return nil, fmt.Errorf("at %v: %w", bindingsText(s.box, env), err)
		}
		if span, err = s.prove(p); err != nil {
			return nil, err
		}
		if span.Repairs = repairs; s.fits(span.Most) {
			return s.adopt(p, span)
		}
		if repairs%2 == 0 && !sameBindings(span.Worst, env) {
			env = span.Worst // a plan for where this one takes too much
			continue
		}
		env = s.box.High()
		over := (span.Most - s.limit()) * int64(1+repairs/2) // more each time: plans differ little for a few bytes less
		budget.Total, budget.Arena = lowered(budget.Total, over), lowered(budget.Arena, over)
	}
	return nil, fmt.Errorf("%w: no plan that was found fits in all of %v; the last one takes %d bytes at %v",
		ErrInfeasible, s.box, span.Most, bindingsText(s.box, span.Worst))
}

func lowered(budget, over int64) int64 {
	if budget == 0 {
		return 0
	}
	return max(budget-over, 1)
}

func (s *spanner) limit() int64 { return cmp.Or(s.budget.Total, s.budget.Arena) }

func (s *spanner) fits(bytes int64) bool { return bytes <= s.limit() }

// adopt is the plan at the largest sizes with the placements of another one.
func (s *spanner) adopt(p *Plan, span *Span) (*Plan, error) {
	if !sameBindings(p.Options.Dims, s.box.High()) {
		other, err := s.at(timelimit.Without(s.ctx), s.box.High(), p.Saved())
		if err != nil {
			return nil, err
		}
		p = other
	}
	p.Span = span
	return p, nil
}

func sameBindings(dims, env symbolic.Env) bool {
	for name, n := range env {
		if dims[name] != n {
			return false
		}
	}
	return true
}

// spanWork is how much work the proof for a span may take.
const spanWork = 200_000_000

// prove finds the most that a plan takes in the box. In a part whose bindings all share memory alike, no
// value is larger than at the largest sizes: so the arena that is packed for these suffices for all others.
func (s *spanner) prove(p *Plan) (*Span, error) {
	q, err := p.programs()
	if err != nil {
		return nil, err
	}
	q = q.over(s.box)
	parts, err := envelope.Partition(timelimit.Without(s.ctx), s.box, q.sample, envelope.NewWork(spanWork))
	if err != nil {
		return nil, err
	}
	span := &Span{Box: s.box, Parts: len(parts)}
	persistent, err := q.sizes.Persistent()
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		boxes, err := q.sizes.Rising(part.Box, q.opts.Dims)
		if err != nil {
			return nil, err
		}
		for _, box := range boxes {
			if err := span.weigh(s, q, box, persistent); err != nil {
				return nil, err
			}
		}
	}
	return span, nil
}

// weigh notes the memory of a plan at the largest sizes of a part.
func (span *Span) weigh(s *spanner, q *programs, box envelope.Box, persistent symbolic.Expr) error {
	env := box.High()
	bound := q.bindings(env)
	program, _, err := q.at(q.plan.Order, bound, nil)
	if err != nil {
		return err
	}
	t, err := program.Simulate()
	if err != nil {
		return err
	}
	bytes := arena.NewLayout(s.ctx, t, program.Bytes).Bytes
	if s.budget.Total > 0 {
		stay, err := persistent.Eval(bound)
		if err != nil {
			return err
		}
		bytes += stay
	}
	if bytes > span.Most {
		span.Most, span.Worst = bytes, env
	}
	return nil
}

// price compares the plan with plans for single sizes. These are searched for while there is time, or with a
// first answer as the plan itself, so that the two compare.
func (s *spanner) price(p *Plan) error {
	for _, env := range s.box.Diagonal(3) {
		here, err := s.at(timelimit.Without(s.ctx), env, p.Saved())
		if err != nil {
			return err
		}
		price := Price{Dims: env, Total: here.Persistent + here.Arena.Bytes, Overhead: here.Overhead}
		if price.Own, err = s.own(env); err != nil {
			return err
		}
		p.Span.Prices = append(p.Span.Prices, price)
	}
	return nil
}

// own is the cost of a plan for one size; nil if no plan is found, or the time is up.
func (s *spanner) own(env symbolic.Env) (*OwnPrice, error) {
	if s.ctx.Err() != nil && !(s.budget.Effort <= 0 && timelimit.Ended(s.ctx)) {
		return nil, nil
	}
	p, err := s.at(s.ctx, env, s.budget)
	if errors.Is(err, ErrInfeasible) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &OwnPrice{p.Persistent + p.Arena.Bytes, p.Overhead}, nil
}

// bindingsText prints the bindings of a box's symbols.
func bindingsText(box envelope.Box, env symbolic.Env) string {
	point := slices.Clone(box)
	for i := range point {
		point[i].Lo, point[i].Hi = env[point[i].Symbol], env[point[i].Symbol]
	}
	return point.String()
}
