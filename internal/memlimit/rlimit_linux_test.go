package memlimit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestResourceLimits sets real limits: what Check lets pass is to be had, and what the system
// refuses it has refused before.
func TestResourceLimits(t *testing.T) {
	const room = 1024 * mib
	for name, c := range map[string]struct {
		resource int
		field    string
	}{"address space": {unix.RLIMIT_AS, "VmSize"}, "data": {unix.RLIMIT_DATA, "VmData"}} {
		t.Run(name, func(t *testing.T) {
			var old unix.Rlimit
			require.NoError(t, unix.Getrlimit(c.resource, &old))
			used := process.system().fields("proc/self/status")[c.field]
			require.Positive(t, used)
			limit := old
			limit.Cur = min(uint64(used+room), old.Max)
			require.NoError(t, unix.Setrlimit(c.resource, &limit))
			defer func() { require.NoError(t, unix.Setrlimit(c.resource, &old)) }()

			l, ok := Room()
			require.True(t, ok)
			require.Less(t, l.Bytes, int64(room))
			require.Greater(t, l.Bytes, int64(room/2))
			require.Contains(t, l.By, "RLIMIT")
			require.NoError(t, Check(l.Bytes-8*mib, "a mapping"))
			data, err := unix.Mmap(-1, 0, int(l.Bytes-8*mib), unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
			require.NoError(t, err)
			require.NoError(t, unix.Munmap(data))
			_, err = unix.Mmap(-1, 0, 2*room, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
			require.ErrorIs(t, err, unix.ENOMEM)
			require.ErrorIs(t, Check(2*room, "a mapping"), ErrOutOfMemory)
		})
	}
}
