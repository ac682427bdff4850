package data

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// epochOf lists the samples of an epoch.
func epochOf(o Order, epoch int64) []int64 {
	out := make([]int64, o.Samples)
	for k := range out {
		out[k] = o.Sample(epoch, int64(k))
	}
	return out
}

// TestPermutation: an epoch has every sample once, whatever their number.
func TestPermutation(t *testing.T) {
	for n := int64(1); n <= 3000; n++ {
		seen := make([]bool, n)
		for _, s := range epochOf(Order{Samples: n, Seed: uint64(n), Shuffle: true}, n%5) {
			require.False(t, seen[s], "%d samples: %d twice", n, s)
			seen[s] = true
		}
	}
}

// TestLargePermutation: of many samples no two places that are looked at have the same one.
func TestLargePermutation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := Order{Samples: rapid.Int64Range(1, math.MaxInt64).Draw(r, "samples"),
			Seed: rapid.Uint64().Draw(r, "seed"), Shuffle: true}
		epoch := rapid.Int64Range(0, 1000).Draw(r, "epoch")
		places := map[int64]int64{}
		for range 200 {
			k := rapid.Int64Range(0, o.Samples-1).Draw(r, "k")
			s := o.Sample(epoch, k)
			if s < 0 || s >= o.Samples {
				r.Fatalf("sample %d of %d", s, o.Samples)
			}
			if other, ok := places[s]; ok && other != k {
				r.Fatalf("places %d and %d both have sample %d", other, k, s)
			}
			places[s] = k
		}
	})
}

// TestUniform: over seeds and epochs, each place has each sample equally often, and each pair of
// neighbours each difference: chi-square with the bound for one in a thousand.
func TestUniform(t *testing.T) {
	for _, n := range []int64{2, 3, 5, 8, 12, 31} {
		for _, vary := range []string{"seed", "epoch"} {
			const draws = 20000
			places := make([][]int, n)
			for k := range places {
				places[k] = make([]int, n)
			}
			steps := make([]int, n)
			for d := range int64(draws) {
				o, epoch := Order{Samples: n, Seed: 7, Shuffle: true}, d
				if vary == "seed" {
					o.Seed, epoch = uint64(d), 3
				}
				list := epochOf(o, epoch)
				for k, s := range list {
					places[k][s]++
				}
				steps[(list[1]-list[0]+n)%n]++
			}
			for k := range places {
				require.Less(t, chiSquare(places[k], draws), chiBound(n-1),
					"%s, %d samples, place %d", vary, n, k)
			}
			if require.Zero(t, steps[0]); n > 2 {
				require.Less(t, chiSquare(steps[1:], draws), chiBound(n-2),
					"%s, %d samples, neighbours", vary, n)
			}
		}
	}
}

func chiSquare(counts []int, draws int) (sum float64) {
	want := float64(draws) / float64(len(counts))
	for _, c := range counts {
		sum += (float64(c) - want) * (float64(c) - want) / want
	}
	return sum
}

// chiBound is about the value that chi-square with so many degrees of freedom passes once in 10,000
// times (Wilson and Hilferty).
func chiBound(degrees int64) float64 {
	d := float64(degrees)
	return d * math.Pow(1-2/(9*d)+3.72*math.Sqrt(2/(9*d)), 3)
}

// TestOrdersDiffer: seeds and epochs have orders of their own, and without Shuffle all have that of
// the files.
func TestOrdersDiffer(t *testing.T) {
	o := Order{Samples: 1000, Seed: 42, Shuffle: true}
	first := epochOf(o, 0)
	require.Equal(t, first, epochOf(o, 0))
	for epoch := int64(1); epoch < 20; epoch++ {
		require.NotEqual(t, first, epochOf(o, epoch))
		o := o // with another seed
		o.Seed += uint64(epoch)
		require.NotEqual(t, first, epochOf(o, 0))
		require.NotEqual(t, epochOf(o, 0),
			epochOf(Order{Samples: 1000, Seed: 42, Shuffle: true}, epoch), "a seed is no epoch")
	}
	fixed := 0
	for k, s := range first {
		if int64(k) == s {
			fixed++
		}
	}
	require.Less(t, fixed, 10, "few samples stay where they are")
	o.Shuffle = false
	require.True(t, slices.IsSorted(epochOf(o, 3)))
}

// TestOrderStays: checkpoints of older releases continue with the same samples.
func TestOrderStays(t *testing.T) {
	o := Order{Samples: 10, Seed: 42, Shuffle: true}
	require.Equal(t, []int64{2, 5, 1, 0, 9, 3, 7, 4, 6, 8}, epochOf(o, 0))
	require.Equal(t, []int64{1, 0, 2, 3, 5, 7, 4, 8, 9, 6}, epochOf(o, 1))
	o = Order{Samples: 1e12, Seed: 7, Shuffle: true}
	require.EqualValues(t, 951678009294, o.Sample(0, 0))
	require.EqualValues(t, 750766361002, o.Sample(5, 123456789))
}

// TestBatches counts batches and their rows, by going through all samples.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := Order{Samples: rapid.Int64Range(1, 50).Draw(r, "samples"),
			Batch:   rapid.IntRange(1, 60).Draw(r, "batch"),
			Last:    rapid.SampledFrom([]Last{Keep, Drop, Pad}).Draw(r, "last"),
			Shuffle: true}
		var rows []int
		for left := int(o.Samples); left > 0; left -= o.Batch {
			switch {
			case left >= o.Batch || o.Last == Pad:
				rows = append(rows, o.Batch)
			case o.Last == Keep:
				rows = append(rows, left)
			}
		}
		if len(rows) == 0 {
			require.ErrorContains(r, o.Check(), "make no batch of")
			return
		}
		require.NoError(r, o.Check())
		require.EqualValues(r, len(rows), o.Batches())
		for b := range rows {
			require.Equal(r, rows[b], o.Rows(int64(b)))
		}
	})
	for _, o := range []Order{{Batch: 1}, {Samples: 1}, {Samples: 3, Batch: 4, Last: Drop}} {
		require.Error(t, o.Check())
	}
}

// TestPad: the rows that are missing are those with which the epoch began.
func TestPad(t *testing.T) {
	o := Order{Samples: 7, Batch: 5, Seed: 1, Shuffle: true, Last: Pad}
	list := epochOf(o, 2)
	for k := range int64(30) {
		require.Equal(t, list[k%7], o.Sample(2, k))
	}
}

func TestLast(t *testing.T) {
	for _, l := range []Last{Keep, Drop, Pad} {
		got, err := ParseLast(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	_, err := ParseLast("kept")
	require.EqualError(t, err, `last batch "kept": wanted keep, drop or pad`)
	require.Equal(t, "Last(9)", Last(9).String())
}
