//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor/ort"
)

// promptly is how long anything may take that takes less than half a second on a machine that does
// nothing else.
const promptly = 5 * time.Second

// victim is memopt in a process of its own, with folders of its own for outputs and for temporary
// files.
type victim struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	work     string
	temp     string
	ended    chan error
}

// startVictim starts a command line, in which WORK stands for the folder of outputs. input is where
// it reads from; nil: an empty input. It has more files from number 3 on.
func startVictim(t *testing.T, input *os.File, env []string, line string, more ...*os.File) *victim {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	v := &victim{work: t.TempDir(), temp: t.TempDir(), ended: make(chan error, 1)}
	v.cmd = exec.Command(path)
	// Which is what makes this program memopt.
	v.cmd.Args = append([]string{"memopt"}, strings.Fields(strings.ReplaceAll(line, "WORK", v.work))...)
	v.cmd.Env = append(append(os.Environ(), "TMPDIR="+v.temp), env...)
	v.cmd.Stdout, v.cmd.Stderr, v.cmd.ExtraFiles = &v.out, &v.err, more
	if input != nil {
		v.cmd.Stdin = input
	}
	require.NoError(t, v.cmd.Start())
	go func() { v.ended <- v.cmd.Wait() }()
	t.Cleanup(func() { v.cmd.Process.Kill() })
	return v
}

// code waits for the end and returns the exit code.
func (v *victim) code(t *testing.T) int {
	t.Helper()
	select {
	case <-v.ended:
	case <-time.After(promptly):
		v.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines say where it hangs
		<-v.ended
		t.Fatalf("memopt %v goes on:\n%.20000s", v.cmd.Args[1:], v.err.String())
	}
	return v.cmd.ProcessState.ExitCode()
}

// left lists what is left in the folder of temporary files, and what is left under temporary names
// in that of outputs.
func (v *victim) left(t *testing.T) (names []string) {
	t.Helper()
	for _, dir := range []string{v.temp, v.work} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if dir == v.temp || strings.HasPrefix(e.Name(), ".") || strings.HasSuffix(e.Name(), ".tmp") {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	return names
}

// vanishes waits until something is no more.
func vanishes(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(promptly); there(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "%s is still there", what)
	}
}

// ending is a signal that asks for the end, with its exit code.
type ending struct {
	signal syscall.Signal
	code   int
}

// endings lists them, but for those that were ignored when the tests began, as under nohup: what
// they start ignores them, too.
func endings() []ending {
	all := []ending{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}}
	return slices.DeleteFunc(all, func(e ending) bool { return signal.Ignored(e.signal) })
}

// TestKilledAnywhere: a signal at any moment of any verb ends it with its code, or finds it done; a
// report is whole or not there, and nothing temporary stays. The moments are drawn.
func TestKilledAnywhere(t *testing.T) {
	exitFolder(t)
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.Zero(t, inProcess(t.Context(), nil, "apply example:transformer --level 0 -o training.onnx -q").code)
	for _, line := range []string{
		"plan example:transformer -O json",
		"plan example:transformer --budget 45% --time-limit 1m -O json --save-plan WORK/plan.json",
		"plan example:transformer --budget 45% --order memory --time-limit 1m -O json",
		"plan example:transformer --pareto 5 --time-limit 1m -O json",
		"plan example:transformer --budget 60% --budget-in ort --time-limit 1m -O json",
		"apply DIR/training.onnx --level 1 --dim batch=8,seq=512 -o WORK/out.onnx --external-data 1 -O json",
		"apply example:transformer --budget 45% --time-limit 1m -o WORK/out.onnx -O json",
		"grad DIR/forward.onnx -o WORK/train.onnx -O json",
		"inspect DIR/training.onnx -O json",
		"run example:mlp --dim batch=64 --init random:1 -r 1000 --save-outputs WORK/out.npz -O json",
		"run example:mlp --dim batch=64 --init random:1 --save-outputs WORK/out -O json",
		"verify example:transformer --dim batch=1,seq=32 --init random:1 --level 1 -O json",
		"solve DIR/hard.json --budget 70% --time-limit 1m -o WORK/schedule.json -O json",
		"ops -O json",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(len(line)), 7))
			for _, e := range endings() {
				v := startVictim(t, nil, nil, strings.ReplaceAll(line, "DIR", dir))
				time.Sleep(time.Duration(rng.ExpFloat64() * float64(100*time.Millisecond)))
				v.cmd.Process.Signal(e.signal)
				code := v.code(t)
				// -1: it came before the program listened
				require.Contains(t, []int{0, e.code, -1}, code, v.err.String())
				if code == -1 {
					require.Equal(t, e.signal, v.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
				}
				if v.out.Len() > 0 {
					require.True(t, json.Valid(v.out.Bytes()), v.out.String())
				}
				require.Empty(t, v.left(t))
			}
		})
	}
}

