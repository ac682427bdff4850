package allocator

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBFC: chunks never overlap, a chunk holds its request, free neighbours are
// joined, and bytes in use add up. The figures of the first part follow from the rules by hand.
func TestBFC(t *testing.T) {
	a := NewBFC(OnnxRuntime, Memory{})
	x := a.Alloc(600 << 10) // of the first MiB: not split
	require.Equal(t, int64(1<<20), a.usage.Allocated)
	y := a.Alloc(100) // a region of 2 MiB, split
	require.Equal(t, int64(1<<20+256), a.usage.Allocated)
	a.Release(x)
	require.Equal(t, int64(256), a.usage.Allocated)
	z := a.Alloc(512 << 10) // half of the first one
	require.Equal(t, x, z)
	require.Equal(t, int64(512<<10+256), a.usage.Allocated)
	a.Release(y)
	a.Release(z)
	require.Zero(t, a.usage.Allocated)
	require.Len(t, a.free, 2) // the two regions

	rng := rand.New(rand.NewPCG(1, 2))
	type held struct {
		c     int32
		bytes int64
	}
	var live []held
	for range 5000 {
		if len(live) > 0 && rng.IntN(2) == 0 {
			k := rng.IntN(len(live))
			a.Release(live[k].c)
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		bytes := 1 + rng.Int64N(1<<(8+rng.IntN(16)))
		c := a.Alloc(bytes)
		size := a.chunks[c].size
		require.GreaterOrEqual(t, size, bytes)
		sum := int64(0)
		for _, h := range live {
			o := a.chunks[h.c]
			require.True(t, o.at+o.size <= a.chunks[c].at || a.chunks[c].at+size <= o.at)
			sum += o.size
		}
		require.Equal(t, sum+size, a.usage.Allocated)
		live = append(live, held{c, bytes})
	}
	for _, h := range live {
		a.Release(h.c)
	}
	require.Zero(t, a.usage.Allocated)
	for _, c := range a.free {
		require.Equal(t, int32(noChunk), a.chunks[c].prev)
		require.Equal(t, int32(noChunk), a.chunks[c].next)
	}
}
