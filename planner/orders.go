package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner/order"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// OrderChoice names an order of execution.
type OrderChoice string

const (
	// OrderAuto is OrderORT for a graph with a YieldOp and without a boundary recorded by memopt (which has then
	// put the nodes in order itself), else OrderFile, except that states are written behind the readers of their
	// old values if this spares copies and the peak does not rise. A plan with a Session starts from that order, too;
	// ORTModule runs the graph as it is in the order of the file.
	OrderAuto OrderChoice = "auto"
	// OrderFile is the order of the file.
	OrderFile OrderChoice = "file"
	// OrderORT is ONNX Runtime's memory-efficient order.
	OrderORT OrderChoice = "ort"
	// OrderMemory starts from the order that OrderAuto is and looks for one with a lower peak. It
	// needs sizes.
	OrderMemory OrderChoice = "memory"
)

// OrderChoices lists the valid choices.
var OrderChoices = []OrderChoice{OrderAuto, OrderFile, OrderORT, OrderMemory}

// chooseOrder returns the order that a choice other than OrderMemory means.
func chooseOrder(m *graph.Model, b live.Boundary, choice OrderChoice) (graph.Order, error) {
	if choice == "" || choice == OrderAuto {
		choice = OrderFile
		if b.Kind == live.YieldBoundary && !arranged(m) {
			choice = OrderORT
		}
	}
	switch choice {
	case OrderFile:
		return graph.Topological(m.Graph)
	case OrderORT:
		yield := graph.NoNode
		if b.Kind == live.YieldBoundary {
			yield = b.Node
		}
		return ortsim.MemoryEfficientOrder(m.Graph, yield), nil
	}
	return nil, fmt.Errorf("order %q: wanted one of %v", choice, OrderChoices)
}

// arranged reports whether memopt has put the nodes of a file in order.
func arranged(m *graph.Model) bool {
	_, rewritten := m.Meta(recompute.Key)
	_, recorded := m.Meta(live.BoundaryKey)
	return rewritten || recorded
}

// writingLate returns an order that writes states behind the readers of their old values, if some would have to
// be copied in the given one and the peak does not rise by that.
func (r *request) writingLate(o graph.Order) (graph.Order, error) {
	g := r.model.Graph
	sizes, err := live.EvalSizes(g, r.opts.Dims)
	if err != nil || r.opts.Aliased != nil {
		return o, nil // unbound symbols are reported when sizes are needed
	}
	if sizes.States, err = live.FindStates(r.model); err != nil || len(sizes.States) == 0 {
		return o, err
	}
	simulate := func(o graph.Order) (*live.Timeline, error) {
		if sizes.Failures, err = op.FailuresOf(r.model, r.types, o, r.opts.Dims); err != nil {
			return nil, err
		}
		return live.Simulate(g, o, withScratch(sizes, r.opts.Workspace))
	}
	best, err := simulate(o)
	if err != nil || len(best.Copied) == 0 {
		return o, err
	}
	file, copied, backward := o, best.Copied, live.Split(g, r.boundary, o)
	for _, failing := range []bool{false, true} {
		late := live.WriteLate(g, file, sizes, backward, copied, failing)
		t, err := simulate(late)
		if err != nil {
			return nil, err
		}
		if len(t.Copied) < len(best.Copied) && t.Peak.Bytes <= best.Peak.Bytes {
			o, best = late, t
		}
	}
	return o, nil
}

