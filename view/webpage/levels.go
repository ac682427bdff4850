package webpage

import "memopt/view/timeline"

// levelJSON is a level of detail: from every width steps in a row, those with the least and the
// most live bytes, in their order. A chart that draws these has all peaks.
type levelJSON struct {
	Width int    `json:"width"`
	At    deltas `json:"at"`
}

// fewestPoints is how many points the coarsest level may have, and narrowest the width of the
// finest: below it all steps are drawn.
const (
	fewestPoints = 500
	narrowest    = 4
)

// levels are the levels of detail of a timeline, the finest first; nil for few steps.
func levels(t *timeline.Timeline) []levelJSON {
	out := []levelJSON{}
	for width := narrowest; 2*len(t.Steps)/width >= fewestPoints; width *= 2 {
		at := extremes(t.Simulated.Live, width)
		out = append(out, levelJSON{width, deltasOf(len(at), func(i int) int64 { return at[i] })})
	}
	return out
}

// extremes are the places of the least and the largest number among every width in a row; of equal
// ones the first.
func extremes(list []int64, width int) []int64 {
	var out []int64
	for from := 0; from < len(list); from += width {
		low, high := from, from
		for i := from; i < min(from+width, len(list)); i++ {
			if list[i] < list[low] {
				low = i
			}
			if list[i] > list[high] {
				high = i
			}
		}
		out = append(out, int64(min(low, high)))
		if low != high {
			out = append(out, int64(max(low, high)))
		}
	}
	return out
}
