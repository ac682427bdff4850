//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/onnx"
)

// TestEndlessLoop: the training step of a loop whose condition always holds ends near the limit on
// memory: what iterations stash for the backward half counts, down to the smallest rows.
func TestEndlessLoop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test needs Linux, which counts a process's resident memory in KiB")
	}
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
endless (float[16] x) => (float loss)
{
	c = Constant<value = bool {1}>()
	y = Loop<body = b (int64 i, bool more, float[16] s) => (bool again, float[16] u) {
		again = Constant<value = bool {1}>()
		u = Sin(s)
	}>("", c, x)
	loss = ReduceSum<keepdims = 0>(y)
}`, "endless")
	require.NoError(t, err)
	dir := t.TempDir()
	forward, step := filepath.Join(dir, "endless.onnx"), filepath.Join(dir, "step.onnx")
	require.NoError(t, onnx.WriteFile(forward, m, onnx.Options{}))
	idle := residentPeak(t, "grad", forward, "-o", step, "-q")

	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Args = []string{"memopt", "run", step, "--init", "random:1", "--mem-limit", "32MiB", "-q"}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	require.True(t, errors.As(err, &ended), "%v: %s", err, out)
	require.Equal(t, cli.ExitInfeasible, ended.ExitCode(), "%s", out)
	require.Contains(t, string(out), "out of memory")
	peak := ended.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("resident: %d MiB without the loop, %d MiB with it", idle>>20, peak>>20)
	require.Less(t, peak, idle+(32+16)<<20)
}
