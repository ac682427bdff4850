package mapfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"memopt/internal/simd"
)

const pages = 4

// open maps a new file of some pages.
func open(t *testing.T) (*File, string) {
	path := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1}, pages*os.Getpagesize()), 0o666))
	f, err := os.Open(path)
	require.NoError(t, err)
	m, err := Map(f)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m, path
}

// TestFaults: a read behind the new end of a file is an error, in Go, in its runtime and in this
// project's assembly.
func TestFaults(t *testing.T) {
	for name, read := range map[string]func([]byte) byte{
		"Go":      func(b []byte) byte { return b[len(b)-1] },
		"runtime": func(b []byte) byte { return bytes.Clone(b)[0] },
		"assembly": func(b []byte) byte {
			sums := make([]float32, len(b)/4)
			simd.Add(sums, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(sums)), sums)
			return byte(sums[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, path := open(t)
			require.NoError(t, os.Truncate(path, 100))
			err := func() (err error) {
				defer Guard(&err)()
				read(m.Data)
				return nil
			}()
			var changed *ChangedError
			require.True(t, errors.As(err, &changed), "%v", err)
			require.Equal(t, path, changed.Path)
			require.ErrorContains(t, err, "it has 100 bytes, but had")
			require.False(t, debug.SetPanicOnFault(false), "the guard has put back what was")
		})
	}
}

// TestOtherPanics: what is no fault of a file stays a panic.
func TestOtherPanics(t *testing.T) {
	open(t)
	require.PanicsWithValue(t, "other", func() {
		var err error
		defer Guard(&err)()
		panic("other")
	})
	require.Panics(t, func() {
		var err error
		defer Guard(&err)()
		var p *int
		*p = 1
	})
	require.NoError(t, Fault(nil))
	require.NoError(t, Fault(errors.New("x")))
}

// TestCheck: a change of the size or of the time is seen, of this file or among all.
func TestCheck(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"shorter": func(path string) error { return os.Truncate(path, 5) },
		"longer":  func(path string) error { return os.Truncate(path, 1<<20) },
		"written": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			other, _ := open(t)
			m, path := open(t)
			require.NoError(t, m.Check())
			require.NoError(t, Check())
			require.NoError(t, change(path))
			require.ErrorContains(t, m.Check(), path+" changed while it was read")
			require.ErrorContains(t, Check(), path)
			require.NoError(t, other.Check())
			require.NoError(t, m.Close())
			require.NoError(t, Check())
			require.NoError(t, m.Check(), "a closed file is not looked at")
		})
	}
	m, path := open(t)
	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	require.NoError(t, m.Check(), "another file under the name is not the one that is read")
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = m.Check() }))
}

// TestHolding: memory belongs to the file in whose mapping it starts.
func TestHolding(t *testing.T) {
	var all []*File
	for range 5 {
		m, _ := open(t)
		all = append(all, m)
	}
	for _, m := range all {
		require.Same(t, m, Holding(m.Data))
		require.Same(t, m, Holding(m.Data[len(m.Data)-1:]))
		require.NotSame(t, m, at(m.start()-1))
		require.NotSame(t, m, at(m.start()+uintptr(len(m.Data))))
	}
	require.Nil(t, Holding(make([]byte, 8)))
	require.Nil(t, Holding(nil))
	require.Nil(t, at(0))
	data := all[2].Data
	require.NoError(t, all[2].Close())
	require.Nil(t, at(uintptr(len(data))))
	require.Zero(t, testing.AllocsPerRun(10, func() { Holding(all[1].Data) }))
}

// TestManyFiles: more files than are watched can be mapped, and faults in all of them are noticed.
func TestManyFiles(t *testing.T) {
	var last *File
	var path string
	for range maxWatched + 2 {
		last, path = open(t)
	}
	require.Nil(t, last.file)
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, last.Check(), "it is not watched")
	err := func() (err error) {
		defer Guard(&err)()
		_ = bytes.Clone(last.Data)
		return nil
	}()
	require.ErrorContains(t, err, " can no longer be read")
}

// TestFileState is Check of a file that is not mapped.
func TestFileState(t *testing.T) {
	_, path := open(t)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	s, size, err := StateOf(f)
	require.NoError(t, err)
	require.Equal(t, int64(pages*os.Getpagesize()), size)
	require.NoError(t, s.Check(f))
	require.NoError(t, os.Truncate(path, 1))
	require.ErrorContains(t, s.Check(f), "it has 1 bytes, but had")
}

// TestDrop: what was read no longer counts as this process's memory, and can be read again.
func TestDrop(t *testing.T) {
	resident := func() (kib int) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip("/proc/self/status is missing, which says what is resident: run the test on Linux")
		}
		_, after, _ := bytes.Cut(status, []byte("RssFile:"))
		_, err = fmt.Sscan(string(after), &kib)
		require.NoError(t, err)
		return kib
	}
	m, path := open(t)
	const size = 64 << 20
	require.NoError(t, os.Truncate(path, size))
	f, err := os.Open(path)
	require.NoError(t, err)
	large, err := Map(f)
	require.NoError(t, err)
	defer large.Close()
	before := resident()
	require.Equal(t, pages*os.Getpagesize(), bytes.Count(large.Data, []byte{1}))
	require.Greater(t, resident(), before+size/2/1024)
	large.Drop()
	require.Less(t, resident(), before+size/8/1024)
	require.EqualValues(t, 1, large.Data[0])
	m.Drop()
	(*File)(nil).Drop()
	(&File{}).Drop()
}

// TestWritable: a file that is written through its mapping has the bytes, whatever pages the system gives it, and they
// lie where huge pages can.
func TestWritable(t *testing.T) {
	for _, size := range []int{1, 4096, 2<<20 - 1, 2 << 20, 5<<20 + 3} {
		path := filepath.Join(t.TempDir(), "data")
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * 31 >> 4)
		}
		require.NoError(t, os.WriteFile(path, want, 0o666))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		m, err := MapWritable(f)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, m.Data))
		if size >= 2<<20 && runtime.GOOS == "linux" {
			require.Zero(t, m.start()%(2<<20))
		}
		m.Data[0], m.Data[size-1] = 7, 9
		want[0], want[size-1] = 7, 9
		require.NoError(t, m.Sync())
		require.NoError(t, m.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
}
