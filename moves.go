package memopt

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"time"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/offload"
	"memopt/recompute"
)

// MoveOptions say how values may move to the host. The zero value keeps all on the device.
type MoveOptions struct {
	Link       offload.Link // between device and host
	HostBudget int64        // bytes that copies on the host may take at once
	Seed       int64        // determines the seeds of random nodes without seeds of their own
}

// Moving is a plan whose values move to the host, beside those that it recomputes.
type Moving struct {
	Plan    *Plan            // the recomputations alone, which take more than the budget
	Laid    *planner.Plan    // the memory of Model, on the device and on the host
	Model   *graph.Model     // the graph with recomputations and moves, in its order
	Moves   []recompute.Move // of values of the graph with the recomputations alone
	Seconds float64          // of a step, waiting included
	// Overhead is the time beyond that of a step as it is, as a share of it; Recomputed is the part that
	// recomputation takes. No plan in this order has less than Bound.
	Overhead, Recomputed, Bound float64
	Budget, Peak, Arena         int64   // bytes on the device besides inputs and weights
	ArenaAsIs                   int64   // of the graph as it is
	StepAsIs                    float64 // seconds
	Persistent                  int64   // those of inputs and weights
	HostPeak, Moved             int64   // bytes on the host at once, and all that are copied there
	HostArena                   int64   // bytes of the copies' layout there, at least HostPeak

	Rewritten *Rewritten // Model, beside the graph as it is
	Asked     Budget     // that it was planned to
	Options   MoveOptions
	waited    float64           // seconds of a step in which computations wait for copies
	file      *recompute.Record // that it was read from; nil: it was planned
}

// Whole is the plan of Model as it is: the memory and the times of the recomputed graph with its moves.
func (p *Moving) Whole() *Plan {
	of := *p.Plan.Of
	of.Model, of.Types, of.close = p.Laid.Model, p.Laid.Types, nil
	return &Plan{p.Laid, &of}
}

// Optimal reports whether it is proved that no plan in this order, with its regions in parts, ends a step sooner.
func (p *Moving) Optimal() bool { return p.Bound >= p.Overhead }

// Asked reports whether values may move at all.
func (o MoveOptions) Asked() bool { return o.Link.BytesPerSecond != 0 && o.HostBudget != 0 }

// PlanMoves looks for the plan within a budget that ends a step first, where values are kept, recomputed or moved to
// the host. The error is that of Plan; a *planner.InfeasibleError where no plan was found.
func (m *Model) PlanMoves(ctx context.Context, b Budget, o PlanOptions, mo MoveOptions) (*Moving, error) {
	if err := mo.Link.Validate(); err != nil {
		return nil, err
	}
	s := &moveSearch{m: m, opts: o, moves: mo}
	plain := o
	plain.Chunk = ""
	asIs, err := m.Plan(ctx, nil, plain)
	if err != nil {
		return nil, err
	}
	if asIs.Arena == nil {
		return nil, &Error{OfModel, errors.New("values move only where all sizes are known")}
	}
	if s.limit = b.Bytes(asIs.Persistent, asIs.Arena.Bytes); s.limit <= 0 { // inputs and weights take all
		_, err := m.Plan(ctx, b, o)
		return nil, err
	}
	s.best = &Moving{Seconds: math.Inf(1)}
	s.asIs, s.step = asIs, asIs.Step.Seconds
	if err := s.run(ctx, b); err != nil {
		return nil, err
	}
	if s.best.Plan == nil {
		return nil, s.infeasible
	}
	s.best.Bound = s.best.Overhead
	rate := mo.Link.BytesPerSecond
	if bound := s.best.Plan.MovedSum(timelimit.Without(ctx), s.limit, rate); bound < s.best.Bound {
		s.best.Bound = bound
	}
	s.best.Asked, s.best.Options = b, mo
	return s.best, s.best.note()
}

// moveSearch is the state of PlanMoves.
type moveSearch struct {
	m          *Model
	opts       PlanOptions
	moves      MoveOptions
	limit      int64 // bytes of the arena
	asIs       *Plan
	step       float64 // seconds of the step as it is
	best       *Moving
	infeasible error // why the newest plan has no moves that bring it within the budget
	ruledOut   bool  // bounds have ruled out the newest plan, before its time was over
}

// moveShares are the shares of the bytes that the link carries before the peak, by which budgets of recomputation grow
// that are tried at last: with the regions in parts of the best plan, of the one without moves, or chosen anew.
var moveShares = []struct {
	of   float64
	from regions
}{{0.9, ofBest}, {0.9, ofAlone}, {1, anew}, {0.5, anew}, {0.95, ofBest}, {0.8, anew}}

type regions uint8

const (
	anew regions = iota
	ofBest
	ofAlone
)

