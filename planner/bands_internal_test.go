package planner

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBandsPick: the ends of bands are those with the least expected time of all sets of ends, by enumeration, and no
// more of them than save time.
func TestBandsPick(t *testing.T) {
	fewer := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 44))
		n := 1 + rng.IntN(7)
		b := &bander{h: &Histogram{}}
		time := 0.0
		for j := range n {
			b.ends = append(b.ends, int64(10*(j+1)))
			b.share, b.seconds = append(b.share, rng.Float64()), append(b.seconds, rng.ExpFloat64())
			b.cost = append(b.cost, make([]float64, j+1))
			time += b.share[j] * b.seconds[j]
			for i := range j + 1 {
				b.cost[j][i] = float64(rng.IntN(4)) / 10 * float64(rng.IntN(2))
			}
		}
		// expected is the further time of a set of ends, the last of all among them.
		expected := func(set uint) (more float64) {
			for i := range n {
				j := i
				for set>>j&1 == 0 {
					j++
				}
				more += b.share[i] * b.seconds[i] * b.cost[j][i]
			}
			return more / time
		}
		best := make([]float64, n+1) // by number of ends
		for k := range best {
			best[k] = math.Inf(1)
		}
		for set := uint(1 << (n - 1)); set < 1<<n; set++ {
			k := 0
			for rest := set; rest != 0; rest &= rest - 1 {
				k++
			}
			best[k] = min(best[k], expected(set))
		}
		most := 1 + rng.IntN(n)
		picked := b.pick(most)
		require.LessOrEqual(t, len(picked), most)
		require.Equal(t, n-1, picked[len(picked)-1])
		set := uint(0)
		for _, j := range picked {
			set |= 1 << j
		}
		require.InDelta(t, expected(set), b.expected(picked), 1e-12, "seed %d", seed)
		require.InDelta(t, best[len(picked)], expected(set), 1e-12, "seed %d: the best of so many", seed)
		for k := 1; k <= most; k++ {
			require.GreaterOrEqual(t, best[k], expected(set)-enoughSaved, "seed %d: %d bands are no better", seed, k)
			if k < len(picked) {
				require.Greater(t, best[k], expected(set)+enoughSaved/2, "seed %d: %d bands do", seed, k)
			}
		}
		if len(picked) < most {
			fewer++
		}
	}
	require.Greater(t, fewer, 300)
}

// TestHistogramEnds: ends are different sizes of the histogram in ascending order, at most so many, up to the last one,
// and no stretch between two has more than its part of the work and one size.
func TestHistogramEnds(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 45))
		h := &Histogram{Symbol: "N"}
		size := int64(0)
		for range 1 + rng.IntN(12) {
			size += 1 + rng.Int64N(50)
			h.Lengths = append(h.Lengths, Length{size, rng.ExpFloat64()})
		}
		last := h.Lengths[rng.IntN(len(h.Lengths))].Size
		n := 1 + rng.IntN(8)
		ends := h.ends(n, last)
		require.LessOrEqual(t, len(ends), n)
		require.Equal(t, last, ends[len(ends)-1])
		total, largest, low := 0.0, 0.0, int64(0)
		for _, l := range h.Lengths {
			if l.Size <= last {
				total += l.Share * float64(l.Size)
				largest = max(largest, l.Share*float64(l.Size))
			}
		}
		for _, end := range ends {
			require.Greater(t, end, low, "seed %d: %v", seed, ends)
			share, mean := h.part(low, end)
			require.Positive(t, share)
			work := 0.0
			for _, l := range h.Lengths {
				if l.Size > low && l.Size <= end {
					work += l.Share * float64(l.Size)
				}
			}
			require.LessOrEqual(t, work, total/float64(n)+largest+1e-9, "seed %d: %v", seed, ends)
			require.Equal(t, min(end, int64(math.Ceil(work/share-1e-9))), mean)
			low = end
		}
	}
	h := &Histogram{Symbol: "N", Lengths: []Length{{1, 1}, {2, 1e-300}}} // too rare to count
	require.Equal(t, []int64{2}, h.ends(1, 2))
}
