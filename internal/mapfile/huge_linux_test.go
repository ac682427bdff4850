package mapfile_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"memopt/internal/mapfile"
)

// inMemory makes a file of so many bytes on a tmpfs, and maps it to be written.
func inMemory(t *testing.T, size int64) *mapfile.File {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "memopt")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	f, err := os.Create(filepath.Join(dir, "states"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	m, err := mapfile.MapWritable(f)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// huge is the bytes of a mapping that lie in huge pages, as the system counts them.
func huge(t *testing.T, data []byte) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer f.Close()
	begin, within := fmt.Sprintf("%x-", uintptr(unsafe.Pointer(&data[0]))), false
	for s := bufio.NewScanner(f); s.Scan(); {
		switch line := s.Text(); {
		case strings.HasPrefix(line, begin):
			within = true
		case within && strings.HasPrefix(line, "ShmemPmdMapped:"):
			_, err := fmt.Sscanf(line, "ShmemPmdMapped: %d kB", &bytes)
			require.NoError(t, err)
			return bytes << 10
		}
	}
	return 0
}

// TestHugePages: a file in memory that is mapped to be written begins at a multiple of a huge page, and lies in such
// pages from its first to its last where the system can make them.
func TestHugePages(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err != nil {
		return // a system without a tmpfs there
	}
	const page = 2 << 20
	m := inMemory(t, 34*page)
	require.Zero(t, uintptr(unsafe.Pointer(&m.Data[0]))%page)
	require.Same(t, m, mapfile.Holding(m.Data[5:]))
	before := huge(t, m.Data)
	if unix.Madvise(m.Data, unix.MADV_COLLAPSE) != nil {
		return // a system that cannot
	}
	require.Equal(t, huge(t, m.Data), before, "they were made already")
	require.Equal(t, 34*page, before)
}

// TestWatchedAgain: files that are closed make room for others that are watched.
func TestWatchedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("bytes"), 0o666))
	mapped := func() *mapfile.File {
		f, err := os.Open(path)
		require.NoError(t, err)
		m, err := mapfile.Map(f)
		require.NoError(t, err)
		return m
	}
	for range 300 {
		require.NoError(t, mapped().Close())
	}
	m := mapped()
	defer m.Close()
	require.NoError(t, m.Check())
	require.NoError(t, os.WriteFile(path, []byte("others"), 0o666))
	require.Error(t, m.Check())
}
