package memopt

import (
	"context"
	"errors"
	"math"
	"time"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/offload"
	"memopt/recompute"
)

// MoveOptions say how values may move to the host. The zero value lets none.
type MoveOptions struct {
	Link       offload.Link // between device and host
	HostBudget int64        // bytes that copies on the host may take at once
}

// Moving is a plan whose values move to the host, beside those that it recomputes.
type Moving struct {
	Plan    *Plan            // the recomputations alone, which take more than the budget
	Model   *graph.Model     // the graph with recomputations and moves, in its order
	Moves   []recompute.Move // of values of the graph with the recomputations alone
	Seconds float64          // of a step, with what it waits for
	// Overhead is the time beyond that of a step as it is, as a share of it; Recomputed is the part that
	// recomputation takes. No plan in this order has less than Bound.
	Overhead, Recomputed, Bound float64
	Budget, Peak, Arena         int64   // bytes on the device besides inputs and weights
	ArenaAsIs                   int64   // of the graph as it is
	StepAsIs                    float64 // seconds
	Persistent                  int64   // those of inputs and weights
	HostPeak, Moved             int64   // bytes on the host at once, and all that are copied there
}

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
	s.limit = b.Bytes(asIs.Persistent, asIs.Arena.Bytes)
	_, carried := asIs.MovedBound(ctx, s.limit, mo.Link.BytesPerSecond)
	s.best = &Moving{Seconds: math.Inf(1)}
	s.asIs, s.step = asIs, asIs.Step.Seconds
	if err := s.run(ctx, asIs, b, carried); err != nil {
		return nil, err
	}
	if s.best.Plan == nil {
		return nil, s.infeasible
	}
	s.best.Bound = s.best.Overhead
	rate := mo.Link.BytesPerSecond
	if bound, _ := s.best.Plan.MovedBound(timelimit.Without(ctx), s.limit, rate); bound < s.best.Bound {
		s.best.Bound = bound
	}
	return s.best, nil
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
}

// moveShares are the shares of what the link carries that recomputation counts on, as they are tried.
var moveShares = []float64{1, 0.9, 0.8, 0.95, 0.5, 0}

// run tries shares until the time is over.
func (s *moveSearch) run(ctx context.Context, asIs *Plan, b Budget, carried int64) error {
	end, timed := ctx.Deadline()
	seen := map[int64]bool{}
	for i, share := range moveShares {
		budget := min(s.limit+int64(share*float64(carried)), asIs.Arena.Bytes)
		if s.moves.Link.BytesPerSecond == 0 || s.moves.HostBudget == 0 {
			budget = s.limit
		}
		if seen[budget] {
			continue
		}
		seen[budget] = true
		p := asIs
		if budget < asIs.Arena.Bytes {
			part, done := ctx, context.CancelFunc(func() {})
			if timed {
				left := time.Until(end) / time.Duration(len(moveShares)-i)
				part, done = context.WithTimeout(ctx, left)
			}
			next := b
			next.Total, next.Share, next.Arena = 0, 0, budget
			var err error
			p, err = s.m.Plan(part, next, s.opts)
			done()
			var none *planner.InfeasibleError
			if errors.As(err, &none) {
				s.infeasible = err
				continue
			}
			if err != nil {
				return err
			}
		}
		if err := s.try(p); err != nil {
			return err
		}
		if s.best.Plan != nil && ctx.Err() != nil {
			break
		}
	}
	return nil
}

// try moves values of the graph of a plan until it is within the budget.
func (s *moveSearch) try(p *Plan) error {
	r, err := p.Rewrite(RewriteOptions{})
	if err != nil {
		return err
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
	for target, tries := s.limit, 0; tries < 4; tries++ {
		moves, end, ok := gaps.Timeline.Moves(s.moves.Link, planner.MoveUnit, target, s.moves.HostBudget)
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
			Recomputed: p.Overhead, Budget: s.limit, Persistent: p.Persistent,
			ArenaAsIs: s.asIs.Arena.Bytes, StepAsIs: s.step}
		for _, m := range moves {
			if !m.Clean {
				moving.Moved += gaps.Gaps[m.Gap].Size
			}
		}
		if err := s.finish(moving, r, order); err != nil {
			return err
		}
		if moving.Arena <= s.limit {
			s.best = moving
			return nil
		}
		s.infeasible = s.over(moving.Arena)
		target -= moving.Arena - s.limit
	}
	return nil
}

// over is the error of a budget that the moves of a plan do not keep: the arena that they leave.
func (s *moveSearch) over(arena int64) error {
	return &planner.InfeasibleError{Budget: s.limit, LowestArena: arena, LowestLive: arena,
		LowerBound: s.asIs.Base.LowerBound, Object: "plan with moves"}
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
func (s *moveSearch) finish(moving *Moving, r *Rewritten, order graph.Order) error {
	moved, err := recompute.MoveValues(r.Model, order, moving.Moves)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	moving.Model = moved.Model
	types, err := op.Infer(moved.Model)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	p, err := planner.Make(moved.Model, types, planner.Options{Dims: s.m.Dims, Order: planner.OrderFile})
	if err != nil {
		return &Error{OfMemopt, err}
	}
	moving.Peak, moving.Arena = p.Planned.Peak.Bytes, p.Arena.Bytes
	if h := p.Planned.Host; h != nil {
		moving.HostPeak = h.Peak.Bytes
	}
	return nil
}
