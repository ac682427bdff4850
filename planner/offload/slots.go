package offload

import "slices"

// slots are the times when an engine copies, in ascending order. Times that touch are one.
type slots struct{ busy []span }

type span struct{ from, to float64 }

// earliest is the first time from ready on when the engine is free for so long.
func (s *slots) earliest(ready, length float64) float64 {
	at := ready
	for _, b := range s.busy[s.after(ready):] {
		if b.from-at >= length {
			break
		}
		at = max(at, b.to)
	}
	return at
}

// after is the first busy time that ends behind t.
func (s *slots) after(t float64) int {
	i, _ := slices.BinarySearchFunc(s.busy, t, func(b span, t float64) int {
		if b.to <= t {
			return -1
		}
		return 1
	})
	return i
}

// before is the number of busy times that begin before t.
func (s *slots) before(t float64) int {
	i, _ := slices.BinarySearchFunc(s.busy, t, func(b span, t float64) int {
		if b.from < t {
			return -1
		}
		return 1
	})
	return i
}

// take makes the engine busy, where earliest found it free.
func (s *slots) take(from, length float64) {
	i, to := s.before(from), from+length
	left := i > 0 && s.busy[i-1].to >= from
	right := i < len(s.busy) && s.busy[i].from <= to
	switch {
	case left && right:
		s.busy[i-1].to = s.busy[i].to
		s.busy = slices.Delete(s.busy, i, i+1)
	case left:
		s.busy[i-1].to = to
	case right:
		s.busy[i].from = from
	default:
		s.busy = slices.Insert(s.busy, i, span{from, to})
	}
}
