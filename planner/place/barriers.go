package place

import (
	"cmp"
	"slices"
)

// nearPeak: steps within 1/64 of the peak count as peaks too, so that the equal peaks of repeated
// layers fall in one round.
const nearPeak = 64

// barrier is a peak of the plan: values above some size are not carried across that step.
type barrier struct {
	at    int32 // place in the order
	bytes int64 // values below this size are carried
}

// barriers are the barriers of a plan by place. Each round sets its own for one size,
// so few sizes occur.
type barriers struct {
	list   []barrier
	bySize [][]int32 // the places of those of one size
	sizes  []int64
}

// newBarriers takes barriers in ascending order of their places.
func newBarriers(list []barrier) *barriers {
	b := &barriers{list: list}
	for _, x := range list {
		at := slices.Index(b.sizes, x.bytes)
		if at < 0 {
			at = len(b.sizes)
			b.sizes, b.bySize = append(b.sizes, x.bytes), append(b.bySize, nil)
		}
		b.bySize[at] = append(b.bySize[at], x.at)
	}
	return b
}

// first returns the first barrier on the way from one place to another that bytes of a value may
// not cross. A barrier at the starting place counts: clones there may peak after their last use of
// the value.
func (b *barriers) first(bytes int64, from, to int32) (at int32, ok bool) {
	at = to
	for k, size := range b.sizes {
		if bytes < size {
			continue
		}
		if i, _ := slices.BinarySearch(b.bySize[k], from); i < len(b.bySize[k]) {
			at = min(at, b.bySize[k][i])
		}
	}
	return at, at < to
}

// barriers adds the program's peak steps to the known ones.
func (t *Trial) barriers(known *barriers) *barriers {
	peak := t.Timeline.Peak.Bytes
	var out []barrier
	if known != nil {
		out = slices.Clone(known.list)
	}
	for step, bytes := range t.Timeline.Live {
		if bytes >= peak-peak/nearPeak {
			out = append(out, barrier{t.Places[step], t.Small()})
		}
	}
	slices.SortFunc(out, func(a, b barrier) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.bytes, b.bytes))
	})
	return newBarriers(slices.CompactFunc(out, func(a, b barrier) bool { return a.at == b.at }))
}