// firstShare is the part of the time that the plan has which moves no value, and lentShare that of the rest which the
// first one with moves has.
const (
	firstShare = 0.2
	lentShare  = 0.65
)

// How often values of one plan move until an arena is small enough, each time with a little less memory: so often that
// so many nodes are packed at most, but for a few times.
const (
	fewPackings  = 4
	mostPackings = 16
	packedNodes  = 50_000
)

// run plans without moves first, then with them: with regions in parts as are best then, and as the plan without moves
// has them. At last recomputation is planned to larger budgets, until the time is over.
func (s *moveSearch) run(ctx context.Context, b Budget) error {
	b.Total, b.Share, b.Arena = 0, 0, s.limit
	alone, err := s.share(ctx, s.parts(b, nil), firstShare)
	if err != nil || !s.moves.Asked() {
		return err
	}
	lent := b
	lent.Lent = planner.Lent{Link: s.moves.Link, Hold: s.moves.HostBudget}
	with, err := s.share(ctx, s.parts(lent, nil), lentShare)
	if err != nil {
		return err
	}
	if with == nil && s.ruledOut { // steps that take more than the budget do so with moves, too
		return nil
	}
	if alone != nil && (with == nil || !reflect.DeepEqual(alone.Fission, with.Fission)) {
		if _, err := s.share(ctx, s.parts(lent, alone), 0.5); err != nil {
			return err
		}
	}
	for i, next := range moveShares {
		if ctx.Err() != nil && s.best.Plan != nil {
			return nil
		}
		of := map[regions]*Plan{ofBest: s.best.Plan, ofAlone: alone}[next.from]
		known := s.asIs
		if of != nil {
			known = of
		}
		_, carried := known.MovedBound(ctx, s.limit, s.moves.Link.BytesPerSecond)
		more := b
		more.Arena += int64(next.of * float64(carried))
		if _, err := s.share(ctx, s.parts(more, of), 1/float64(len(moveShares)-i)); err != nil {
			return err
		}
	}
	return nil
}

// parts returns a function that plans to a budget, with the regions in parts of another plan or, where that is nil,
// with those that are best.
func (s *moveSearch) parts(b Budget, of *Plan) func(context.Context) (*Plan, error) {
	return func(ctx context.Context) (*Plan, error) {
		o := s.opts
		if of == nil || of.Whole == nil {
			if of != nil {
				o.Chunk = ""
			}
			return s.m.Plan(ctx, b, o)
		}
		if err := o.complete(ctx, s.m, b); err != nil {
			return nil, err
		}
		p, err := of.InParts(ctx, o.Options)
		return &Plan{p, s.m}, err
	}
}

