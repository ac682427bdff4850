package budget

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"memopt/hint"
	"memopt/planner/remat"
)

// Alternative is another way to save memory, to compare a plan for a budget with.
type Alternative struct {
	Kind     AlternativeKind
	Share    int     // percentage of the baseline's peak, of ToShare
	Live     int64   // peak of live bytes
	Overhead float64 // as a share of a step
	Fits     bool    // whether the peak is within the budget
}

// AlternativeKind is how an alternative saves memory.
type AlternativeKind int

// The kinds of alternatives.
const (
	EveryLayer  AlternativeKind = iota // each layer is computed again from its input
	FewLayers                          // as few layers as the budget needs, from the first on
	LayerLevel1                        // level 1 of ONNX Runtime's memory optimizer
	ToShare                            // a plan for a share of the baseline's peak
)

// String is the name of an alternative: the option to set, for those that are one.
func (a Alternative) String() string {
	switch a.Kind {
	case FewLayers:
		return "as many layers as the budget needs"
	case LayerLevel1:
		return hint.Level.With("1").String()
	case ToShare:
		return hint.Budget.With(fmt.Sprintf("%d%%", a.Share)).String()
	}
	return "every layer from its input"
}

// Alternatives are the memory and cost of checkpointing whole layers: all layers, and as few from
// the first one on as the budget needs (no such entry where it needs 0). It is nil if no layers are
// found or if the context is done, since an interrupted plan should be shown at once. Only live
// peaks are compared, no arenas.
func (a *Answer) Alternatives(ctx context.Context) []Alternative {
	if ctx.Err() != nil {
		return nil
	}
	layers := a.tasks.layers()
	if len(layers) < 2 {
		return nil
	}
	out := []Alternative{a.alternative(EveryLayer, layers)}
	if !out[0].Fits && !a.alternative(EveryLayer, nil).Fits {
		return out
	}
	k := searchFirst(len(layers), func(i int) bool {
		return ctx.Err() != nil || a.alternative(EveryLayer, layers[:i]).Fits
	})
	if k < len(layers) && ctx.Err() == nil {
		out = append(out, a.alternative(FewLayers, layers[:k]))
	}
	return out
}

// searchFirst returns the first of n for which fits holds, trying one after the other: more layers
// do not always mean a lower peak.
func searchFirst(n int, fits func(int) bool) int {
	for i := range n {
		if fits(i) {
			return i
		}
	}
	return n
}

// alternative runs everything in some layers again, right before the first backward reader that
// needs a part of it.
func (a *Answer) alternative(kind AlternativeKind, layers []span) Alternative {
	g, last := a.tasks.graph, a.tasks.lastForward()
	var again []int32
	for _, l := range layers {
		for t := l.from; t < l.to; t++ {
			// A value read by a later layer is a checkpoint, or is shared by all.
			leaves := slices.ContainsFunc(g.Tasks[t].Makes, func(v int32) bool { return last[v] >= l.to })
			if !g.Tasks[t].Once && !leaves {
				again = append(again, t)
			}
		}
	}
	alt := Alternative{Kind: kind, Live: math.MaxInt64}
	out, err := g.Simulate(a.tasks.wholeLayers(layers, again))
	if err != nil {
		return alt
	}
	alt.Live, alt.Fits = out.Peak, out.Peak <= a.bytes
	if step := a.tasks.stepCost(); step > 0 {
		alt.Overhead = float64(out.Cost) / step
	}
	return alt
}

// wholeLayers places the runs of a layer before the first reader of anything that it makes, as
// checkpointing does: all at once.
func (t *tasks) wholeLayers(layers []span, again []int32) []remat.Extra {
	g := t.graph
	extras := g.FromCut(again, g.From)
	var out []remat.Extra
	for _, l := range layers {
		first := int32(math.MaxInt32)
		for _, x := range extras {
			if l.from <= x.Task && x.Task < l.to {
				first = min(first, x.Before)
			}
		}
		for _, x := range extras {
			if l.from <= x.Task && x.Task < l.to {
				out = append(out, remat.Extra{Task: x.Task, Before: first})
			}
		}
	}
	return remat.SortExtras(out)
}

// span is a range of tasks [from, to).
type span struct{ from, to int32 }

// maxCuts bounds the number of levels of carried bytes that are tried as cuts.
const maxCuts = 32

