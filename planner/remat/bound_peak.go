package remat

import (
	"context"
	"math"
)

// PeakBound returns a lower bound on the peak (bytes) of the graph with any extra runs. It is the
// most that some first run needs with all it can do without made again behind it: more than the
// largest need of one run where tasks must not be recomputed, or not yet. The search ends after so much
// counted work (0 means no limit) or with the context.
func (g *Graph) PeakBound(ctx context.Context, work int64) int64 {
	b := newBounder(ctx, newMoments(g), 0, work)
	again := make([]bool, b.n)
	best, most := int64(0), make([]int64, b.n)
	for t := range most {
		best, most[t] = max(best, b.need[t]), math.MaxInt64
	}
	for x := range again {
		again[x] = !g.Tasks[x].Once
	}
	for b.ctx.Err() == nil {
		b.judge(again)
		t := 0
		for s := range most {
			if most[s] = min(most[s], b.bytes[s]); most[s] > most[t] {
				t = s
			}
		}
		if len(most) == 0 || most[t] <= best {
			break
		}
		c, full := b.cut.smallest(int32(t), b.limit-b.work-b.cut.work())
		if !full {
			break
		}
		best, most[t] = max(best, c.bytes), c.bytes
		again = b.cut.again
	}
	return best
}
