package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCopyOutAsync: the copy is asked for, and nothing waits for it.
func TestCopyOutAsync(t *testing.T) {
	set, _ := fake(t)
	d, err := Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	x, err := d.Alloc(8)
	require.NoError(t, err)
	pinned, err := d.Pin(8)
	require.NoError(t, err)
	require.NoError(t, d.CopyIn(s, x, []byte("readable")))
	set(fakeFailCall, failSync)
	set(fakeFailCode, 1)
	require.NoError(t, d.CopyOutAsync(s, pinned, x))
	require.Error(t, d.CopyOut(s, pinned, x), "it waits")
	set(fakeFailCall, 0)
	require.NoError(t, d.Sync(s))
	require.Equal(t, "readable", string(pinned))
	require.Error(t, d.CopyOutAsync(s, pinned[:4], x), "lengths differ")
	require.NoError(t, d.Unpin(pinned))
	require.NoError(t, d.Free(x))
	require.NoError(t, d.Close())
}
