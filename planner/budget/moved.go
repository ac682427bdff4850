package budget

import (
	"context"
	"math"

	"memopt/planner/arena"
)

// movedWork is the counted work of MovedBound.
const movedWork = 60_000_000

// Moved is a lower bound on the time that plans take whose values may move; see MovedBound.
type Moved struct {
	Overhead float64 // the time beyond a step, as a share of it
	Carried  int64   // bytes that the link may have moved before the moment that proves it
	// Moment is the place in the order of the node at whose first execution one cut proves the bound or a part of
	// it, with a Price of a byte in seconds; -1 where no cut does.
	Moment int32
	Price  float64
}

// MovedBound returns a lower bound for all plans whose arena takes at most so many bytes and whose values may move to
// the host over a link of so many bytes per second each way; see remat.Graph.MovedBound. It holds for the order of
// the evaluator.
func MovedBound(ctx context.Context, p *Problem, bytes int64, rate float64) Moved {
	t := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State)
	units := unitsPerSecond(p.Seconds)
	if units == 0 {
		return Moved{Moment: -1}
	}
	least, carried, moment, price := t.loose.MovedCut(ctx, rounded(bytes), rate/units, movedWork)
	m := Moved{Carried: carried, Moment: moment, Price: price / units}
	if m.Overhead = float64(least) / t.stepCost(); least == math.MaxInt64 {
		m.Overhead = math.Inf(1)
	}
	return m
}

// MovedSum is the overhead of MovedBound as several moments prove it together, which takes longer.
func MovedSum(ctx context.Context, p *Problem, bytes int64, rate float64) float64 {
	t := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State)
	units := unitsPerSecond(p.Seconds)
	if units == 0 {
		return 0
	}
	least := t.loose.MovedSum(ctx, rounded(bytes), rate/units, movedWork)
	if least == math.MaxInt64 {
		return math.Inf(1)
	}
	return float64(least) / t.stepCost()
}
