package offload

import (
	"cmp"
	"math"
	"slices"
)

// Room is, by run, the most bytes that can be off the device during it while no run waits for copies: those of parts
// of values that have left by then and come back in time. Copies that other runs need are not counted. The unit is
// that of the costs, us or ms; for another one it is nil.
func (t *Timeline) Room(link Link, unit string) []int64 {
	c, err := link.clock(unit)
	if err != nil {
		return nil
	}
	starts := t.times(nil, c)
	end := starts[len(starts)-1]
	room := make([]int64, len(t.Cost))
	for run := range room {
		room[run] = math.MaxInt64
	}
	back := func(g *Gap) float64 { return starts[g.Before] }
	t.limit(room, c, back, func(run int) float64 { return starts[run+1] })
	// Copies to the host are copies back in a time that runs backwards.
	out := func(g *Gap) float64 { return end - starts[g.Made+1] }
	t.limit(room, c, out, func(run int) float64 { return end - starts[run] })
	return room
}

// limit lowers room to the bytes of the gaps over each run that a link carries from a time by run until a deadline by
// gap.
func (t *Timeline) limit(room []int64, link clock, deadline func(g *Gap) float64, from func(run int) float64) {
	order := make([]int32, len(t.Gaps))
	for g := range order {
		order[g] = int32(g)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(deadline(&t.Gaps[a]), deadline(&t.Gaps[b]))
	})
	due, leaf := make([]float64, len(order)), make([]int32, len(order))
	first, last := make([][]int32, len(t.Cost)), make([][]int32, len(t.Cost)) // by run: the gaps that begin and end
	for i, g := range order {
		gap := &t.Gaps[g]
		due[i], leaf[g] = deadline(gap), int32(i)
		first[gap.After+1], last[gap.Before] = append(first[gap.After+1], g), append(last[gap.Before], g)
	}
	tree := newReturns(due)
	for run := range room {
		for _, g := range last[run] {
			tree.set(leaf[g], 0)
		}
		for _, g := range first[run] {
			tree.set(leaf[g], float64(t.Gaps[g].Size)/link.rate)
		}
		carried := tree.length[1] - max(0, from(run)-tree.latest())
		room[run] = min(room[run], int64(max(0, carried)*link.rate))
	}
}