// layers finds the repeated part of the forward half: the places where equally few bytes are
// carried to later tasks cut it into segments, and the shortest repeated sequence of segments is a
// layer. Among several ways to cut, it takes the one whose layers cost most in total, then the one
// with fewer layers.
func (t *tasks) layers() []span {
	carried := t.carried()
	var best []span
	covered := int64(0)
	for _, level := range commonMinima(carried) {
		segments := segmentsAt(carried, level)
		hashes := make([]uint64, len(segments))
		for i, s := range segments {
			hashes[i] = t.segmentHash(s)
		}
		for period := 1; period <= min(8, len(segments)/2); period++ {
			from, n := longestRepeat(hashes, period)
			if n < 2*period {
				continue
			}
			layers := t.group(segments, hashes, from, n, period)
			cost := int64(0)
			for _, l := range layers {
				cost += t.spanCost(l)
			}
			if cost > covered || cost == covered && len(layers) < len(best) {
				best, covered = layers, cost
			}
		}
	}
	return best
}

// group makes layers of segments [from, from+n). It adds incomplete layers beside them: behind,
// segments that begin like a layer; in front, those before the first whole layer, if they are no
// dearer than a layer.
func (t *tasks) group(segments []span, hashes []uint64, from, n, period int) []span {
	var layers []span
	for i := from; i+period <= from+n; i += period {
		layers = append(layers, span{segments[i].from, segments[i+period-1].to})
	}
	if front := (span{0, layers[0].from}); front.to > 0 && t.spanCost(front) <= t.spanCost(layers[0]) {
		layers = slices.Insert(layers, 0, front)
	}
	end := from + n
	for end < len(segments) && hashes[end] == hashes[end-period] {
		end++
	}
	if end > from+n {
		layers = append(layers, span{segments[from+n].from, segments[end-1].to})
	}
	return layers
}

func (t *tasks) spanCost(s span) int64 {
	cost := int64(0)
	for k := s.from; k < s.to; k++ {
		cost += t.graph.Tasks[k].Cost
	}
	return cost
}

// isMinimum tells whether less is carried over place t than behind the next task, and no more than
// before.
func isMinimum(carried []int64, t int) bool {
	return carried[t] <= carried[t-1] && carried[t] < carried[t+1]
}

// commonMinima lists the numbers of bytes that local minima carry, those that occur most often
// first.
func commonMinima(carried []int64) []int64 {
	count := map[int64]int{}
	for t := 1; t+1 < len(carried); t++ {
		if isMinimum(carried, t) {
			count[carried[t]]++
		}
	}
	var out []int64
	for _, c := range slices.Sorted(maps.Keys(count)) {
		if count[c] > 1 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(x, y int64) int { return cmp.Compare(count[y], count[x]) })
	return out[:min(len(out), maxCuts)]
}

// segmentsAt cuts the forward half at the minima that carry no more than some bytes.
func segmentsAt(carried []int64, level int64) []span {
	var out []span
	from := int32(0)
	for t := 1; t+1 < len(carried); t++ {
		if carried[t] <= level && isMinimum(carried, t) {
			out = append(out, span{from, int32(t) + 1})
			from = int32(t) + 1
		}
	}
	return append(out, span{from, int32(len(carried))})
}

// longestRepeat finds the longest run of hashes each of which equals the one a period before; it
// returns the start and the length, a multiple of the period.
func longestRepeat(h []uint64, period int) (from, n int) {
	run := 0
	for i := period; i <= len(h); i++ {
		if i < len(h) && h[i] == h[i-period] {
			run++
			continue
		}
		if k := (run + period) / period * period; run > 0 && k > n {
			from, n = i-run-period, k
		}
		run = 0
	}
	return from, n
}

// lastForward is the last forward task that reads a value, 0 for a value without forward readers.
func (t *tasks) lastForward() []int32 {
	g := t.graph
	last := make([]int32, len(g.Values))
	for k := range g.From {
		for _, u := range g.Tasks[k].Uses {
			last[u] = k
		}
	}
	return last
}

// carried is, for every forward task, the bytes made by it and those before that forward tasks
// behind it read.
func (t *tasks) carried() []int64 {
	g, last := t.graph, t.lastForward()
	delta := make([]int64, g.From+1)
	for k := range g.From {
		for _, v := range g.Tasks[k].Makes {
			if last[v] > k {
				delta[k] += g.Values[v].Size
				delta[last[v]] -= g.Values[v].Size
			}
		}
	}
	out := make([]int64, g.From)
	sum := int64(0)
	for k := range out {
		sum += delta[k]
		out[k] = sum
	}
	return out
}

// segmentSeed makes hashes of segments; they are only compared within one run.
var segmentSeed = maphash.MakeSeed()

// segmentHash tells segments of different costs and sizes apart.
func (t *tasks) segmentHash(s span) uint64 {
	var h maphash.Hash
	h.SetSeed(segmentSeed)
	for k := s.from; k < s.to; k++ {
		task := &t.graph.Tasks[k]
		maphash.WriteComparable(&h, task.Cost)
		for _, v := range task.Makes {
			maphash.WriteComparable(&h, t.graph.Values[v].Size)
		}
	}
	return h.Sum64()
}
