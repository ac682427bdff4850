package ort

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChunkArena: chunks never overlap, a chunk holds what was asked for, free neighbours are
// joined, and bytes in use add up. The figures of the first part follow from the rules by hand.
func TestChunkArena(t *testing.T) {
	var a chunkArena
	x := a.alloc(600 << 10) // of the first MiB: not split
	require.Equal(t, int64(1<<20), a.inUse)
	y := a.alloc(100) // a region of 2 MiB, split
	require.Equal(t, int64(1<<20+256), a.inUse)
	a.release(x)
	require.Equal(t, int64(256), a.inUse)
	z := a.alloc(512 << 10) // half of the first one
	require.Equal(t, x, z)
	require.Equal(t, int64(512<<10+256), a.inUse)
	a.release(y)
	a.release(z)
	require.Zero(t, a.inUse)
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
			a.release(live[k].c)
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		bytes := 1 + rng.Int64N(1<<(8+rng.IntN(16)))
		c := a.alloc(bytes)
		size := a.chunks[c].size
		require.GreaterOrEqual(t, size, bytes)
		sum := int64(0)
		for _, h := range live {
			o := a.chunks[h.c]
			require.True(t, o.at+o.size <= a.chunks[c].at || a.chunks[c].at+size <= o.at)
			sum += o.size
		}
		require.Equal(t, sum+size, a.inUse)
		live = append(live, held{c, bytes})
	}
	for _, h := range live {
		a.release(h.c)
	}
	require.Zero(t, a.inUse)
	for _, c := range a.free {
		require.Equal(t, int32(noChunk), a.chunks[c].prev)
		require.Equal(t, int32(noChunk), a.chunks[c].next)
	}
}
