package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/symbolic"
)

// Length is a size of a symbol, and the share of steps that have it.
type Length struct {
	Size  int64
	Share float64
}

// Histogram says how often a symbol has which size, such as the length of sequences or the tokens of an expert:
// sizes ascend, and the shares add up to 1.
type Histogram struct {
	Symbol  string
	Lengths []Length
}

// maxLengths is the most sizes that a histogram has.
const maxLengths = 1 << 20

// NewHistogram makes a histogram of sizes with weights, in any order and unit: shares are weights over their sum. The
// error names a size below 0, a weight that is negative or not finite, or that no weight is above 0.
func NewHistogram(symbol string, weighted []Length) (*Histogram, error) {
	h := &Histogram{Symbol: symbol}
	if len(weighted) > maxLengths {
		return nil, fmt.Errorf("%d sizes of %s: wanted at most %d", len(weighted), symbol, maxLengths)
	}
	list := slices.Clone(weighted)
	slices.SortStableFunc(list, func(a, b Length) int { return cmp.Compare(a.Size, b.Size) })
	sum := 0.0
	for _, l := range list {
		if l.Size < 0 {
			return nil, fmt.Errorf("%s=%d: wanted sizes of 0 or more", symbol, l.Size)
		}
		if !(l.Share >= 0) || math.IsInf(l.Share, 1) {
			return nil, fmt.Errorf("the weight of %s=%d is %g: wanted a finite number of 0 or more", symbol, l.Size,
				l.Share)
		}
		sum += l.Share
		switch last := len(h.Lengths) - 1; {
		case l.Share == 0:
		case last >= 0 && h.Lengths[last].Size == l.Size:
			h.Lengths[last].Share += l.Share
		default:
			h.Lengths = append(h.Lengths, l)
		}
	}
	if sum == 0 || math.IsInf(sum, 1) {
		return nil, fmt.Errorf("the weights of %s add up to %g: wanted a finite number above 0", symbol, sum)
	}
	for i := range h.Lengths {
		h.Lengths[i].Share /= sum
	}
	return h, nil
}

// Uniform is a histogram in which all sizes of a range are equally frequent. A wide range is given by 4,096 sizes at
// equal distances, the ends among them.
func Uniform(symbol string, r symbolic.Range) *Histogram {
	const most = 4096
	n := min(r.Hi-r.Lo+1, most)
	h := &Histogram{Symbol: symbol}
	for i := range n {
		size := r.Hi
		if n > 1 {
			size = r.Lo + int64(math.Round(float64(r.Hi-r.Lo)*float64(i)/float64(n-1)))
		}
		h.Lengths = append(h.Lengths, Length{size, 1 / float64(n)})
	}
	return h
}

// Quantile is the smallest size that at least such a share of the steps does not exceed.
func (h *Histogram) Quantile(share float64) int64 {
	sum := 0.0
	for _, l := range h.Lengths {
		if sum += l.Share; sum >= share*(1-1e-12) {
			return l.Size
		}
	}
	return h.Lengths[len(h.Lengths)-1].Size
}

// Range is from the smallest size to the largest.
func (h *Histogram) Range() symbolic.Range {
	return symbolic.Range{Lo: h.Lengths[0].Size, Hi: h.Lengths[len(h.Lengths)-1].Size}
}

// part is the lengths of h in (lo, hi]: their share of all steps, and their mean, rounded up.
func (h *Histogram) part(lo, hi int64) (share float64, mean int64) {
	sum := 0.0
	for _, l := range h.Lengths {
		if l.Size > lo && l.Size <= hi {
			share += l.Share
			sum += l.Share * float64(l.Size)
		}
	}
	if share == 0 {
		return 0, hi
	}
	return share, min(hi, int64(math.Ceil(sum/share-1e-9)))
}

// ends are at most n sizes up to the last, that one among them, between which the steps take about the same part of
// the time of all, if the time of a step is in proportion to the size.
func (h *Histogram) ends(n int, last int64) (list []int64) {
	total, sum, cuts := 0.0, 0.0, 1
	for _, l := range h.Lengths {
		if l.Size <= last {
			total += l.Share * float64(l.Size)
		}
	}
	for _, l := range h.Lengths {
		if l.Size >= last {
			break
		}
		if sum += l.Share * float64(l.Size); sum*float64(n) >= total*float64(cuts) {
			list = append(list, l.Size)
			for cuts++; sum*float64(n) >= total*float64(cuts); cuts++ {
			}
		}
	}
	if len(list) >= n {
		list = list[:n-1]
	}
	return append(list, last)
}
