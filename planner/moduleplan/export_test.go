package moduleplan

// Chain reports whether the units form a chain.
func (s *Search) Chain() bool { return s.cuts[0].chain != nil && s.cuts[0].loose == 0 }

// Choices calls f with every choice of options: its calls, its peak by simulation and by the terms of a chain
// (-1 where there is none), and its cost.
func (s *Search) Choices(f func(calls []int32, peak, terms int64, seconds float64)) {
	for _, cut := range s.cuts {
		cut.choices(f)
	}
}

func (s *search) choices(f func(calls []int32, peak, terms int64, seconds float64)) {
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
		cut.chain, cut.manual = nil, true
	}
}

// Nearly reports whether the units form a chain but for storages that all of them share.
func (s *Search) Nearly() bool { return s.cuts[0].chain != nil && s.cuts[0].loose > 0 }

// Many makes the search take the way of programs whose choices are too many to try all.
func (s *Search) Many() {
	for _, cut := range s.cuts {
		cut.manual = true
	}
}
