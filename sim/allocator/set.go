package allocator

import (
	"iter"
	"slices"
	"sort"
)

// set is an ordered set of pieces. They lie in runs of at most mostInRun, so that a set of n takes time in
// proportion to the root of n for a change.
type set struct {
	runs  [][]*piece
	order func(a, b *piece) int
}

const mostInRun = 512

// run is the run that a piece belongs to.
func (s *set) run(x *piece) int {
	i := sort.Search(len(s.runs), func(i int) bool { return s.order(s.runs[i][len(s.runs[i])-1], x) >= 0 })
	return min(i, len(s.runs)-1)
}

// add puts a piece into the set.
func (s *set) add(x *piece) {
	if len(s.runs) == 0 {
		s.runs = append(s.runs, []*piece{x})
		return
	}
	i := s.run(x)
	at, _ := slices.BinarySearchFunc(s.runs[i], x, s.order)
	s.runs[i] = slices.Insert(s.runs[i], at, x)
	if r := s.runs[i]; len(r) > mostInRun {
		s.runs = slices.Insert(s.runs, i+1, slices.Clone(r[mostInRun/2:]))
		clear(r[mostInRun/2:])
		s.runs[i] = r[:mostInRun/2]
	}
}

// remove takes a piece out of the set that is in it.
func (s *set) remove(x *piece) {
	i := s.run(x)
	at, ok := slices.BinarySearchFunc(s.runs[i], x, s.order)
	if !ok {
		panic("allocator: the piece is not in the set")
	}
	if s.runs[i] = slices.Delete(s.runs[i], at, at+1); len(s.runs[i]) == 0 {
		s.runs = slices.Delete(s.runs, i, i+1)
	}
}

// from gives the pieces from the first one on that is not before x, in order. The set must not change meanwhile.
func (s *set) from(x *piece) iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		if len(s.runs) == 0 {
			return
		}
		i := s.run(x)
		at, _ := slices.BinarySearchFunc(s.runs[i], x, s.order)
		for ; i < len(s.runs); i, at = i+1, 0 {
			for _, y := range s.runs[i][at:] {
				if !yield(y) {
					return
				}
			}
		}
	}
}

// before gives the pieces before x, the last one first. The set must not change meanwhile.
func (s *set) before(x *piece) iter.Seq[*piece] {
	return func(yield func(*piece) bool) {
		if len(s.runs) == 0 {
			return
		}
		i := s.run(x)
		at, _ := slices.BinarySearchFunc(s.runs[i], x, s.order)
		for ; ; at = len(s.runs[i]) {
			for _, y := range slices.Backward(s.runs[i][:at]) {
				if !yield(y) {
					return
				}
			}
			if i--; i < 0 {
				return
			}
		}
	}
}

// all lists the pieces in order.
func (s *set) all() []*piece { return slices.Concat(s.runs...) }
