package place

import (
	"slices"
)

// lists are lists of numbers, one behind the other.
type lists struct {
	start []int32 // of each list; one more than there are lists
	items []int32
}

func (l *lists) of(i int32) []int32 { return l.items[l.start[i]:l.start[i+1]] }

// newLists gathers n lists: each calls its argument with a list and a number, twice over in the
// same sequence.
func newLists(n int, each func(add func(list, item int32))) lists {
	l := lists{start: make([]int32, n+1)}
	each(func(list, _ int32) { l.start[list+1]++ })
	for i := range n {
		l.start[i+1] += l.start[i]
	}
	l.items = make([]int32, l.start[n])
	next := slices.Clone(l.start[:n])
	each(func(list, item int32) {
		l.items[next[list]] = item
		next[list]++
	})
	return l
}