// TestKilledWhileItWaits: what waits for somebody else, who never comes, ends; a second signal is
// not needed.
func TestKilledWhileItWaits(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip("the test needs a named pipe, and mkfifo (coreutils) makes none: ", err)
	}
	in, out, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer out.Close()
	for _, line := range []string{"plan FIFO", "plan -", "grad - -o WORK/out", "pack - -o WORK/out",
		"solve FIFO -o WORK/out", "run example:mlp --dim batch=2 --data-dir FIFO", "plan example:mlp --config FIFO",
		"plan example:mlp --cost FIFO", "apply example:mlp -o FIFO"} {
		for _, e := range endings() {
			v, code := whileItWaits(t, in, nil, strings.ReplaceAll(line, "FIFO", fifo), e.signal)
			if code == cli.ExitUsage {
				require.Contains(t, v.err.String(), fifo, line) // it is no kind of file that the flag takes
			} else {
				require.Equal(t, e.code, code, "%s: %s", line, v.err.String())
				require.Equal(t, "memopt: interrupted", lastLine(v.err.String()), line)
			}
			require.Zero(t, v.out.Len(), line)
			require.Empty(t, v.left(t), line)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// whileItWaits starts a command line that waits for something, sends it a signal and returns it
// with its exit code. A signal that finds a program that does not listen yet, which is how every
// program begins, is sent to another one, later.
func whileItWaits(t *testing.T, input *os.File, env []string, line string, s syscall.Signal) (*victim, int) {
	t.Helper()
	const first = 50 * time.Millisecond
	for wait := first; ; wait *= 2 {
		v := startVictim(t, input, env, line)
		time.Sleep(wait)
		v.cmd.Process.Signal(s)
		code := v.code(t)
		if code != -1 || wait > promptly {
			return v, code
		}
	}
}

// hangingLibrary compiles a library whose constructor never ends where a variable of the
// environment is set and not empty, and which is ONNX Runtime where it is not and a path of that is
// given; or skips.
func hangingLibrary(t *testing.T, variable, runtime string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("a library that hangs needs a C compiler, cc, which is missing: apt-get install gcc")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "hang.c"), filepath.Join(dir, "libhang.so")
	text := fmt.Sprintf(`#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void hang(void) { const char *set = getenv(%q); while (set && *set) sleep(1); }
const void *OrtGetApiBase(void) {
	const void *(*base)(void) = (const void *(*)(void))dlsym(dlopen(%q, RTLD_NOW), "OrtGetApiBase");
	return base();
}
`, variable, runtime)
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	said, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", said)
	return library
}

// TestHangingLibrary: a library that does not come back from being loaded holds up no signal, in
// this process or in the one of ONNX Runtime, which ends with its parent.
func TestHangingLibrary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("libraries are loaded at run time on Linux alone: run the test there")
	}
	library := hangingLibrary(t, "HANG", "")
	for _, c := range []struct{ variable, line string }{
		{"MEMOPT_OPENBLAS", "run example:mlp --dim batch=2 --init random:1"},
		{"MEMOPT_LIBCUDA", "run example:mlp --dim batch=2 --init random:1 -e cuda"},
		{ort.LibraryVariable, "run example:mlp --dim batch=2 --init random:1 -e ort"},
	} {
		for _, e := range endings() {
			v, code := whileItWaits(t, nil, []string{"HANG=1", c.variable + "=" + library}, c.line, e.signal)
			require.Equal(t, e.code, code, "%s: %s", c.line, v.err.String())
			require.Empty(t, v.left(t), c.line)
		}
	}
}