// inLeast makes the plan in the order of least memory that is found. An order with a lower peak of live bytes
// may have a larger arena, and a higher peak after recomputation, so plans are compared: in neither is the
// result worse than the plan in the order of OrderAuto or in the file's order.
//
// A plan for a budget takes the order that is best for the unchanged graph, and another one only if the budget
// is infeasible in that.
func (r *request) inLeast(ctx context.Context) (*Plan, error) {
	if r.least == nil {
		var err error
		if r.least, err = r.memoryOrders(ctx); err != nil {
			return nil, err
		}
	}
	judged := *r
	budgeted := r.opts.Budget() != nil
	if budgeted {
		judged.opts.Strategy, judged.opts.RowPeaks = nil, false
	}
	var plans []*Plan // the best first
	for _, o := range r.least {
		p, err := judged.in(ctx, o)
		if err != nil {
			return nil, err
		}
		if len(plans) == 0 || !p.worse(plans[0]) {
			plans = slices.Insert(plans, 0, p)
		} else {
			plans = append(plans, p)
		}
	}
	if !budgeted {
		return plans[0], nil
	}
	var first error
	for _, p := range plans {
		fit, err := r.in(ctx, p.Analysis.Order)
		if !errors.Is(err, ErrInfeasible) {
			return fit, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// inSession makes the plan for a budget in ORTModule, whose session runs a planned file in any order. Plans start from
// the memory-efficient order, and from that of the file, ORTModule's default order, too where the unchanged graph takes
// less memory in it, as in tiny nets, or where the budget is infeasible in the other. The cheaper plan is taken.
func (r *request) inSession(ctx context.Context, efficient graph.Order) (*Plan, error) {
	file, err := chooseOrder(r.model, r.boundary, OrderFile)
	if err != nil {
		return nil, err
	}
	lower, err := r.lowerInSession(file, efficient)
	if err != nil {
		return nil, err
	}
	first, done := ctx, func() {}
	if lower {
		first, done = timelimit.Share(ctx, 1.0/2)
	}
	p, err := r.in(first, efficient)
	done()
	var none *InfeasibleError
	if err != nil && !errors.As(err, &none) || err == nil && !lower || slices.Equal(file, efficient) {
		return p, err
	}
	q, err := r.in(ctx, file)
	var neither *InfeasibleError
	switch {
	case none != nil && errors.As(err, &neither):
		neither.InOtherOrder(none)
		return nil, neither
	case p != nil && errors.Is(err, ErrInfeasible):
		return p, nil
	case err != nil || p == nil:
		return q, err
	case p.Overhead < q.Overhead || p.Overhead == q.Overhead && p.Session.Planned <= q.Session.Planned:
		return p, nil
	}
	return q, nil
}

// lowerInSession reports whether the unchanged graph takes less memory in ORTModule in one order than in another; not
// without sizes.
func (r *request) lowerInSession(one, other graph.Order) (bool, error) {
	var peaks [2]int64
	for i, o := range []graph.Order{one, other} {
		var err error
		if peaks[i], err = r.sessionOf(o, nil); err != nil {
			var unbound *symbolic.UnboundError
			if errors.As(err, &unbound) {
				return false, nil // which the plan's own error says
			}
			return false, err
		}
	}
	return peaks[0] < peaks[1], nil
}

// worse reports whether a plan takes more than another in any way.
func (p *Plan) worse(q *Plan) bool {
	return p.Planned.Peak.Bytes > q.Planned.Peak.Bytes ||
		p.Arena != nil && q.Arena != nil && p.Arena.Bytes > q.Arena.Bytes
}

// memoryOrders returns the file's order, that of OrderAuto, and that with the lowest peak of live
// bytes that is found, each once.
func (r *request) memoryOrders(ctx context.Context) ([]graph.Order, error) {
	m, b, opts := r.model, r.boundary, &r.opts
	file, err := chooseOrder(m, b, OrderFile)
	if err != nil {
		return nil, err
	}
	start, err := chooseOrder(m, b, OrderAuto)
	if err != nil {
		return nil, err
	}
	sizes, err := live.EvalSizes(m.Graph, opts.Dims)
	if err != nil {
		return nil, fmt.Errorf("order %q: %w", OrderMemory, err)
	}
	if sizes.States, err = live.FindStates(m); err != nil {
		return nil, err
	}
	if len(sizes.States) > 0 {
		if sizes.Failures, err = op.FailuresOf(m, r.types, start, opts.Dims); err != nil {
			return nil, err
		}
	}
	if opts.Aliased != nil {
		sizes.Alias(m.Graph, opts.Aliased)
	}
	best, err := order.Lean(ctx, m, b, start, withScratch(sizes, opts.Workspace), order.Work(m.Graph))
	if err != nil {
		return nil, err
	}
	orders := []graph.Order{file}
	for _, o := range []graph.Order{start, best} {
		if !slices.ContainsFunc(orders, func(known graph.Order) bool { return slices.Equal(known, o) }) {
			orders = append(orders, o)
		}
	}
	return orders, nil
}

// withScratch adds the workspaces of kernels, which are live during their step, to the memory inside nodes.
func withScratch(sizes *live.Sizes, workspace []int64) *live.Sizes {
	if workspace == nil {
		return sizes
	}
	inner := slices.Clone(workspace)
	for i, n := range sizes.Inner {
		inner[i] += n
	}
	scratch := *sizes
	scratch.Inner = inner
	return &scratch
}
