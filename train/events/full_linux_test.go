package events

import (
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFullFile: a file that the system lets grow no further, and then does.
func TestFullFile(t *testing.T) {
	dir := t.TempDir()
	w, err := OpenMetrics(filepath.Join(dir, "metrics.jsonl"), 0)
	require.NoError(t, err)
	board, err := OpenTensorBoard(dir, 0)
	require.NoError(t, err)
	require.NoError(t, w.Write(full(1)))
	require.NoError(t, board.Scalar(1, "train/loss", 1))

	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(board.a.size) + 10, Max: old.Max}))
	metrics, scalars := []error{}, []error{}
	for step := int64(2); step <= 4; step++ {
		metrics = append(metrics, w.Write(full(step)))
		scalars = append(scalars, board.Scalar(step, "train/loss", 1))
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
	require.ErrorIs(t, metrics[0], unix.EFBIG)
	require.Equal(t, []error{nil, nil}, metrics[1:])
	require.ErrorIs(t, scalars[0], unix.EFBIG)
	require.Equal(t, []error{nil, nil}, scalars[1:])

	require.NoError(t, w.Close())
	require.NoError(t, board.Close())
	want, err := linesOf(filepath.Join(dir, "undisturbed"), 1, 4)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Len(t, decodeFolder(t, dir)[0].scalars, 4)
}
