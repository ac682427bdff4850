package cluster

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// move sets one axis.
type move struct {
	axis    int
	setting int32
	ratio   float64 // excess bytes saved per second when it was last evaluated
}

// descend switches clusters on until the peak is at a rung or no move lowers the excess any more,
// taking the move with the largest saving per second each time. Ratios are evaluated again only for
// the moves that lead the list, since a cluster mostly saves less the more others are on (the lazy
// greedy of Minoux, "Accelerated greedy algorithms for maximizing submodular set functions", 1978).
// Then it undoes moves that the target does not need.
func (s *Search) descend(ctx context.Context, from *point, rung int) {
	cur := from
	moves := s.moves()
	s.rate(ctx, cur, moves, rung)
	for cur.peak > s.rungs[rung] && !s.done(ctx) {
		next := s.bestMove(ctx, cur, moves, rung)
		if next == nil {
			s.rate(ctx, cur, moves, rung)
			if next = s.bestMove(ctx, cur, moves, rung); next == nil {
				break
			}
		}
		cur = next
	}
	s.trim(ctx, cur, max(s.rungs[rung], cur.peak))
}

// moves lists for every strategy all occurrences and half of them.
func (s *Search) moves() []move {
	var out []move
	for i := range s.axes {
		for _, t := range s.axes[i].choices {
			out = append(out, move{axis: i, setting: t.base + t.members})
			if half := (t.members + 1) / 2; half < t.members {
				out = append(out, move{axis: i, setting: t.base + half})
			}
		}
	}
	return out
}

// with returns the point of the settings but for one axis.
func (s *Search) with(pt *point, axis int, setting int32) *point {
	settings := slices.Clone(pt.settings)
	settings[axis] = setting
	return s.evaluate(settings)
}

// rate evaluates the ratios of all moves.
func (s *Search) rate(ctx context.Context, cur *point, moves []move, rung int) {
	for i := range moves {
		if m := &moves[i]; !s.done(ctx) {
			m.ratio = ratioOf(cur, s.with(cur, m.axis, m.setting), rung)
		}
	}
}

// ratioOf is the excess that a move saves per second. A move that saves bytes at no cost comes
// before all others.
func ratioOf(from, to *point, rung int) float64 {
	if to.peak == infeasiblePeak {
		return 0
	}
	gain, seconds := from.excess[rung]-to.excess[rung], to.seconds-from.seconds
	if gain > 0 && seconds <= 0 {
		return math.Inf(1)
	}
	if gain <= 0 {
		return 0
	}
	return gain / seconds
}

// bestMove returns the point behind the best move, or nil if no move that leads the list saves
// bytes.
func (s *Search) bestMove(ctx context.Context, cur *point, moves []move, rung int) *point {
	slices.SortStableFunc(moves, func(x, y move) int { return cmp.Compare(y.ratio, x.ratio) })
	for i := 0; i < len(moves) && moves[i].ratio > 0 && !s.done(ctx); i++ {
		next := s.with(cur, moves[i].axis, moves[i].setting)
		moves[i].ratio = ratioOf(cur, next, rung)
		if moves[i].ratio <= 0 {
			continue
		}
		// Another whose old ratio is better may lead now; it comes in the next round.
		if i+1 < len(moves) && moves[i+1].ratio > moves[i].ratio {
			return s.bestMove(ctx, cur, moves, rung)
		}
		return next
	}
	return nil
}

// trim lowers the count of each axis as far as the peak stays at the target.
func (s *Search) trim(ctx context.Context, pt *point, target int64) {
	for i := range s.axes {
		if pt.settings[i] == 0 {
			continue
		}
		low, high := s.axes[i].of(pt.settings[i]).base, pt.settings[i] // high fits
		for low < high && !s.done(ctx) {
			mid := low + (high-low)/2
			setting := mid
			if mid == s.axes[i].of(pt.settings[i]).base {
				setting = 0 // count 0 of any strategy is off
			}
			if trial := s.with(pt, i, setting); trial.peak <= target && trial.seconds <= pt.seconds {
				pt, high = trial, mid
				if setting == 0 {
					break
				}
			} else {
				low = mid + 1
			}
		}
	}
}
