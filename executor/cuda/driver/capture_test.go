package driver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
)

// TestCapturedCopies: a graph copies what memory held when it was captured, and of pinned memory
// what it holds when it is replayed.
func TestCapturedCopies(t *testing.T) {
	_, get := fake(t)
	d, s := opened(t)
	at, err := d.Alloc(16)
	require.NoError(t, err)
	pinned, err := d.Pin(32)
	require.NoError(t, err)
	plain := make([]byte, 16)
	have := get(fakeAllocated)
	for _, c := range []struct {
		src  []byte
		want byte
	}{{plain, 1}, {pinned[16:], 2}} {
		c.src[3] = 1
		require.NoError(t, d.BeginCapture(s))
		require.NoError(t, d.CopyIn(s, at, c.src))
		g, err := d.EndCapture(s)
		require.NoError(t, err)
		c.src[3] = 2
		require.NoError(t, d.Replay(g, s))
		got := make([]byte, 16)
		require.NoError(t, d.CopyOut(s, executor.Memory(got), at))
		require.Equal(t, c.want, got[3])
		require.NoError(t, d.FreeGraph(g))
		require.Equal(t, have, get(fakeAllocated), "the graph's copies are given back")
	}
	require.NoError(t, d.Unpin(pinned))
	require.NoError(t, d.Free(at))
}