// share tries a plan whose recomputation takes some bytes, for a part of the time that is left, and returns it; nil
// where there is none.
func (s *moveSearch) share(
	ctx context.Context, plan func(context.Context) (*Plan, error), part float64,
) (*Plan, error) {
	p := s.asIs
	if s.limit < s.asIs.Arena.Bytes {
		if end, ok := ctx.Deadline(); ok {
			var done context.CancelFunc
			ctx, done = context.WithTimeout(ctx, time.Duration(part*float64(time.Until(end))))
			defer done()
		}
		var err error
		p, err = plan(ctx)
		var none *planner.InfeasibleError
		if errors.As(err, &none) {
			if s.ruledOut = none.RuledOut() && ctx.Err() == nil; none.Budget <= s.limit || s.infeasible == nil {
				s.infeasible = err
			}
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !p.Rewrites() {
		p = s.asIs // which has no budget that it exceeds
	}
	return p, s.try(timelimit.Without(ctx), p)
}

// try moves values of the graph of a plan until it is within the budget.
func (s *moveSearch) try(ctx context.Context, p *Plan) error {
	r, err := p.Rewrite(RewriteOptions{Seed: s.moves.Seed})
	if err != nil {
		return err
	}
	if p.Arena != nil && p.Arena.Bytes <= s.limit { // it fits without moves
		if taken := s.step * (1 + p.Overhead); taken < s.best.Seconds {
			s.best = &Moving{Plan: p, Laid: p.Plan, Model: r.Model, Rewritten: r, Seconds: taken, Overhead: p.Overhead,
				Recomputed: p.Overhead, Budget: s.limit, Peak: p.Planned.Peak.Bytes, Arena: p.Arena.Bytes,
				Persistent: p.Persistent, ArenaAsIs: s.asIs.Arena.Bytes, StepAsIs: s.step}
		}
		return nil
	}
	g := r.Model.Graph
	order := graph.FileOrder(g)
	sizes, timeline, err := s.simulate(r.Model)
	if err != nil {
		return err
	}
	seconds := make([]float64, len(g.Nodes))
	for id := range seconds {
		if of := r.Origin[id]; of != graph.NoNode {
			seconds[id] = p.NodeSeconds()[of]
		}
	}
	computing := 0.0
	for _, s := range seconds {
		computing += s
	}
	gaps := planner.TimelineOf(g, order, sizes, timeline, seconds)
	if s.opts.Device != nil {
		types, err := op.Infer(r.Model)
		if err != nil {
			return &Error{OfMemopt, err}
		}
		spaces, err := s.workspaces(ctx, r.Model, types)
		if err != nil {
			return err
		}
		gaps.Bytes = slices.Clone(gaps.Bytes) // the timeline's own
		for run, id := range order {
			gaps.Bytes[run] += spaces[id]
		}
	}
	target, host := s.limit, s.moves.HostBudget
	for try := range max(fewPackings, min(mostPackings, packedNodes/len(order))) {
		moves, end, ok := gaps.Timeline.Moves(s.moves.Link, planner.MoveUnit, target, host)
		if !ok {
			s.infeasible = s.over(timeline.Peak.Bytes)
			return nil
		}
		waits := end/1e6 - computing
		if waits < 1e-9*computing {
			waits = 0 // rounding
		}
		taken := s.step*(1+p.Overhead) + waits
		if taken >= s.best.Seconds {
			return nil
		}
		moving := &Moving{Plan: p, Moves: gaps.Moves(order, moves), Seconds: taken, Overhead: p.Overhead + waits/s.step,
			Recomputed: p.Overhead, Budget: s.limit, Persistent: p.Persistent, Options: s.moves,
			ArenaAsIs: s.asIs.Arena.Bytes, StepAsIs: s.step}
		if err := s.finish(ctx, moving, r, order); err != nil {
			return err
		}
		if moving.Arena <= s.limit && moving.HostArena <= s.moves.HostBudget {
			moving.timed()
			if moving.Seconds < s.best.Seconds {
				s.best = moving
			}
			return nil
		}
		if s.infeasible = s.over(timeline.Peak.Bytes); moving.Arena > s.limit {
			s.infeasible = s.over(moving.Arena)
		}
		if moving.Arena > s.limit { // a little less may be as hard to pack
			target = s.limit - s.limit>>9*int64(try+1)
		}
		host -= max(moving.HostArena-s.moves.HostBudget, 0)
	}
	return nil
}

// over is the error of a budget that the moves of a plan do not keep: the arena that they leave.
func (s *moveSearch) over(arena int64) error {
	return &planner.InfeasibleError{Budget: s.limit, LowestArena: arena, LowestLive: arena,
		LowerBound: s.asIs.Base.LowerBound, Object: "plan with moves"}
}

// workspaces are those of a model's kernels on the device, by node; nil without a device.
func (s *moveSearch) workspaces(ctx context.Context, m *graph.Model, types *op.Result) ([]int64, error) {
	if s.opts.Device == nil {
		return nil, nil
	}
	return executor.Workspaces(ctx, m, types, s.opts.Device, executor.Options{Dims: s.m.Dims, Threads: s.opts.Threads})
}

// simulate returns the sizes and the timeline of a model in the order of its file.
func (s *moveSearch) simulate(m *graph.Model) (*live.Sizes, *live.Timeline, error) {
	sizes, err := live.EvalSizes(m.Graph, s.m.Dims)
	if err != nil {
		return nil, nil, &Error{OfModel, err}
	}
	if sizes.States, err = live.FindStates(m); err != nil {
		return nil, nil, &Error{OfModel, err}
	}
	t, err := live.Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
	return sizes, t, err
}

// finish makes the graph with the moves, and measures it.
func (s *moveSearch) finish(ctx context.Context, moving *Moving, r *Rewritten, order graph.Order) error {
	moved, err := recompute.MoveValues(r.Model, order, moving.Moves)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	moving.Model, moving.Rewritten = moved.Model, r.moved(moved)
	types, err := op.Infer(moved.Model)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	o := planner.Options{Dims: s.m.Dims, Order: planner.OrderFile, Profile: s.opts.Profile,
		Costs: make([]float64, len(moved.Origin)), CostSource: moving.Plan.ProfileName(),
		Origin: moving.Rewritten.Origin}
	for id, old := range moved.Origin {
		if old != graph.NoNode && r.Origin[old] != graph.NoNode {
			o.Costs[id] = moving.Plan.NodeSeconds()[r.Origin[old]]
		}
	}
	if o.Workspace, err = s.workspaces(ctx, moved.Model, types); err != nil {
		return err
	}
	p, err := planner.Make(moved.Model, types, o)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	moving.Laid, moving.Peak, moving.Arena = p, p.Planned.Peak.Bytes, p.Arena.Bytes
	copies, err := p.Copies(ctx, moving.Options.Link)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	if copies != nil {
		moving.HostPeak, moving.HostArena = copies.Peak, copies.Arena
		moving.Moved, moving.waited = copies.OutBytes, copies.Waited
	}
	return nil
}
