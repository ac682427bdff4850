package planner

import (
	"context"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
)

// The search for an order may visit orderVisits nodes, and in large graphs orderRuns times as many
// as there are.
const (
	orderVisits = 4_000_000
	orderRuns   = 600
)

// orderWork is the work that an order of a graph is worth.
func orderWork(g *graph.Graph) int64 { return max(orderVisits, orderRuns*int64(len(g.Nodes))) }

// memoryOrder looks for an order of the main graph with a lower simulated peak than the start
// order, and with the same results: producers stay before readers, the forward half stays before
// the backward half and keeps its nodes, and nodes with state, side effects or unseeded random
// draws keep their sequence.
//
// It constructs a number of orders by list scheduling and by ONNX Runtime's rules, judges each by
// the simulator, and improves the best by moving nodes out of the step at which it peaks. work
// bounds the nodes that are visited, in simulations and otherwise. What it returns never peaks
// higher than start; where it finds nothing better, or the halves of start are interleaved in a way
// that only start itself allows, that is start. The error is one of the simulator's.
func memoryOrder(ctx context.Context, m *graph.Model, b live.Boundary, start graph.Order, sizes *live.Sizes, work int64) (graph.Order, error) {
	c := newOrderConstraints(m, b, start)
	if c == nil {
		return start, nil
	}
	s := newOrderSearch(ctx, m.Graph, c, sizes, work)
	if s.start = s.judge(start); s.start == nil {
		return nil, s.err
	}
	s.try(c.legal(start))
	yield := graph.NoNode
	if b.Kind == live.YieldBoundary {
		yield = b.Node
	}
	s.construct(live.MemoryEfficientOrder(m.Graph, yield))
	s.improve()
	if s.err != nil {
		return nil, s.err
	}
	if best := s.kept[0]; best.peak < s.start.peak && best.order.Check(m.Graph) == nil && slices.Equal(live.Split(m.Graph, b, best.order), c.backward) {
		return best.order, nil
	}
	return start, nil
}

// judgedOrder is an order and what the simulator says of it.
type judgedOrder struct {
	order graph.Order
	peak  int64
	// energy sums the squares of the live bytes near the peak, in units of the peak: of two orders
	// with one peak, that with less is closer to a lower one.
	energy float64
}

// better reports whether x has the lower peak, or less energy at the same peak.
func (x *judgedOrder) better(y *judgedOrder) bool {
	return x.peak < y.peak || x.peak == y.peak && x.energy < y.energy*(1-1e-9)
}

// keptOrders is the number of orders that are improved.
const keptOrders = 2

// orderSearch judges orders and keeps the best.
type orderSearch struct {
	ctx     context.Context
	g       *graph.Graph
	c       *orderConstraints
	buffers *orderBuffers
	steps   []live.Step // by node
	program *live.Program
	sim     live.Simulator
	start   *judgedOrder
	bound   int64          // bytes that no order gets below
	kept    []*judgedOrder // the best first
	work    int64          // left
	err     error
}

func newOrderSearch(ctx context.Context, g *graph.Graph, c *orderConstraints, sizes *live.Sizes, work int64) *orderSearch {
	s := &orderSearch{ctx: ctx, g: g, c: c, work: work}
	s.program = live.NewProgram(g, graph.FileOrder(g), sizes)
	s.steps = slices.Clone(s.program.Steps)
	s.buffers = newOrderBuffers(g, s.program, c.start)
	return s
}

// done reports whether the search has to stop.
func (s *orderSearch) done() bool { return s.err != nil || s.work <= 0 || s.ctx.Err() != nil }

// simulate returns the timeline of an order, good until the next one, or nil after an error.
func (s *orderSearch) simulate(order graph.Order) *live.Timeline {
	s.work -= int64(len(order))
	for i, id := range order {
		s.program.Steps[i] = s.steps[id]
	}
	t, err := s.sim.Run(s.program)
	if err != nil {
		s.err = err
		return nil
	}
	return t
}

// judge simulates an order.
func (s *orderSearch) judge(order graph.Order) *judgedOrder {
	t := s.simulate(order)
	if t == nil {
		return nil
	}
	s.bound = max(s.bound, t.LowerBound)
	j := &judgedOrder{order: order, peak: t.Peak.Bytes}
	near := t.Peak.Bytes - t.Peak.Bytes/8
	for _, bytes := range t.Live {
		if bytes > near {
			over := float64(bytes-near) / float64(t.Peak.Bytes)
			j.energy += over * over
		}
	}
	return j
}

// try judges an order, which must obey the constraints, and keeps it if it is among the best.
func (s *orderSearch) try(order graph.Order) {
	j := s.judge(order)
	if j == nil {
		return
	}
	at := slices.IndexFunc(s.kept, func(old *judgedOrder) bool { return j.better(old) })
	if at < 0 {
		at = len(s.kept)
	}
	if slices.ContainsFunc(s.kept, func(old *judgedOrder) bool { return old.peak == j.peak && old.energy == j.energy }) {
		return // most likely the same order
	}
	s.kept = slices.Insert(s.kept, at, j)
	s.kept = s.kept[:min(len(s.kept), keptOrders)]
}
