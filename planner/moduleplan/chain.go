package moduleplan

import (
	"cmp"
	"context"
	"slices"
)

// chain has the terms of the peak of a chain of units:
//
//	peak(o) = max over i of reach[i][o(i-1)][o(i)] + sum over j <= i-2 of kept[j][o(j)][o(j+1)]
//
// reach is the most live bytes while unit i runs, forward, again and backward, less the bytes that units
// before i-1 keep between the halves; kept is the bytes that unit j keeps.
type chain struct {
	units []unit
	reach [][][]int64
	kept  [][][]int64
}

// newChain measures the terms by simulation: two neighbours have their options, all others recompute no
// module. It is nil where the context ends before.
func newChain(ctx context.Context, s *search) *chain {
	c := &chain{units: s.units, reach: make([][][]int64, len(s.units)), kept: make([][][]int64, len(s.units))}
	choice := make([]int, len(s.units))
	for i := range s.units {
		before := 1
		if i > 0 {
			before = len(s.units[i-1].options)
		}
		for p := range before {
			if ctx.Err() != nil {
				return nil
			}
			var reach, kept []int64
			for o := range s.units[i].options {
				if i > 0 {
					choice[i-1] = p
				}
				choice[i] = o
				w := s.windows(choice)
				r := w.reach[i]
				for j := 0; j <= i-2; j++ {
					r -= w.kept[j]
				}
				reach = append(reach, r)
				if i > 0 {
					kept = append(kept, w.kept[i-1])
				}
			}
			c.reach[i] = append(c.reach[i], reach)
			if i > 0 {
				c.kept[i-1] = append(c.kept[i-1], kept)
			}
		}
		clear(choice)
	}
	return c
}

// state is a choice of options up to a unit: the bytes kept by units before it, and the cost.
type state struct {
	kept    int64
	seconds float64
	option  int
	from    int // the state of the unit before, an index
}

// solve returns the cheapest choice of options whose peak is at most a limit; ok is false without such a
// choice.
//
// The error is that of a context that is done before; some tens of thousands of states are looked at in any case.
func (c *chain) solve(ctx context.Context, limit int64) (choice []int, ok bool, err error) {
	layers := make([][]state, len(c.units))
	for o := range c.units[0].options {
		if c.reach[0][0][o] <= limit {
			layers[0] = append(layers[0], state{option: o, seconds: c.units[0].options[o].seconds, from: -1})
		}
	}
	looked := 0
	for i := 1; i < len(c.units); i++ {
		for o := range c.units[i].options { // by option, so that no sort takes long
			var next []state
			for at, s := range layers[i-1] {
				if looked++; looked%statesBetweenLooks == 0 && ctx.Err() != nil {
					return nil, false, ctx.Err()
				}
				// s.kept is that of units before i-1; unit i-1's own is known with the option of unit i.
				if s.kept+c.reach[i][s.option][o] <= limit {
					next = append(next, state{kept: s.kept + c.kept[i-1][s.option][o],
						seconds: s.seconds + c.units[i].options[o].seconds, option: o, from: at})
				}
			}
			layers[i] = append(layers[i], best(next)...)
		}
	}
	end := layers[len(c.units)-1]
	if len(end) == 0 {
		return nil, false, nil
	}
	at := 0
	for i := range end {
		if cmp.Compare(end[i].seconds, end[at].seconds) < 0 {
			at = i
		}
	}
	choice = make([]int, len(c.units))
	for i := len(c.units) - 1; i >= 0; i-- {
		s := layers[i][at]
		choice[i], at = s.option, s.from
	}
	return choice, true, nil
}

// statesBetweenLooks is how many states are extended between two looks at the context.
const statesBetweenLooks = 1 << 15

// best leaves out states of one option that are dominated: another one is better in both respects.
func best(states []state) []state {
	slices.SortStableFunc(states, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.kept, b.kept), cmp.Compare(a.seconds, b.seconds))
	})
	out := states[:0]
	for _, s := range states {
		if n := len(out); n == 0 || s.seconds < out[n-1].seconds {
			out = append(out, s)
		}
	}
	return out
}
