package cluster

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/planner/arena"
)

// infeasiblePeak is the peak of a configuration that cannot be applied.
const infeasiblePeak = math.MaxInt64

// packDepth is how many configurations that are no dearer and peak no higher make one not worth
// packing. The arena may be a little larger than the peak, so the best peak alone could miss the
// best arena.
const packDepth = 4

// sortPoints sorts by time, then by peak, then by settings.
func sortPoints(points []*point) {
	slices.SortFunc(points, func(x, y *point) int {
		return cmp.Or(cmp.Compare(x.seconds, y.seconds), cmp.Compare(x.peak, y.peak),
			slices.Compare(x.settings, y.settings))
	})
}

// front returns the points that fewer than depth others are at least as good as in both time and
// peak, sorted by time. With depth 1 it is the Pareto front.
func (s *Search) front(depth int) []*point {
	sorted := slices.Clone(s.points)
	sortPoints(sorted)
	var out []*point
	lowest := make([]int64, 0, depth+1) // the lowest peaks so far, ascending
	for _, pt := range sorted {
		if pt.peak == infeasiblePeak || len(lowest) == depth && pt.peak >= lowest[depth-1] {
			continue
		}
		out = append(out, pt)
		i, _ := slices.BinarySearch(lowest, pt.peak)
		lowest = slices.Insert(lowest, i, pt.peak)
		lowest = lowest[:min(len(lowest), depth)]
	}
	return out
}

// Answer is a configuration that fits a budget, or how far from it the search got.
type Answer struct {
	Fits   bool
	Config []Entry       // of least time among those that fit
	Layout *arena.Layout // of the configuration's arena
	// LowestArena is the smallest arena that any configuration reached, LowestLive the lowest peak
	// of live bytes, if the budget is infeasible. They may belong to different configurations.
	LowestArena, LowestLive int64
}

// Cheapest returns the configuration of least time whose arena is within the budget, in bytes. Only
// configurations near the front are packed, a choice that does not depend on the budget; after an
// exhaustive search it may be any of them. A context that is done ends the packing of each.
func (s *Search) Cheapest(ctx context.Context, budget int64) (*Answer, error) {
	depth := packDepth
	if s.exhausted {
		depth = len(s.points)
	}
	points := s.front(depth)
	for _, pt := range points {
		if pt.peak > budget {
			continue
		}
		if err := s.pack(ctx, pt); err != nil {
			return nil, err
		}
		if pt.arena <= budget {
			config := configuration(s.axes, pt.settings)
			return &Answer{Fits: true, Config: config, Layout: pt.layout}, nil
		}
	}
	return s.lowest(ctx, points)
}

// lowest packs the points of lowest peak only.
func (s *Search) lowest(ctx context.Context, points []*point) (*Answer, error) {
	a := &Answer{LowestArena: math.MaxInt64, LowestLive: math.MaxInt64}
	slices.SortStableFunc(points, func(x, y *point) int { return cmp.Compare(x.peak, y.peak) })
	for i, pt := range points {
		if pt.peak >= a.LowestArena || !s.exhausted && i >= packDepth && pt.arena < 0 {
			continue
		}
		if err := s.pack(ctx, pt); err != nil {
			return nil, err
		}
		a.LowestArena, a.LowestLive = min(a.LowestArena, pt.arena), min(a.LowestLive, pt.peak)
	}
	return a, nil
}

// pack lays out the arena of a point.
func (s *Search) pack(ctx context.Context, pt *point) error {
	if pt.arena >= 0 {
		return nil
	}
	t := s.place(pt.settings)
	if t == nil {
		return s.err
	}
	pt.layout = t.Layout(ctx)
	pt.arena = pt.layout.Bytes
	return nil
}

// Neighbourhoods of a point, in the order of their evaluation.
const (
	oneAxis  = 1 // one axis changes
	twoAxes  = 2 // one axis loses and another gains
	allMoves = 2
)

// Improve descends to all rungs, then evaluates the neighbours of the points on the front until it
// does not change any more, the work is done or the context ends. The error is the simulator's.
func (s *Search) Improve(ctx context.Context) error {
	s.bounds()
	for r := len(s.rungs) - 1; r >= 0 && !s.done(ctx); r-- {
		s.descend(ctx, s.points[0], r)
	}
	for hood := uint8(oneAxis); hood <= allMoves && !s.done(ctx); {
		front := s.front(1)
		pt := widestGap(front, hood)
		if pt == nil {
			hood++
			continue
		}
		before := len(s.points)
		s.neighbours(ctx, pt, hood)
		pt.explored = max(pt.explored, hood)
		if hood == twoAxes && s.onFront(before) {
			hood = oneAxis
		}
	}
	return s.err
}

// onFront reports whether one of the points from an index on is on the front.
func (s *Search) onFront(from int) bool {
	fresh := map[*point]bool{}
	for _, pt := range s.points[from:] {
		fresh[pt] = true
	}
	return slices.ContainsFunc(s.front(1), func(pt *point) bool { return fresh[pt] })
}

// widestGap returns the point whose neighbourhood has not been evaluated and whose neighbours on
// the front have the peaks farthest apart: there, better ones are missed most. It is nil where all
// are done.
func widestGap(front []*point, hood uint8) *point {
	var best *point
	widest := int64(-1)
	for i, pt := range front {
		gap := front[max(i-1, 0)].peak - front[min(i+1, len(front)-1)].peak
		if pt.explored < hood && gap > widest {
			best, widest = pt, gap
		}
	}
	return best
}

// neighbours evaluates a neighbourhood of a point.
func (s *Search) neighbours(ctx context.Context, pt *point, hood uint8) {
	for i := range s.axes {
		for _, x := range s.nearby(i, pt.settings[i]) {
			if s.done(ctx) {
				return
			}
			next := s.with(pt, i, x)
			if hood == oneAxis || next.seconds > pt.seconds {
				continue
			}
			for k := range s.axes {
				for _, y := range s.nearby(k, pt.settings[k]) {
					if k != i && !s.done(ctx) && s.with(pt, k, y).peak < pt.peak {
						s.with(next, k, y)
					}
				}
			}
		}
	}
}

// nearby lists the settings of an axis that are tried from another: off and all of every strategy,
// one more and one less, halfway to 0 and to all.
func (s *Search) nearby(axis int, from int32) []int32 {
	x := &s.axes[axis]
	out := []int32{0}
	for _, t := range x.choices {
		out = append(out, t.base+t.members)
	}
	if from == 0 {
		for _, t := range x.choices {
			out = append(out, t.base+1, t.base+(t.members+1)/2)
		}
	} else {
		t := x.of(from)
		count := from - t.base
		for _, c := range []int32{count - 1, count + 1, count / 2, count + (t.members-count+1)/2} {
			if c > 0 && c <= t.members {
				out = append(out, t.base+c)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(y int32) bool { return y == from })
}
