package planner

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/planner/arena"
)

// unfitPeak is the peak of a configuration that cannot be obeyed.
const unfitPeak = math.MaxInt64

// clusterDepth is how many configurations that are no dearer and peak no higher make one not worth
// packing. The arena may be a little larger than the peak, so the best peak alone could miss the
// best arena.
const clusterDepth = 4

// sortClusterPoints sorts by time, then by peak, then by settings.
func sortClusterPoints(points []*clusterPoint) {
	slices.SortFunc(points, func(x, y *clusterPoint) int {
		return cmp.Or(cmp.Compare(x.seconds, y.seconds), cmp.Compare(x.peak, y.peak), slices.Compare(x.settings, y.settings))
	})
}

// front returns the points that fewer than depth others are at least as good as in both time and
// peak, sorted by time. With depth 1 it is the Pareto front.
func (s *clusterSearch) front(depth int) []*clusterPoint {
	sorted := slices.Clone(s.points)
	sortClusterPoints(sorted)
	var out []*clusterPoint
	lowest := make([]int64, 0, depth+1) // the lowest peaks so far, ascending
	for _, pt := range sorted {
		if pt.peak == unfitPeak || len(lowest) == depth && pt.peak >= lowest[depth-1] {
			continue
		}
		out = append(out, pt)
		i, _ := slices.BinarySearch(lowest, pt.peak)
		lowest = slices.Insert(lowest, i, pt.peak)
		lowest = lowest[:min(len(lowest), depth)]
	}
	return out
}

// cheapest returns the point of least time whose arena is within the budget, or an *UnfitError.
// Only what is near the front is packed, a choice that does not depend on the budget; after a
// search through all configurations it is any of them.
func (s *clusterSearch) cheapest(budget int64) (*clusterPoint, error) {
	depth := clusterDepth
	if s.exhausted {
		depth = len(s.points)
	}
	points := s.front(depth)
	for _, pt := range points {
		if pt.peak > budget {
			continue
		}
		if err := s.pack(pt); err != nil {
			return nil, err
		}
		if pt.arena <= budget {
			return pt, nil
		}
	}
	return nil, s.unfit(points, budget)
}

// unfit words how low the search got. It packs the points of lowest peak only.
func (s *clusterSearch) unfit(points []*clusterPoint, budget int64) error {
	e := &UnfitError{Budget: budget, LowestArena: math.MaxInt64, LowestLive: math.MaxInt64, What: "configuration of clusters"}
	slices.SortStableFunc(points, func(x, y *clusterPoint) int { return cmp.Compare(x.peak, y.peak) })
	for i, pt := range points {
		if pt.peak >= e.LowestArena || !s.exhausted && i >= clusterDepth && pt.arena < 0 {
			continue
		}
		if err := s.pack(pt); err != nil {
			return err
		}
		e.LowestArena, e.LowestLive = min(e.LowestArena, pt.arena), min(e.LowestLive, pt.peak)
	}
	return e
}

// pack lays out the arena of a point.
func (s *clusterSearch) pack(pt *clusterPoint) error {
	if pt.arena >= 0 {
		return nil
	}
	e := s.place(pt.settings)
	if e == nil {
		return s.err
	}
	pt.layout = arena.NewLayout(s.p.ctx, e.timeline, e.program.Bytes)
	pt.arena = pt.layout.Bytes
	return nil
}

// Neighbourhoods of a point, in the order in which they are evaluated.
const (
	oneAxis  = 1 // one axis changes
	twoAxes  = 2 // one axis loses and another gains
	allMoves = 2
)

// improve descends to all rungs, then evaluates the neighbours of the points on the front until it
// does not change any more.
func (s *clusterSearch) improve(ctx context.Context) {
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
}

// onFront reports whether one of the points from an index on is on the front.
func (s *clusterSearch) onFront(from int) bool {
	fresh := map[*clusterPoint]bool{}
	for _, pt := range s.points[from:] {
		fresh[pt] = true
	}
	return slices.ContainsFunc(s.front(1), func(pt *clusterPoint) bool { return fresh[pt] })
}

// widestGap returns the point whose neighbourhood has not been evaluated and whose neighbours on
// the front have the peaks farthest apart: there, better ones are missed most. It is nil where all
// are done.
func widestGap(front []*clusterPoint, hood uint8) *clusterPoint {
	var best *clusterPoint
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
func (s *clusterSearch) neighbours(ctx context.Context, pt *clusterPoint, hood uint8) {
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
// one more and one less, halfway to none and to all.
func (s *clusterSearch) nearby(axis int, from int32) []int32 {
	x := &s.axes[axis]
	out := []int32{0}
	for _, t := range x.strategies {
		out = append(out, t.base+t.members)
	}
	if from == 0 {
		for _, t := range x.strategies {
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
