// Package order looks for an order of execution of a training graph with a low peak of live bytes.
//
// Orders are constructed by list scheduling, from the front and from the back, with a rule for
// trees (Liu 1987) and a look ahead; nodes are then moved out of the peak step of the best orders.
// For example a weight gradient moves before the peak if that frees its operands there. The halves
// keep their nodes, and states and random draws their sequence: see constraints.
package order

import (
	"context"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	ortsim "memopt/sim/ort"
)

// The search for an order may visit minVisits nodes, and in large graphs visitsPerNode times as
// many as there are.
const (
	minVisits     = 4_000_000
	visitsPerNode = 600
)

// Work returns the nodes that Lean may visit in a graph that is worth it.
func Work(g *graph.Graph) int64 { return max(minVisits, visitsPerNode*int64(len(g.Nodes))) }

// Lean looks for an order of the main graph with a lower simulated peak than the start order, and
// with the same results: producers stay before readers, the forward half stays before the backward
// half and keeps its nodes, and nodes with state, side effects or unseeded random draws keep their
// sequence.
//
// It constructs a number of orders by list scheduling and by ONNX Runtime's rules, judges each by
// the simulator, and improves the best by moving nodes out of its peak step. work bounds the
// visited nodes, in simulations and otherwise. The result never peaks higher than start; without an
// improvement, or if the halves of start are interleaved in a way that only start itself allows, it
// is start. The error is one of the simulator's.
func Lean(
	ctx context.Context, m *graph.Model, b live.Boundary, start graph.Order, sizes *live.Sizes, work int64,
) (graph.Order, error) {
	c := newConstraints(m, b, start)
	if c == nil {
		return start, nil
	}
	s := newSearch(ctx, m.Graph, c, sizes, work)
	if s.start = s.judge(start); s.start == nil {
		return nil, s.err
	}
	s.try(c.legal(start))
	yield := graph.NoNode
	if b.Kind == live.YieldBoundary {
		yield = b.Node
	}
	s.construct(ortsim.MemoryEfficientOrder(m.Graph, yield))
	s.improve()
	if s.err != nil {
		return nil, s.err
	}
	if best := s.kept[0]; best.peak < s.start.peak && best.order.Check(m.Graph) == nil &&
		slices.Equal(live.Split(m.Graph, b, best.order), c.backward) {
		return best.order, nil
	}
	return start, nil
}

// judged is an order and its simulation.
type judged struct {
	order graph.Order
	peak  int64
	// energy sums the squares of the live bytes near the peak, in units of the peak: of two orders
	// with the same peak, the one with less energy is closer to a lower peak.
	energy float64
}

// better reports whether x has the lower peak, or less energy at the same peak.
func (x *judged) better(y *judged) bool {
	return x.peak < y.peak || x.peak == y.peak && x.energy < y.energy*(1-1e-9)
}

// keptMost is the number of orders that are improved.
const keptMost = 2

// search judges orders and keeps the best.
type search struct {
	ctx     context.Context
	g       *graph.Graph
	c       *constraints
	buffers *buffers
	steps   []live.Step // by node
	program *live.Program
	sim     live.Simulator
	start   *judged
	bound   int64     // bytes that no order gets below
	kept    []*judged // the best first
	work    int64     // left
	err     error
}

func newSearch(ctx context.Context, g *graph.Graph, c *constraints, sizes *live.Sizes, work int64) *search {
	s := &search{ctx: ctx, g: g, c: c, work: work}
	s.program = live.NewProgram(g, graph.FileOrder(g), sizes)
	s.steps = slices.Clone(s.program.Steps)
	s.buffers = newBuffers(g, s.program, c.start)
	return s
}

// done reports whether the search has to stop.
func (s *search) done() bool { return s.err != nil || s.work <= 0 || s.ctx.Err() != nil }

// simulate returns the timeline of an order, good until the next one, or nil after an error.
func (s *search) simulate(order graph.Order) *live.Timeline {
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
func (s *search) judge(order graph.Order) *judged {
	t := s.simulate(order)
	if t == nil {
		return nil
	}
	s.bound = max(s.bound, t.LowerBound)
	j := &judged{order: order, peak: t.Peak.Bytes}
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
func (s *search) try(order graph.Order) {
	j := s.judge(order)
	if j == nil {
		return
	}
	at := slices.IndexFunc(s.kept, func(old *judged) bool { return j.better(old) })
	if at < 0 {
		at = len(s.kept)
	}
	if slices.ContainsFunc(s.kept, func(old *judged) bool { return old.peak == j.peak && old.energy == j.energy }) {
		return // most likely the same order
	}
	s.kept = slices.Insert(s.kept, at, j)
	s.kept = s.kept[:min(len(s.kept), keptMost)]
}
