package data

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/caught"
)

// TestScan: the least place counts, however the pieces fall, and every place is looked at if there
// is none.
func TestScan(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, piece := rapid.Int64Range(0, 500).Draw(r, "n"), rapid.Int64Range(0, 60).Draw(r, "piece")
		bad := rapid.SliceOfN(rapid.Int64Range(0, 499), 0, 4).Draw(r, "bad")
		want := int64(-1)
		for _, b := range bad {
			if b < n && (want < 0 || b < want) {
				want = b
			}
		}
		var seen atomic.Int64
		got, err := scan(context.Background(), n, piece, func(from, to int64) int64 {
			first := int64(-1)
			for _, b := range bad {
				if b >= from && b < to && (first < 0 || b < first) {
					first = b
				}
			}
			seen.Add(to - from)
			return first
		})
		require.NoError(r, err)
		require.Equal(r, want, got)
		if want < 0 {
			require.Equal(r, n, seen.Load())
		}
	})
}

// TestScanEnds: a cancelled scan ends soon, with the context's error.
func TestScanEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	pieces := atomic.Int64{}
	_, err := scan(ctx, 1<<40, 1, func(int64, int64) int64 {
		if pieces.Add(1) == 10 {
			cancel()
		}
		return -1
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, pieces.Load(), int64(1000))
	_, err = scan(context.Background(), 1, 1, func(int64, int64) int64 { panic("other") })
	var panicked *caught.Error
	require.ErrorAs(t, err, &panicked, "a panic that is no fault of a file")
}

// TestOutside compares with a plain comparison of numbers.
func TestOutside(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		d := numeric[rng.IntN(9)]
		b := bound{classes: rng.Int64N(300) + 1, ignore: rng.Int64N(600) - 300, hasIgnore: rng.IntN(2) == 0}
		if rng.IntN(4) == 0 {
			b.classes = 1 << (1 + rng.IntN(62))
		}
		data := make([]byte, d.Bits()/8*4)
		for i := range 4 {
			v := uint64(rng.Int64N(600) - 300)
			if rng.IntN(8) == 0 {
				v = rng.Uint64()
			}
			for k := range d.Bits() / 8 {
				data[i*d.Bits()/8+k] = byte(v >> (8 * k))
			}
		}
		want := -1
		for i := range 4 {
			v := exact(d, data[i*d.Bits()/8:])
			is := func(n int64) int { return v.Cmp(exact(graph.Int64, executor.Memory([]int64{n}))) }
			if (is(0) < 0 || is(b.classes) >= 0) && !(b.hasIgnore && is(b.ignore) == 0) {
				want = i
				break
			}
		}
		at, v := b.outside(d, data)
		require.Equal(t, want, at, "%v %+v %v", d, b, data)
		if at >= 0 && d != graph.Uint64 {
			exactly, _ := exact(d, data[at*d.Bits()/8:]).Int64()
			require.Equal(t, exactly, v)
			require.False(t, d.IsInteger() && b.holds(d))
		}
	}
	require.True(t, bound{}.holds(graph.Int64))
	require.True(t, bound{classes: 256}.holds(graph.Uint8))
	require.False(t, bound{classes: 255}.holds(graph.Uint8))
	require.False(t, bound{classes: 256}.holds(graph.Int8))
	require.True(t, bound{classes: 1}.holds(graph.Float32))
}

// BenchmarkCheck is the scan of a file of tokens.
func BenchmarkCheck(b *testing.B) {
	for _, d := range []graph.DType{graph.Uint16, graph.Uint32, graph.Int64} {
		b.Run(d.String(), func(b *testing.B) {
			const n = 256 << 20
			data := make([]byte, n)
			f := tokenFile{file: &file{path: "x", data: data}, dtype: d, data: data, count: int64(n / (d.Bits() / 8))}
			in := &gpt(1, 1000)[0]
			b.SetBytes(n)
			for b.Loop() {
				if err := f.check(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
