// Package arena lays out many values in one allocation: from their live ranges it computes an
// offset for each. Planners and executors place values by the same rule, so a plan's arena is that
// of its run.
package arena

import (
	"context"
	"math"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/pack"
)

// Alignment is the number of bytes that every offset in an arena is a multiple of: that of the
// blocks that cudaMalloc gives (CUDA C++ Programming Guide, Device Memory Accesses).
const Alignment = 256

// Align returns a number of bytes rounded up to the alignment, or unchanged if that would overflow
// int64.
func Align(n int64) int64 {
	if n > math.MaxInt64-Alignment {
		return n
	}
	return (n + Alignment - 1) / Alignment * Alignment
}

// quickNodes is the counted work that a layout is worth in a search, for a number of buffers: one dive
// of the exact search to the end and a few steps back.
func quickNodes(buffers int) int64 { return int64(buffers + buffers/8 + 64) }

// thoroughNodes is the work that the layout of a plan is worth: the rules of the exact search take
// turns, and where one of them comes to the bound on training graphs, it does so in some tens of
// dives. A decision takes time in proportion to the buffers, hence the limit.
func thoroughNodes(buffers int) int64 {
	n := int64(max(buffers, 1))
	return max(quickNodes(buffers), min(thoroughDives*n, thoroughWork/n))
}

const (
	thoroughDives = 40
	thoroughWork  = 10_000_000
	// From manyQuick or manyThorough buffers on, the exact search is left out.
	manyQuick    = 1000
	manyThorough = 2000
)

// Layout places every buffer of a timeline in an arena.
type Layout struct {
	Offsets []int64 // by value; -1 for values without bytes of their own
	// Bytes is the size of the arena: the end of its highest buffer, and memory besides values;
	// behind these, room for the subgraphs of one node at a time (live.Timeline.Inside).
	Bytes int64
	// LowerBound is a number of bytes that no layout with these alignments is smaller than, but for
	// the rounding of the highest buffer.
	LowerBound int64
	Method     string // the method that found the layout
	// Final says that NewLayout gives the same: there are too many buffers for an exact search, and no
	// context has ended the other ones.
	Final bool
}

// NewLayout packs the buffers of a timeline: every buffer takes its size rounded up to the
// alignment, and no two that live at once share a byte. A context that is done ends the search for
// a smaller arena; the layout is complete all the same.
func NewLayout(ctx context.Context, t *live.Timeline, bytes []int64) *Layout {
	return newLayout(ctx, t, bytes, func(buffers []pack.Buffer) *pack.Result {
		return packed(ctx, buffers, manyThorough, thoroughNodes)
	})
}

// QuickLayout is NewLayout with less work, for one of many plans that are looked at.
func QuickLayout(ctx context.Context, t *live.Timeline, bytes []int64) *Layout {
	return newLayout(ctx, t, bytes, func(buffers []pack.Buffer) *pack.Result {
		return packed(ctx, buffers, manyQuick, quickNodes)
	})
}

// FirstLayout is QuickLayout with less work where there are many buffers: the first arena of at most so many
// bytes, or the smallest of a few.
func FirstLayout(ctx context.Context, t *live.Timeline, bytes []int64, most int64) *Layout {
	return newLayout(ctx, t, bytes, func(buffers []pack.Buffer) *pack.Result {
		if len(buffers) > manyQuick && !overflows(buffers) {
			return pack.First(ctx, buffers, max(most-t.Hidden-t.Inside, 0))
		}
		return packed(ctx, buffers, manyQuick, quickNodes)
	})
}

func newLayout(
	ctx context.Context, t *live.Timeline, bytes []int64, packed func([]pack.Buffer) *pack.Result,
) *Layout {
	l := &Layout{Offsets: make([]int64, len(t.Root))}
	own := func(i int) bool { return t.Root[i] == graph.ValueID(i) && bytes[i] > 0 }
	count := 0
	for i := range t.Root {
		if own(i) {
			count++
		}
	}
	ids, buffers := make([]graph.ValueID, 0, count), make([]pack.Buffer, 0, count)
	for i := range t.Root {
		if l.Offsets[i] = -1; own(i) {
			ids = append(ids, graph.ValueID(i))
			r := t.Ranges[i]
			buffers = append(buffers, pack.Buffer{
				Lower: int64(r.Start), Upper: int64(r.End), Size: Align(bytes[i]),
			})
		}
	}
	r := packed(buffers)
	l.LowerBound, l.Method, l.Final = r.LowerBound, r.Method, len(buffers) > manyThorough && ctx.Err() == nil
	for i, id := range ids {
		l.Offsets[id] = r.Offsets[i]
		l.Bytes = max(l.Bytes, r.Offsets[i]+bytes[id])
	}
	l.Bytes, l.LowerBound = l.Bytes+t.Hidden+t.Inside, l.LowerBound+t.Hidden+t.Inside
	return l
}

// packed gives buffers their places, by an exact search of so much work where there are not too many.
func packed(ctx context.Context, buffers []pack.Buffer, many int, nodes func(buffers int) int64) *pack.Result {
	if overflows(buffers) {
		return stacked(buffers)
	}
	if len(buffers) > many {
		return pack.Greedy(ctx, buffers)
	}
	r, err := pack.Solve(ctx, buffers, pack.Options{Nodes: nodes(len(buffers))})
	if err != nil {
		return stacked(buffers)
	}
	return r
}

// overflows reports whether the sizes add up to more than int64 holds: the timeline has checked that they do
// not, but rounding may still make them.
func overflows(buffers []pack.Buffer) bool {
	sum := int64(0)
	for _, b := range buffers {
		if b.Size > math.MaxInt64-sum {
			return true
		}
		sum += b.Size
	}
	return false
}

// stacked puts every buffer on top of the previous one, up to the limit of int64.
func stacked(buffers []pack.Buffer) *pack.Result {
	r := &pack.Result{Offsets: make([]int64, len(buffers)), Method: "stacked"}
	for i, b := range buffers {
		if b.Size > math.MaxInt64-r.Height {
			b.Size = math.MaxInt64 - r.Height
		}
		r.Offsets[i] = r.Height
		r.Height += b.Size
	}
	return r
}