// TestChildOfTheKilled: where memopt is killed outright, the process of ONNX Runtime ends, too, and
// removes what was exchanged.
func TestChildOfTheKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc, which says whose child a process is, is missing: run the test on Linux")
	}
	real := findORT(t)
	if real == "" {
		t.Skip("ONNX Runtime's library is missing: npm install onnxruntime-node, and name its folder by ORT_NODE_DIR")
	}
	// The second time it is loaded, in the process that is to run.
	library := hangingLibrary(t, "MEMOPT_ORT_FOLDER", real)
	for range 3 {
		v := startVictim(t, nil, []string{ort.LibraryVariable + "=" + library},
			"run example:mlp --dim batch=2 --init random:1 -e ort")
		pid := v.cmd.Process.Pid
		var children []int
		vanishes(t, "what comes before the second process and its folder", func() bool {
			if len(v.left(t)) == 0 {
				return true // a process that is there has another purpose
			}
			children = childrenOf(t, pid)
			return len(children) == 0
		})
		require.NoError(t, v.cmd.Process.Kill())
		v.code(t)
		vanishes(t, "the folder", func() bool { return len(v.left(t)) > 0 })
		for _, child := range children {
			vanishes(t, "the process of ONNX Runtime", func() bool { return syscall.Kill(child, 0) == nil })
		}
	}
}

// childrenOf lists the processes that a process has started.
func childrenOf(t *testing.T, pid int) (list []int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, file := range threads {
		text, _ := os.ReadFile(file) // a thread may have ended
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			list = append(list, child)
		}
	}
	return list
}

// TestNobodyReads: a reader that goes away, as head does, ends the program without a word.
func TestNobodyReads(t *testing.T) {
	out, in, err := os.Pipe()
	require.NoError(t, err)
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Args = []string{"memopt", "ops"}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = in, &said
	require.NoError(t, out.Close())
	err = cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitPipe, exit.ExitCode())
	require.Empty(t, said.String())
}

// TestParentEnds: the end of the process that holds the pipe ends the program, as a closed terminal does; a number that
// is no such pipe's has no effect.
func TestParentEnds(t *testing.T) {
	in, writer, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer writer.Close()
	for _, line := range []string{
		"plan example:transformer --budget 45% --time-limit 10m -O json --save-plan WORK/plan.json",
		"plan -",
	} {
		pipe, held, err := os.Pipe()
		require.NoError(t, err)
		v := startVictim(t, in, []string{"MEMOPT_PARENT_PIPE=3"}, line, pipe)
		require.NoError(t, pipe.Close())
		time.Sleep(300 * time.Millisecond)
		require.Empty(t, v.ended, line)
		require.NoError(t, held.Close())
		require.Equal(t, cli.ExitHungUp, v.code(t), "%s: %s", line, v.err.String())
		require.Empty(t, v.left(t), line)
	}
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	for _, number := range []string{"0", "1", "2", "3", "4", "-1", "x"} {
		v := startVictim(t, nil, []string{"MEMOPT_PARENT_PIPE=" + number}, "plan example:mlp -O json", null)
		require.Zero(t, v.code(t), number)
		require.Empty(t, v.err.String(), number)
	}
}
