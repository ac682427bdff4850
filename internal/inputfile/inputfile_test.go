//go:build unix

package inputfile_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"memopt/internal/inputfile"
	"memopt/internal/memlimit"
)

// file writes a file of n bytes.
func file(t *testing.T, n int) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), n), 0o666))
	return path
}

// TestKinds: what has no end or no contents is refused before anything is read of it.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	sparse := filepath.Join(dir, "sparse")
	require.NoError(t, os.WriteFile(sparse, nil, 0o666))
	require.NoError(t, os.Truncate(sparse, 1<<40))
	for path, want := range map[string]string{
		dir:         "is a directory; wanted a file or a pipe",
		socket:      "is a socket",
		"/dev/zero": "is a device",
		sparse:      "has 1099511627776 bytes; at most 1048576 are read",
		dir + "/no": "no such file",
	} {
		_, err := inputfile.Read(path, 1<<20)
		require.ErrorContains(t, err, path+": ")
		require.ErrorContains(t, err, want)
		require.Equal(t, 1, strings.Count(err.Error(), path), "the path is named once")
	}
	_, err = inputfile.Read(dir+"/no", 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestSizes: a file of the limit is read, one byte more is not, and neither is a pipe of more.
func TestSizes(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 16, 1<<16 + 1, 200000} {
		path := file(t, n)
		data, err := inputfile.Read(path, int64(n))
		require.NoError(t, err)
		require.Len(t, data, n)
		if n > 0 {
			_, err = inputfile.Read(path, int64(n-1))
			require.ErrorContains(t, err, "at most")
		}
		f, info, err := inputfile.Open(path, inputfile.Unlimited)
		require.NoError(t, err)
		require.Equal(t, int64(n), info.Size())
		f.Close()
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o666))
	_, _, err := inputfile.OpenRegular(fifo)
	require.ErrorContains(t, err, "is a pipe")
	for limit, fails := range map[int64]bool{100000: false, 99999: true} {
		go func() {
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			if err == nil {
				w.Write(bytes.Repeat([]byte("x"), 100000)) // an error is the reader's, which had enough
				w.Close()
			}
		}()
		data, err := inputfile.Read(fifo, limit)
		require.Equal(t, fails, err != nil, "%v", err)
		if err == nil {
			require.Len(t, data, 100000)
		}
	}
}

// TestStreams: a stream without an end ends at the limit, whatever the pieces it comes in.
func TestStreams(t *testing.T) {
	text := strings.Repeat("0123456789", 10000)
	for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader,
		iotest.DataErrReader} {
		data, err := inputfile.ReadAll(wrap(strings.NewReader(text)), 0, int64(len(text)))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		_, err = inputfile.ReadAll(wrap(strings.NewReader(text)), 7, int64(len(text)-1))
		require.ErrorContains(t, err, "has more than 99999 bytes; at most 99999 are read")
		data, err = io.ReadAll(inputfile.Limited(wrap(strings.NewReader(text)), int64(len(text))))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		_, err = io.ReadAll(inputfile.Limited(wrap(strings.NewReader(text)), 1000))
		require.ErrorContains(t, err, "has more than 1000 bytes")
	}
	broken := errors.New("broken")
	_, err := inputfile.ReadAll(iotest.ErrReader(broken), 0, 10)
	require.ErrorIs(t, err, broken)
}

// TestMemory: memory is asked for before it is taken.
func TestMemory(t *testing.T) {
	path := file(t, 5<<20)
	defer memlimit.Pretend(4 << 20)()
	_, err := inputfile.Read(path, 1<<30)
	require.ErrorIs(t, err, memlimit.ErrOutOfMemory)
	_, err = inputfile.ReadAll(zeros{}, 0, 1<<40)
	require.ErrorIs(t, err, memlimit.ErrOutOfMemory)
	defer memlimit.Pretend(0)()
	_, err = io.ReadAll(inputfile.Limited(zeros{}, 1<<40))
	require.ErrorIs(t, err, memlimit.ErrOutOfMemory)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
