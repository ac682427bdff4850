package planner

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/planner/envelope"
	"memopt/symbolic"
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

// TestBandsPickAround: bands without a plan are never picked while other ends have plans for all sizes, by enumeration,
// and the picked ones are the best of these.
func TestBandsPickAround(t *testing.T) {
	no, around := 0, 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 48))
		n := 1 + rng.IntN(6)
		b := &bander{h: &Histogram{}, lo: 3, spans: map[symbolic.Range]*Plan{}}
		for j := range n {
			b.ends = append(b.ends, int64(10*(j+1)))
			b.share, b.seconds = append(b.share, rng.Float64()), append(b.seconds, rng.ExpFloat64())
			b.cost = append(b.cost, make([]float64, j+1))
			for i := range j + 1 {
				b.cost[j][i] = rng.Float64()
				if rng.IntN(3) == 0 {
					b.spans[b.sizes(i, j)] = nil
				}
			}
		}
		most := 1 + rng.IntN(n)
		best := math.Inf(1)
		for set := uint(1 << (n - 1)); set < 1<<n; set++ {
			if more, k := bandsOf(b, set); k <= most {
				best = min(best, more)
			}
		}
		picked := b.pick(most)
		if math.IsInf(best, 1) {
			require.Nil(t, picked, "seed %d", seed)
			no++
			continue
		}
		set := uint(0)
		for _, j := range picked {
			set |= 1 << j
		}
		more, k := bandsOf(b, set)
		require.LessOrEqual(t, k, most)
		total := 0.0
		for i := range n {
			total += b.share[i] * b.seconds[i]
		}
		require.InDelta(t, best, more, enoughSaved*total*float64(n), "seed %d", seed)
		around++
	}
	require.Greater(t, no, 200)
	require.Greater(t, around, 800)
}

// bandsOf is the further time of the bands that end at a set of ends, and how many they are; infinite where one has no
// plan.
func bandsOf(b *bander, set uint) (more float64, bands int) {
	lo := b.lo
	for i, from := 0, 0; i < len(b.ends); i++ {
		if set>>i&1 == 0 {
			continue
		}
		if _, sought := b.spans[symbolic.Range{Lo: lo, Hi: b.ends[i]}]; sought {
			return math.Inf(1), 0
		}
		for k := from; k <= i; k++ {
			more += b.share[k] * b.seconds[k] * b.cost[i][k]
		}
		from, lo = i+1, b.ends[i]+1
		bands++
	}
	return more, bands
}

// TestBandsCover: where no plan fits in all of a band, narrower bands cover its sizes, also those between two ends that
// were tried; without any, the error says how many there may be.
func TestBandsCover(t *testing.T) {
	example, ok := examples.Lookup("mlp")
	require.True(t, ok)
	m, err := example.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	h, err := NewHistogram("batch", []Length{{512, 60}, {1024, 30}, {2048, 8}, {4096, 2}})
	require.NoError(t, err)
	start := func() *bander {
		budget := Budget{Total: 700 << 20}
		b := &bander{spanner: spanner{ctx: t.Context(), model: m, types: types, opts: Options{Strategy: budget},
			budget: budget}, h: h, lo: 512, ends: []int64{1024, 4096}}
		require.NoError(t, b.try())
		return b
	}
	ranges := func(out *Bands) (list []symbolic.Range) {
		for _, band := range out.List {
			require.LessOrEqual(t, band.Plan.Span.Most, int64(700<<20))
			require.Equal(t, envelope.Box{{Symbol: "batch", Lo: band.Lo, Hi: band.Hi}}, band.Plan.Span.Box)
			list = append(list, symbolic.Range{Lo: band.Lo, Hi: band.Hi})
		}
		return list
	}
	b, out := start(), &Bands{}
	b.spans[symbolic.Range{Lo: 512, Hi: 4096}] = nil
	require.ErrorContains(t, b.cover(out, 1), "no bands that all have plans, 1 at most")
	require.ErrorIs(t, b.cover(out, 1), ErrInfeasible)
	require.NoError(t, b.cover(out, 3))
	require.Equal(t, []symbolic.Range{{Lo: 512, Hi: 1024}, {Lo: 1025, Hi: 4096}}, ranges(out))
	b = start()
	b.spans[symbolic.Range{Lo: 512, Hi: 4096}] = nil
	b.spans[symbolic.Range{Lo: 1025, Hi: 4096}] = nil
	require.NoError(t, b.cover(out, 3))
	got := ranges(out)
	require.Equal(t, int64(512), got[0].Lo)
	require.Equal(t, symbolic.Range{Lo: 2561, Hi: 4096}, got[len(got)-1])
	for i := range got[1:] {
		require.Equal(t, got[i].Hi+1, got[i+1].Lo)
	}
	share := 0.0
	for _, band := range out.List {
		share += band.Share
	}
	require.InDelta(t, 1, share, 1e-12)
	b = start()
	for lo := range int64(4097) {
		b.spans[symbolic.Range{Lo: lo, Hi: 4096}] = nil
	}
	require.ErrorIs(t, b.cover(out, 5), ErrInfeasible)
	require.Len(t, b.ends, 2+11, "4,096 itself is a band of its own at last")
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
