package budget

import (
	"context"
	"math"

	"memopt/planner/arena"
)

// movedWork is the counted work of MovedBound.
const movedWork = 60_000_000

// MovedBound returns a lower bound on the time that any plan takes beyond a step, as a share of it, where the
// arena takes at most so many bytes and values may move to the host over a link of so many bytes per second
// each way; see remat.Graph.MovedBound. It holds for the order of the evaluator. carried is the bytes that the
// link may have moved before the moment that proves it.
func MovedBound(ctx context.Context, p *Problem, bytes int64, rate float64) (overhead float64, carried int64) {
	t := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State)
	units := unitsPerSecond(p.Seconds)
	if units == 0 {
		return 0, 0
	}
	least, carried := t.loose.MovedBound(ctx, rounded(bytes), rate/units, movedWork)
	if least == math.MaxInt64 {
		return math.Inf(1), carried
	}
	return float64(least) / t.stepCost(), carried
}
