package verify

import (
	"cmp"
	"slices"
	"time"
)

// Slowdown is how many times as long a step of the planned graph takes as one of the baseline.
type Slowdown struct {
	// Ratio is Planned divided by Baseline; 1 without measurements.
	Ratio             float64
	Baseline, Planned time.Duration
	// Pairs is the number of pairs of neighbouring steps, whose median is Ratio; 0 if the graphs
	// ran one after the other and Ratio is that of their median times. Least and Most are the
	// extremes of these ratios.
	Pairs       int
	Least, Most float64
}

// Slowdown compares the times of both sides. Where steps alternated it is the median of the ratios
// of steps that ran one right after the other, the lower one of two in the middle: noise that lasts
// for some steps changes both times of a ratio, and so hardly changes the ratio. In six recordings
// on a machine whose steps varied by a factor of two, it had a standard deviation of 6 percent on
// average (2 to 12) over windows of five steps each, the ratio of the two minima one of 9 (3 to
// 14).
func (v *Verdict) Slowdown() Slowdown {
	base, planned := v.Baseline.Times, v.Planned.Times
	if len(base) == 0 || len(planned) == 0 || slices.Max(base) == 0 {
		return Slowdown{Ratio: 1, Least: 1, Most: 1}
	}
	var pairs []Slowdown
	for i, t := range planned {
		for _, j := range []int{i, i + 1} { // the baseline's steps before and after
			if j < len(base) && base[j] > 0 {
				pairs = append(pairs, quotient(base[j], t))
			}
		}
	}
	if !v.Alternated || len(pairs) == 0 {
		s := quotient(max(v.Baseline.Median(), 1), v.Planned.Median())
		s.Least, s.Most = s.Ratio, s.Ratio
		return s
	}
	slices.SortFunc(pairs, func(a, b Slowdown) int { return cmp.Compare(a.Ratio, b.Ratio) })
	s := pairs[(len(pairs)-1)/2]
	s.Pairs, s.Least, s.Most = len(pairs), pairs[0].Ratio, pairs[len(pairs)-1].Ratio
	return s
}

func quotient(baseline, planned time.Duration) Slowdown {
	return Slowdown{Ratio: float64(planned) / float64(baseline), Baseline: baseline, Planned: planned}
}
