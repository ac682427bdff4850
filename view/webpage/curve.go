package webpage

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"memopt"
	"memopt/planner"
)

// Point is a plan for a budget.
type Point struct {
	Budget   int64   // bytes of the arena that were allowed
	Live     int64   // peak of live bytes
	Overhead float64 // as a share of a step
	Nodes    int     // recomputed
}

// Curve plans for n budgets at equal distances below the baseline's peak, from the highest one on,
// and ends at an infeasible one. Each gets the plan that is found first, without chunked regions,
// which takes little time and is the same on every machine. Plans that cost no less than one with a
// lower peak are left out. The result begins with the lowest peak and ends with the baseline. A
// context that is done cuts it short.
func Curve(ctx context.Context, p *memopt.Plan, n int) ([]Point, error) {
	base := p.Baseline().Base.Peak.Bytes
	out := []Point{{Budget: base, Live: base}}
	for i := n; i > 0 && ctx.Err() == nil; i-- {
		share := float64(i) / float64(n+1)
		limit := int64(share * float64(base))
		if limit < p.Baseline().Base.LowerBound {
			break
		}
		q, err := toShare(ctx, p, share)
		var infeasible *planner.InfeasibleError
		if errors.As(err, &infeasible) {
			break
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Point{limit, q.Planned.Peak.Bytes, q.Overhead, q.Recompute.Nodes})
	}
	return frontier(out), nil
}

// toShare is the first plan that is found to a share of the baseline's peak.
func toShare(ctx context.Context, p *memopt.Plan, share float64) (*planner.Plan, error) {
	o := p.Baseline().Options
	o.Strategy = memopt.Budget{Share: share, Solver: "greedy"}
	o.Chunk = "" // parts are searched for with a clock
	o.Probe, o.Within, o.SkipLayout, o.RowPeaks, o.Alternatives = nil, nil, true, false, false
	return p.Again(ctx, o)
}

// frontier leaves out points that cost no less than one with a lower peak. The rest begins with the
// lowest peak.
func frontier(points []Point) []Point {
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Live, b.Live), cmp.Compare(a.Overhead, b.Overhead))
	})
	var out []Point
	for _, p := range points {
		if len(out) == 0 || p.Overhead < out[len(out)-1].Overhead {
			out = append(out, p)
		}
	}
	return out
}
