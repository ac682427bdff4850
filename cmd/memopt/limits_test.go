package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/internal/memlimit"
)

// TestDoesNotFit: whatever wants the memory, it is refused before it is taken, with the code of
// what does not fit, and nothing is written.
func TestDoesNotFit(t *testing.T) {
	exitFolder(t)
	const data = "run example:cnn --dim batch=4 -q --init random:1 --save-outputs data.npz"
	require.Equal(t, 0, inProcess(t.Context(), nil, data).code)
	for _, c := range []struct {
		line string
		left int64
		want string
	}{
		{"run example:cnn --dim batch=4 --init random:1 --save-outputs out", 2 << 20,
			"inputs, the largest of which is"},
		{"run example:cnn --dim batch=4 --init random:1 --save-outputs out", 8 << 20, "the planned arena of"},
		{"run example:cnn --dim batch=4 --init random:1 --mem-pattern off --save-outputs out", 8 << 20,
			", copies of outputs of "},
		{"verify example:cnn --dim batch=4 --init random:1 --save-outputs out", 8 << 20,
			"the baseline: the planned arena of"},
		{"verify example:cnn --level 1 --dim batch=4 --init random:1 --save-outputs out", 8 << 20,
			"the baseline: the planned arena of"},
		{"run example:cnn --dim batch=4 --data-dir data.npz --init random:1 --save-outputs out", 512 << 10,
			"an array of float["},
	} {
		restore := memlimit.Pretend(c.left)
		got := inProcess(t.Context(), nil, c.line+" -q")
		restore()
		require.Equal(t, cli.ExitInfeasible, got.code, "%s\n%s", c.line, got.errors)
		require.Contains(t, got.errors, c.want, c.line)
		require.Contains(t, got.errors, fmt.Sprintf("bytes are wanted and %d are left", c.left), c.line)
		require.Equal(t, 1, strings.Count(got.errors, "\n"), "one line: %s", got.errors)
		require.NoDirExists(t, "out")
	}
	// The null device takes nothing.
	defer memlimit.Pretend(1 << 20)()
	require.Equal(t, 0, inProcess(t.Context(), nil, "run example:cnn --dim batch=4 -e null -q").code)
}

// TestRuntimeDoesNotFit: the predicted memory of ONNX Runtime is compared with the available memory, and
// a process of its that the system kills had no memory.
func TestRuntimeDoesNotFit(t *testing.T) {
	var e *cli.ExitError
	require.ErrorAs(t, cli.Classify(&ortengine.Error{Err: &ort.CrashError{Cause: "signal: killed"}}), &e)
	require.Equal(t, cli.ExitInfeasible, e.Code)
	require.ErrorAs(t, cli.Classify(&ortengine.Error{Err: &ort.CrashError{Cause: "signal: segmentation fault"}}), &e)
	require.Equal(t, cli.ExitMissing, e.Code)
	if findORT(t) == "" {
		return // nothing is predicted for a runtime that is not there
	}
	t.Chdir(t.TempDir())
	defer memlimit.Pretend(8 << 20)()
	got := inProcess(t.Context(), nil, "run example:cnn --dim batch=8 --data-dir . --init random:1 -e ort -q")
	require.Equal(t, cli.ExitInfeasible, got.code, got.errors)
	require.Contains(t, got.errors, "the predicted memory of ONNX Runtime")
}

// TestControlGroup runs the program in a control group of 500 MB, where the test may make one: as
// root, with version 1 of control groups. What is read of groups is tested everywhere, on files
// (package memlimit).
func TestControlGroup(t *testing.T) {
	group := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("memopt-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o777); err != nil {
		t.Logf("there is no group to be tested in: %v", err)
		return
	}
	defer os.Remove(group)
	require.NoError(t, os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte("500000000"), 0o666))
	program := ownProgram(t)
	for line, want := range map[string]int{
		"run example:mlp --dim batch=1024 --init random:1":                   cli.ExitInfeasible,
		"verify example:mlp --level 1 --dim batch=1024 --init random:1":      cli.ExitInfeasible,
		"run example:mlp --dim batch=1024 --init random:1 --mem-pattern off": cli.ExitInfeasible,
		"run example:mlp --dim batch=8 --init random:1":                      0,
	} {
		cmd := exec.CommandContext(context.Background(), "sh", "-c",
			fmt.Sprintf("echo $$ >%s/cgroup.procs && exec %s %s -q", group, program, line))
		out, err := cmd.CombinedOutput()
		require.Equal(t, want, cmd.ProcessState.ExitCode(), "%s: %v\n%s", line, err, out)
		if want != 0 {
			require.Contains(t, string(out), "the limit of the control group ("+group, line)
		}
	}
}
