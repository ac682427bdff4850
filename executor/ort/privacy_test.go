//go:build linux && (amd64 || arm64) && !nodl

package ort_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/ort"
	"memopt/graph/onnx"
)

// TestNothingIsTold: the library writes nothing into the user's folders or the working folder,
// opens no sockets, during a whole session and after it, and would leave no core dump. Without
// noTelemetry release 1.30 leaves a database of events, the device's identifier and logs.
func TestNothingIsTold(t *testing.T) {
	start(t).Close() // skips where there is no library
	home, work := t.TempDir(), t.TempDir()
	working := filepath.Join(home, "working")
	require.NoError(t, os.Mkdir(working, 0o755))
	t.Chdir(working)
	p, err := ort.Start(t.Context(),
		program(t, "serve", "HOME="+home, "TMPDIR="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home,
			"XDG_DATA_HOME="+home, "XDG_STATE_HOME="+home, "ORT_DISABLE_TELEMETRY=0"))
	require.NoError(t, err)
	defer p.Close()
	m, _ := parse(t, chain("16"))
	inputs, _ := made(t, m)
	step(t, p, write(t, work, m, onnx.Options{}), inputs, ort.Options{})
	require.Empty(t, sockets(t, p.PID()))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.PID()))
	require.NoError(t, err)
	require.Regexp(t, `Max core file size +0 +0 `, string(limits))
	p.Close()
	var left []string
	require.NoError(t, filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	require.Empty(t, left)
}

// sockets lists the sockets that a process has open.
func sockets(t *testing.T, pid int) (list []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, fds)
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil &&
			strings.HasPrefix(target, "socket:") {
			list = append(list, target)
		}
	}
	return list
}
