package planner

import (
	"context"
	"encoding/binary"
	"slices"

	"memopt/graph"
	"memopt/planner/arena"
)

// clusterRungs is the number of targets that the greedy part of the search descends to, evenly
// spread between the lower bound and the peak of the graph as it is.
const clusterRungs = 16

// clusterPoint is an evaluated configuration.
type clusterPoint struct {
	settings []int32 // by axis
	seconds  float64 // of recomputation
	peak     int64   // live bytes; MaxInt64 where it selects what cannot be cloned
	arena    int64   // -1: not packed yet
	layout   *arena.Layout
	// excess has for every rung the sum over all steps of the bytes above it: a measure of the way
	// to go that falls even where one of several equal peaks goes and the others stay.
	excess   []float64
	explored uint8 // neighbourhoods that have been evaluated
}

// clusterSearch looks for configurations that are worth their time.
//
// It evaluates all of them where the work allows. Otherwise it descends greedily to a number of
// targets and then improves the front of configurations that are cheapest for their peak by Pareto
// local search (Paquete, Chiarandini and Stützle, "Pareto local optimum sets in the biobjective
// traveling salesman problem", 2004): the neighbours of every configuration on the front are
// evaluated, until the front does not change or the work is done.
type clusterSearch struct {
	p         *Plan
	axes      []clusterAxis
	costs     *nodeCosts
	rungs     []int64
	limit     int // of p.scratch.steps
	points    []*clusterPoint
	known     map[string]*clusterPoint
	key       []byte
	again     []graph.NodeID
	exhausted bool // all configurations have been evaluated
	err       error
}

func (p *Plan) newClusterSearch(work int64) *clusterSearch {
	s := &clusterSearch{p: p, axes: newClusterAxes(p.Analysis), costs: p.costs(),
		limit: p.scratch.steps + int(work), known: map[string]*clusterPoint{}}
	low, high := p.Base.LowerBound, p.Base.Peak.Bytes
	for r := range int64(clusterRungs) {
		s.rungs = append(s.rungs, low+(high-low)/clusterRungs*r)
	}
	return s
}

// allMargin is how much of the work must be left over for a search through all configurations to be
// started: they take longer than the two from which the work is estimated where copies are split.
const allMargin = 3

// run evaluates configurations until the work is done, nothing is left to try, or the context ends.
func (s *clusterSearch) run(ctx context.Context) error {
	began := s.p.scratch.steps
	s.bounds()
	each := int64(s.p.scratch.steps-began)/2 + 1
	if left := int64(s.limit - s.p.scratch.steps); clusterSpaceSize(s.axes) <= left/each/allMargin {
		s.all(ctx)
	}
	if !s.exhausted {
		s.improve(ctx)
	}
	return s.err
}

// bounds evaluates the configuration in which everything is off and that in which everything is on.
func (s *clusterSearch) bounds() {
	settings := make([]int32, len(s.axes))
	s.evaluate(settings)
	for i := range settings {
		settings[i] = s.axes[i].strategies[0].members
	}
	s.evaluate(settings)
}

// done reports whether the search has to stop.
func (s *clusterSearch) done(ctx context.Context) bool {
	return s.err != nil || s.p.scratch.steps >= s.limit || ctx.Err() != nil
}

// all evaluates every configuration, counting through the settings.
func (s *clusterSearch) all(ctx context.Context) {
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

// evaluate returns the point of the settings, which it keeps a copy of. After an error, which it
// records, the point is one that fits nothing.
func (s *clusterSearch) evaluate(settings []int32) *clusterPoint {
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

func (s *clusterSearch) simulate(settings []int32) *clusterPoint {
	pt := &clusterPoint{settings: slices.Clone(settings), peak: unfitPeak, arena: -1, excess: make([]float64, len(s.rungs))}
	e := s.place(settings)
	if e == nil {
		return pt
	}
	s.again = s.again[:0]
	for i := range e.placements {
		s.again = append(s.again, e.placements[i].Nodes...)
	}
	pt.peak, pt.seconds = e.peak, s.costs.of(s.again).Seconds
	for r, rung := range s.rungs {
		for _, bytes := range e.timeline.Live {
			pt.excess[r] += float64(max(bytes-rung, 0))
		}
	}
	return pt
}

// place evaluates what ONNX Runtime would make of the configuration. It returns nil where it would
// clone what cannot be cloned, and after an error, which it records. The outcome is good until the
// next evaluation.
func (s *clusterSearch) place(settings []int32) *evaluated {
	sel, _ := selectConfig(s.p.Analysis, clusterConfiguration(s.axes, settings))
	for _, i := range sel.candidates(s.p.Analysis) {
		if s.p.Analysis.Uncloneable(i) != "" {
			s.p.scratch.steps += len(s.p.Base.Live) // so that the search ends where this is all it finds
			return nil
		}
	}
	e, err := s.p.evaluate(sel)
	if err != nil {
		s.err = err
		return nil
	}
	return e
}
