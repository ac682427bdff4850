// Package cluster looks for configurations of ONNX Runtime, which name clusters of subgraphs and
// how many of each to recompute, that fit a budget for the least time. For example "Gelu+:1:2"
// recomputes two subgraphs of the cluster Gelu+, but in graphs with a YieldOp all of them.
//
// The search does not depend on the budget, so a larger one never gets a configuration that takes
// longer: the front of time against peak is explored, and the budget only picks from it.
package cluster

import (
	"context"
	"encoding/binary"
	"slices"

	"memopt/graph/live"
	"memopt/planner/arena"
	"memopt/planner/place"
)

// numRungs is the number of targets that the greedy part of the search descends to, evenly
// spread between the lower bound and the peak of the unchanged graph.
const numRungs = 16

// point is an evaluated configuration.
type point struct {
	settings []int32 // by axis
	seconds  float64 // of recomputation
	peak     int64   // live bytes; MaxInt64 if it selects nodes that cannot be cloned
	arena    int64   // -1: not packed yet
	layout   *arena.Layout
	// excess has for every rung the sum over all steps of the bytes above it: a measure of the
	// remaining distance that falls even if only one of several equal peaks is removed.
	excess   []float64
	explored uint8 // neighbourhoods that have been evaluated
}

// Search looks for configurations that are worth their time.
//
// It evaluates all of them where the work allows. Otherwise it descends greedily to a number of
// targets and then improves the front of configurations that are cheapest for their peak by Pareto
// local search (Paquete, Chiarandini and Stützle, "Pareto local optimum sets in the biobjective
// traveling salesman problem", 2004): the neighbours of every configuration on the front are
// evaluated, until the front does not change or the work is done.
type Search struct {
	p         *Problem
	axes      []axis
	rungs     []int64
	limit     int // of steps
	idle      int // steps that count for configurations that cannot be applied
	points    []*point
	known     map[string]*point
	key       []byte
	exhausted bool // all configurations have been evaluated
	err       error
}

// Problem is the graph and the clusters of a search.
type Problem struct {
	Evaluator *place.Evaluator
	Base      *live.Timeline // of the unchanged graph
	Seconds   []float64      // of one execution, by node
	// Place places the nodes that ONNX Runtime would recompute for a configuration. It returns nil
	// if one of them cannot be cloned.
	Place func(config []Entry) (*place.Trial, error)
}

// The search for a configuration may simulate minSteps steps: a few thousand configurations of a
// network of some hundred nodes. For large graphs it is as many steps as runsOfGraph executions
// have.
const (
	minSteps    = 10_000_000
	runsOfGraph = 400
)

// Work returns the steps that a search in a graph of so many nodes is worth.
func Work(nodes int) int64 { return max(minSteps, runsOfGraph*int64(nodes)) }

// NewSearch makes a search that may simulate about so many steps.
func NewSearch(p *Problem, work int64) *Search {
	s := &Search{p: p, axes: newAxes(p.Evaluator.Analysis), known: map[string]*point{}}
	s.limit = s.steps() + int(work)
	low, high := p.Base.LowerBound, p.Base.Peak.Bytes
	for r := range int64(numRungs) {
		s.rungs = append(s.rungs, low+(high-low)/numRungs*r)
	}
	return s
}

// steps counts the work so far.
func (s *Search) steps() int { return s.p.Evaluator.Steps() + s.idle }

// allMargin is how much of the work must be left to start an exhaustive search: if copies are
// split, configurations take longer than the two from which the work is estimated.
const allMargin = 3

// Run evaluates configurations until the work is done, no candidate is left, or the context ends.
// If few enough exist for the work, all are evaluated and the answer is the optimum. The error is
// the simulator's.
func (s *Search) Run(ctx context.Context) error {
	began := s.steps()
	s.bounds()
	each := int64(s.steps()-began)/2 + 1
	if left := int64(s.limit - s.steps()); spaceSize(s.axes) <= left/each/allMargin {
		s.all(ctx)
	}
	if s.exhausted {
		return s.err
	}
	return s.Improve(ctx)
}

// bounds evaluates the configurations with everything off and with everything on.
func (s *Search) bounds() {
	settings := make([]int32, len(s.axes))
	s.evaluate(settings)
	for i := range settings {
		settings[i] = s.axes[i].choices[0].members
	}
	s.evaluate(settings)
}

// done reports whether the search has to stop.
func (s *Search) done(ctx context.Context) bool {
	return s.err != nil || s.steps() >= s.limit || ctx.Err() != nil
}

// all evaluates every configuration, counting through the settings.
func (s *Search) all(ctx context.Context) {
	settings := make([]int32, len(s.axes))
	for !s.done(ctx) {
		s.evaluate(settings)
		i := 0
		for i < len(settings) && settings[i]+1 == s.axes[i].settings() {
			settings[i] = 0
			i++
		}
		if i == len(settings) {
			s.exhausted = true
			return
		}
		settings[i]++
	}
}

// evaluate returns the point of the settings, and keeps a copy of them. After an error, which it
// records, the point fits no budget.
func (s *Search) evaluate(settings []int32) *point {
	s.key = s.key[:0]
	for _, x := range settings {
		s.key = binary.AppendUvarint(s.key, uint64(x))
	}
	if old := s.known[string(s.key)]; old != nil {
		return old
	}
	pt := s.simulate(settings)
	s.known[string(s.key)] = pt
	s.points = append(s.points, pt)
	return pt
}

func (s *Search) simulate(settings []int32) *point {
	pt := &point{settings: slices.Clone(settings), peak: infeasiblePeak, arena: -1,
		excess: make([]float64, len(s.rungs))}
	t := s.place(settings)
	if t == nil {
		return pt
	}
	pt.peak = t.Peak
	for i := range t.Placements {
		for _, id := range t.Placements[i].Nodes {
			pt.seconds += s.p.Seconds[id]
		}
	}
	for r, rung := range s.rungs {
		for _, bytes := range t.Timeline.Live {
			pt.excess[r] += float64(max(bytes-rung, 0))
		}
	}
	return pt
}

// place tries settings. It returns nil if they would clone a node that cannot be cloned, and after
// an error, which it records. The outcome is valid until the next trial.
func (s *Search) place(settings []int32) *place.Trial {
	t, err := s.p.Place(configuration(s.axes, settings))
	if err != nil {
		s.err = err
		return nil
	}
	if t == nil {
		s.idle += len(s.p.Base.Live) // so that the search ends even without another result
	}
	return t
}
