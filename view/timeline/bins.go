package timeline

import "math"

// Bins divides so many seconds from the beginning of the step into n spans of equal length, and returns
// for each the step that has the most live of those that run in it; -1 behind the last one. So no peak
// is lost, however few spans there are. Where the seconds are 0, steps take equally long.
func (t *Timeline) Bins(n int, seconds float64) []int32 {
	bins := make([]int32, n)
	for i := range bins {
		bins[i] = -1
	}
	scale := float64(n) / seconds
	for i := range t.Steps {
		s := &t.Steps[i]
		from, to := s.Start*scale, (s.Start+s.Seconds)*scale
		if seconds <= 0 {
			from, to = float64(i*n)/float64(len(t.Steps)), float64((i+1)*n)/float64(len(t.Steps))
		}
		first := min(int(from), n-1)
		last := max(first, min(int(math.Ceil(to))-1, n-1))
		for b := first; b <= last; b++ {
			if at := bins[b]; at < 0 || t.Simulated.Live[i] > t.Simulated.Live[at] {
				bins[b] = int32(i)
			}
		}
	}
	return bins
}

// Color returns the colour of a kind in pictures, as #rrggbb, that of pages in light: from the palette
// of Okabe and Ito, whose colours people with any colour vision tell apart, and greys for persistent
// kinds.
func (k Kind) Color() string { return kindColors[k] }

var kindColors = [NumKinds]string{"#9aa1ab", "#5b6470", "#cc79a7", "#56b4e9", "#f0e442", "#e69f00", "#009e73",
	"#d55e00"}
