package moduleplan

import (
	"context"
	"slices"
)

// fewSteps is how many steps may be simulated to try all choices: a tenth of a second.
const fewSteps = 1 << 21

// few reports whether there are so few choices that all can be tried.
func (s *search) few() bool {
	n := len(s.p.Steps)
	for i := range s.units {
		if n *= len(s.units[i].options); n > fewSteps {
			return false
		}
	}
	return true
}

// all tries all choices.
func (s *search) all(limit int64) (choice []int, ok bool) {
	at := make([]int, len(s.units))
	least := 0.0
	for {
		if sec := s.seconds(at); (!ok || sec < least) && s.peak(at) <= limit {
			choice, least, ok = slices.Clone(at), sec, true
		}
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < len(s.units[i].options) {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			return choice, ok
		}
	}
}

// seconds is the cost of a choice.
func (s *search) seconds(choice []int) float64 {
	var sum float64
	for i, o := range choice {
		sum += s.units[i].options[o].seconds
	}
	return sum
}

// excess is the bytes of a choice above a limit, summed over the steps: unlike the peak, it falls with
// every byte freed in such a step.
func (s *search) excess(choice []int, limit int64) float64 {
	s.tried++
	s.sim.Run(s.callsOf(choice))
	var sum float64
	s.sim.Live(func(_ int, live int64) { sum += float64(max(live-limit, 0)) })
	return sum
}

// local recomputes units, each time the change that lowers the excess the most for its cost, until the
// choice fits; then takes back changes that are not needed, and tries to replace options by cheaper ones
// in pairs.
func (s *search) local(ctx context.Context, limit int64) (choice []int, ok bool) {
	choice = make([]int, len(s.units))
	over := s.excess(choice, limit)
	for over > 0 {
		if ctx.Err() != nil || !s.step(choice, limit, &over) {
			return nil, false
		}
	}
	for again := true; again && ctx.Err() == nil; {
		again = s.cheaper(choice, limit)
	}
	return choice, true
}

// step makes the best single change; it returns false if no change lowers the excess.
func (s *search) step(choice []int, limit int64, over *float64) bool {
	unit, opt, rate, left := -1, 0, 0.0, 0.0
	for i := range s.units {
		old := choice[i]
		for o := range s.units[i].options {
			if o == old {
				continue
			}
			choice[i] = o
			e := s.excess(choice, limit)
			more := s.units[i].options[o].seconds - s.units[i].options[old].seconds
			r := (*over - e) / max(more, 1e-9)
			if e < *over && r > rate {
				unit, opt, rate, left = i, o, r, e
			}
		}
		choice[i] = old
	}
	if unit >= 0 {
		choice[unit], *over = opt, left
	}
	return unit >= 0
}

// cheaper makes a change of one unit, or of two, that costs less and still fits.
func (s *search) cheaper(choice []int, limit int64) bool {
	now := s.seconds(choice)
	try := func() bool { return s.seconds(choice) < now && s.peak(choice) <= limit }
	for i := range s.units {
		old := choice[i]
		for o := range s.units[i].options {
			if choice[i] = o; try() {
				return true
			}
			for j := range s.units[:i] {
				before := choice[j]
				for q := range s.units[j].options {
					if choice[j] = q; try() {
						return true
					}
				}
				choice[j] = before
			}
		}
		choice[i] = old
	}
	return false
}
