package moduleplan

import (
	"context"
	"slices"
)

// Chain reports whether the units form a chain.
func (s *Search) Chain() bool {
	s.cuts[0].measure(context.Background())
	return s.cuts[0].chain != nil && s.cuts[0].loose == 0
}

// Options is how many options all units have.
func (s *Search) Options() (n int) {
	for i := range s.cuts[len(s.cuts)-1].units {
		n += len(s.cuts[len(s.cuts)-1].units[i].options)
	}
	return n
}

// Choices calls f with every choice of options: its calls, its peak by simulation and by the terms of a chain
// (-1 where there is none), and its cost.
func (s *Search) Choices(f func(calls []int32, peak, terms int64, seconds float64)) {
	for _, cut := range s.cuts {
		cut.choices(f)
	}
}

func (s *search) choices(f func(calls []int32, peak, terms int64, seconds float64)) {
	s.measure(context.Background())
	choice := make([]int, len(s.units))
	for {
		terms := int64(-1)
		if c := s.chain; c != nil && s.loose == 0 {
			kept := int64(0)
			for i, o := range choice {
				p := 0
				if i > 0 {
					p = choice[i-1]
				}
				if i > 1 {
					kept += c.kept[i-2][choice[i-2]][choice[i-1]]
				}
				terms = max(terms, kept+c.reach[i][p][o])
			}
		}
		f(s.callsOf(choice), s.peak(choice), terms, s.seconds(choice))
		i := 0
		for ; i < len(choice); i++ {
			if choice[i]++; choice[i] < len(s.units[i].options) {
				break
			}
			choice[i] = 0
		}
		if i == len(choice) {
			return
		}
	}
}

// Local makes the search take the way of many choices that are no chain.
func (s *Search) Local() {
	for _, cut := range s.cuts {
		cut.chain, cut.measured, cut.manual = nil, true, true
	}
}

// Nearly reports whether the units form a chain but for storages that all of them share.
func (s *Search) Nearly() bool {
	s.cuts[0].measure(context.Background())
	return s.cuts[0].chain != nil && s.cuts[0].loose > 0
}

// Many makes the search take the way of programs whose choices are too many to try all.
func (s *Search) Many() {
	for _, cut := range s.cuts {
		cut.manual = true
	}
}

// Large makes the search take the way of large programs: with few options of each unit first, as many as most, where
// these are more, and terms that are measured while there is time.
func (s *Search) Large(most int) {
	var cuts []*search
	for _, cut := range s.cuts {
		cut.manual, cut.large = true, true
		x := cut.quick(most)
		x.manual, x.large = true, true
		cuts = append(cuts, x, cut)
	}
	s.cuts = cuts
}

// Wholes is the answer that takes little time, of the finest cut; more tells whether one unit less, recomputed as a
// whole, fits too.
func (s *Search) Wholes(limit int64) (p *Plan, ok, more bool) {
	cut := s.cuts[0]
	choice, ok := cut.wholes(limit)
	for i := len(choice) - 1; i >= 0 && ok && !more; i-- {
		if choice[i] != 0 {
			less := slices.Clone(choice)
			less[i] = 0
			more = cut.peak(less) <= limit
			break
		}
	}
	return cut.Of(cut.callsOf(choice)), ok, more
}
