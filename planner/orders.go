package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/order"
)

// makeForMemory plans a model in the order of least memory that is found. A lower peak of live
// bytes may come with a larger arena, and with a higher peak once something is recomputed: so what
// counts is the plan. It is worse in neither than that in the order of OrderAuto, nor than that in
// the file's.
//
// A plan to a budget takes the order that is best for the graph as it is, and another one only
// where nothing fits in that.
func makeForMemory(ctx context.Context, m *graph.Model, types *op.Result, b live.Boundary, opts Options) (*Plan, error) {
	orders, err := memoryOrders(ctx, m, b, opts)
	if err != nil {
		return nil, err
	}
	judged := opts
	if opts.Budget != nil {
		judged.Budget, judged.Level, judged.Config, judged.Placements, judged.RowPeaks = nil, UserSpecified, nil, nil, false
	}
	var plans []*Plan // the best first
	for _, order := range orders {
		p, err := makeIn(ctx, m, types, b, order, judged)
		if err != nil {
			return nil, err
		}
		if len(plans) == 0 || !p.worse(plans[0]) {
			plans = slices.Insert(plans, 0, p)
		} else {
			plans = append(plans, p)
		}
	}
	if opts.Budget == nil {
		return plans[0], nil
	}
	var first error
	for _, p := range plans {
		fit, err := makeIn(ctx, m, types, b, p.Analysis.Order, opts)
		if !errors.Is(err, ErrUnfit) {
			return fit, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// worse reports whether a plan takes more than another in any way.
func (p *Plan) worse(q *Plan) bool {
	return p.Planned.Peak.Bytes > q.Planned.Peak.Bytes || p.Arena != nil && q.Arena != nil && p.Arena.Bytes > q.Arena.Bytes
}

// memoryOrders returns the file's order, that of OrderAuto, and that with the lowest peak of live
// bytes that is found, each once.
func memoryOrders(ctx context.Context, m *graph.Model, b live.Boundary, opts Options) ([]graph.Order, error) {
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

// withScratch adds the workspaces of kernels, which are live during their step, to what lives
// inside nodes.
func withScratch(sizes *live.Sizes, workspace []int64) *live.Sizes {
	if workspace == nil {
		return sizes
	}
	inner := slices.Clone(workspace)
	for i, n := range sizes.Inner {
		inner[i] += n
	}
	return &live.Sizes{Bytes: sizes.Bytes, Inner: inner}
}
