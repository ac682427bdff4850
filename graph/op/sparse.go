package op

import "memopt/graph"

// sparse is a side table of values for a property that few of them have: the others take four bytes
// each.
type sparse[T any] struct {
	at    []int32 // by ValueID: one past the place in items; 0: no entry
	items []T
}

func newSparse[T any](values int) sparse[T] { return sparse[T]{at: make([]int32, values)} }

// get returns the entry of a value, or the zero value.
func (s *sparse[T]) get(id graph.ValueID) T {
	if k := s.at[id]; k > 0 {
		return s.items[k-1]
	}
	var none T
	return none
}

func (s *sparse[T]) set(id graph.ValueID, item T) {
	if k := s.at[id]; k > 0 {
		s.items[k-1] = item
		return
	}
	s.items = append(s.items, item)
	s.at[id] = int32(len(s.items))
}

// drop makes the entry of a value, if there is one, the zero value.
func (s *sparse[T]) drop(id graph.ValueID) {
	if k := s.at[id]; k > 0 {
		var none T
		s.items[k-1] = none
	}
}

// grow makes the table as long as a list of values.
func (s *sparse[T]) grow(values int) {
	s.at = append(s.at, make([]int32, values-len(s.at))...)
}
