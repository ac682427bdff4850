package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/view/report"
)

// The variables by which this program, started again, is told what to be: a process that takes so
// much memory, runs so long, ends with a code, and starts another that runs for a minute.
const (
	takeVariable  = "MEMOPT_TEST_TAKE_MIB"
	sleepVariable = "MEMOPT_TEST_SLEEP"
	codeVariable  = "MEMOPT_TEST_CODE"
	childVariable = "MEMOPT_TEST_CHILD" // a file for its number
	beVariable    = "MEMOPT_TEST_BE_COMMAND"
)

func TestMain(m *testing.M) {
	if os.Getenv(beVariable) != "" {
		os.Exit(command())
	}
	os.Exit(m.Run())
}

// command is what the tests try.
func command() int {
	fmt.Println("out")
	if file := os.Getenv(childVariable); file != "" {
		c := exec.Command("sleep", "60")
		if c.Start() != nil || os.WriteFile(file, []byte(strconv.Itoa(c.Process.Pid)), 0o600) != nil {
			return 99
		}
	}
	n, _ := strconv.Atoi(os.Getenv(takeVariable))
	block := make([]byte, n<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	wait, _ := time.ParseDuration(os.Getenv(sleepVariable))
	time.Sleep(wait)
	runtime.KeepAlive(block)
	code, _ := strconv.Atoi(os.Getenv(codeVariable))
	if code != 0 {
		fmt.Fprintf(os.Stderr, "it is\n broken\n")
	}
	return code
}

// trial is a trial of this program as a command.
func trial(t *testing.T, runs int, env []string, settings ...string) *Trial {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("commands are tried on Linux only: run this test there")
	}
	me, err := os.Executable()
	require.NoError(t, err)
	tr := &Trial{Command: []string{me}, Env: append(env, beVariable+"=1"), Runs: runs}
	for _, text := range settings {
		s, err := ParseSetting(text)
		require.NoError(t, err)
		tr.Settings = append(tr.Settings, s)
	}
	return tr
}

const mib = 1 << 20

// TestTrial: the peak is that of the process, to a few megabytes, and a setting that takes less, or
// fails, is told apart.
func TestTrial(t *testing.T) {
	tr := trial(t, 2, []string{takeVariable + "=200"}, takeVariable+"=100", takeVariable+"=300", "OTHER=1",
		codeVariable+"=3", takeVariable+"=")
	tr.Memory, tr.Time = 4<<30, time.Hour // limits that no run reaches
	var seen []string
	tr.Progress = func(run, runs int, setting string) {
		seen = append(seen, fmt.Sprint(run, "/", runs,
			setting))
	}
	var out bytes.Buffer
	tr.Output = &out
	o, err := tr.Run(t.Context())
	require.NoError(t, err)
	require.True(t, o.Finished)
	require.Len(t, o.Rows, 6)
	for i, want := range []int64{200, 100, 300, 200} {
		r := &o.Rows[i]
		require.Len(t, r.Runs, 2, r.Setting)
		require.False(t, r.small())
		require.GreaterOrEqual(t, r.Peak, want*mib)
		require.Less(t, r.Peak, (want+40)*mib)
		require.Equal(t, r.Peak, r.Tree)
		require.Positive(t, r.Wall)
	}
	require.Equal(t, []int{0, -1, 1, 0}, []int{o.Rows[0].Memory, o.Rows[1].Memory, o.Rows[2].Memory,
		o.Rows[3].Memory})

	failing := &o.Rows[4]
	require.Empty(t, failing.Runs)
	require.Equal(t, Ending{Code: 3, Said: "it is broken"}, failing.Ending)
	require.Equal(t, "exit code 3", failing.String())
	require.Equal(t, -1, o.Rows[5].Memory, "without the variable")
	require.Equal(t, "1/13", seen[0])
	require.Len(t, seen, 12, "the setting that fails had one run")
	require.Contains(t, out.String(), "out\n")
	require.Contains(t, out.String(), "broken")
	require.Contains(t, o.Answer(), takeVariable+"= takes the least memory: ")
	require.Contains(t, o.Answer(), "With 2 runs each that can be chance")
	require.Contains(t, o.Answer(), "The command fails with 1 of the settings.")
}

// TestTrialOfSmall: the peak of what takes less than this program is only bounded.
func TestTrialOfSmall(t *testing.T) {
	ballast := make([]byte, 100*mib)
	for i := range ballast {
		ballast[i] = 1
	}
	tr := trial(t, 2, nil, takeVariable+"=20", takeVariable+"=400")
	o, err := tr.Run(t.Context())
	require.NoError(t, err)
	require.True(t, o.Rows[0].small())
	require.GreaterOrEqual(t, o.Rows[0].Peak, int64(100*mib), "a bound")
	require.Zero(t, o.Rows[1].Memory, "of two bounds nothing is known")
	require.Equal(t, 1, o.Rows[2].Memory)
	runtime.KeepAlive(ballast)
	var b bytes.Buffer
	require.NoError(t, tr.Report(&b, report.TableFormat, o))
	require.Contains(t, b.String(), "  more ")
	require.Contains(t, b.String(), "< ")
}

// ends waits until a process has ended.
func ends(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return sessionOf(pid) == 0 || syscall.Kill(pid, 0) != nil },
		10*time.Second,
		10*time.Millisecond, "process %d is still there", pid)
}

// childOf reads the number of the process that a command has started.
func childOf(t *testing.T, file string) int {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(text))
		return pid > 0
	}, 10*time.Second, 10*time.Millisecond)
	return pid
}

// TestLimits: a run ends at its limits, with all the processes that it has started.
func TestLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "child")
	env := []string{childVariable + "=" + file, sleepVariable + "=60s", takeVariable + "=150",
		"PATH=" + os.Getenv("PATH")}
	for name, c := range map[string]struct {
		change     func(*Trial)
		cause      string
		infeasible bool
	}{
		"time":   {func(tr *Trial) { tr.Time = 700 * time.Millisecond }, overTime, false},
		"memory": {func(tr *Trial) { tr.Memory = 80 * mib }, overMemory, true},
	} {
		tr := trial(t, 1, env)
		c.change(tr)
		begin := time.Now()
		_, err := tr.Run(t.Context())
		var failed *FailedError
		require.True(t, errors.As(err, &failed), "%s: %v", name, err)
		require.Equal(t, c.cause, failed.Ending.Cause, name)
		require.Equal(t, c.infeasible, failed.OutOfMemory())
		require.ErrorContains(t, err, c.cause+" without any setting")
		require.Less(t, time.Since(begin), 30*time.Second)
		ends(t, childOf(t, file))
		require.NoError(t, os.Remove(file))
	}
	// What a run leaves behind when it ends by itself.
	tr := trial(t, 1, []string{childVariable + "=" + file, "PATH=" + os.Getenv("PATH")})
	_, err := tr.Run(t.Context())
	require.NoError(t, err)
	ends(t, childOf(t, file))
}

// TestInterrupted: the end of the context ends the run; what was measured until then is there.
func TestInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "child")
	ctx, cancel := context.WithCancel(t.Context())
	tr := trial(t, 3, []string{"PATH=" + os.Getenv("PATH")}, "OTHER=1", sleepVariable+"=60s")
	tr.Settings = append(tr.Settings, Setting{childVariable, file})
	tr.Progress = func(run, runs int, setting string) {
		if setting == sleepVariable+"=60s" {
			time.AfterFunc(200*time.Millisecond, cancel)
		}
	}
	o, err := tr.Run(ctx)
	require.NoError(t, err)
	require.False(t, o.Finished)
	require.Len(t, o.Rows[0].Runs, 1)
	require.Len(t, o.Rows[1].Runs, 1)
	require.Empty(t, o.Rows[2].Runs)
	require.Contains(t, o.Answer(), "interrupted")

	ctx, cancel = context.WithCancel(t.Context())
	tr = trial(t, 1, []string{childVariable + "=" + file, sleepVariable + "=60s",
		"PATH=" + os.Getenv("PATH")})
	go func() { childOf(t, file); cancel() }()
	_, err = tr.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	ends(t, childOf(t, file))
}

func TestFailures(t *testing.T) {
	tr := trial(t, 1, []string{codeVariable + "=7"})
	_, err := tr.Run(t.Context())
	require.ErrorContains(t, err, "exit code 7 without any setting; its last words: it is broken")
	tr.Command = []string{"no-such-program-anywhere"}
	_, err = tr.Run(t.Context())
	require.ErrorIs(t, err, exec.ErrNotFound)
	tr.Command = []string{"sh", "-c", "kill -SEGV $$"}
	_, err = tr.Run(t.Context())
	require.ErrorContains(t, err, "ended by signal: segmentation fault")
}

func TestSettings(t *testing.T) {
	for _, text := range []string{"A=1", "A=", "LD_PRELOAD=/a=b c"} {
		s, err := ParseSetting(text)
		require.NoError(t, err)
		require.Equal(t, text, s.String())
	}
	for _, text := range []string{"", "A", "=1", "A B=1", "A=\x00"} {
		_, err := ParseSetting(text)
		require.ErrorContains(t, err, "wanted NAME=VALUE", text)
	}
	env := []string{"A=0", "AB=2", "C=3"}
	require.Equal(t, []string{"AB=2", "C=3", "A=1"}, Setting{"A", "1"}.apply(env))
	require.Equal(t, []string{"AB=2", "C=3"}, Setting{"A", ""}.apply(env))
	require.Equal(t, []string{"A=0", "AB=2", "C=3"}, env)

	m := machine(node(), map[string]string{"OPENBLAS_CORETYPE": "Haswell", "MALLOC_ARENA_MAX": "2"})
	var got []string
	for _, s := range m.Settings(m.Examine()) {
		got = append(got, s.String())
	}
	require.Equal(t, []string{"OMP_NUM_THREADS=4", "OPENBLAS_CORETYPE=", "MALLOC_ARENA_MAX=1",
		"MALLOC_TRIM_THRESHOLD_=65536", "MALLOC_MMAP_THRESHOLD_=65536",
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}, got)
}

// TestCompare: two sets of runs differ where each of one lies on one side of each of the other, and
// the medians by a hundredth: held against all pairs of short lists.
func TestCompare(t *testing.T) {
	value := func(r *Run) int64 { return r.Peak }
	lists := [][]int64{{}, {1000}, {1000, 1005}, {1009, 1000, 1004}, {1010, 1011}, {990, 989}, {1011, 1012},
		{995, 994}, {1005, 1100},
		{500, 400}}
	for _, a := range lists {
		for _, b := range lists {
			want := 0
			if len(a) > 1 && len(b) > 1 {
				less, more := true, true
				for _, x := range a {
					for _, y := range b {
						less, more = less && y < x, more && y > x
					}
				}
				middle := median(runsOf(a), value)
				switch d := median(runsOf(b), value) - middle; {
				case less && 100*-d >= middle-99:
					want = -1
				case more && 100*d >= middle-99:
					want = 1
				}
			}
			require.Equal(t, want, compare(runsOf(a), runsOf(b), value), "%v %v", a, b)
		}
	}
	require.Equal(t, int64(5), median(runsOf([]int64{9, 1, 5}), value))
	require.Equal(t, int64(3), median(runsOf([]int64{5, 1}), value))
	require.Zero(t, median(nil, value))
}

// TestBounds: of two peaks that are only bounded nothing is known, of one something is.
func TestBounds(t *testing.T) {
	rows := func(smallBase, smallOther bool) []Row {
		return []Row{{Runs: []Run{{Peak: 30, Small: smallBase}, {Peak: 31, Small: smallBase}}},
			{Runs: []Run{{Peak: 20, Small: smallOther}, {Peak: 21, Small: smallOther}}}}
	}
	for _, c := range []struct {
		base, other bool
		want        int
	}{{true, true, 0}, {false, true, -1}, {false, false, -1}} {
		o := Outcome{Rows: rows(c.base, c.other)}
		o.summarize()
		require.Equal(t, c.want, o.Rows[1].Memory)
	}
}

func runsOf(peaks []int64) []Run {
	var runs []Run
	for _, p := range slices.Backward(peaks) {
		runs = append(runs, Run{Peak: p})
	}
	return runs
}

// TestTail keeps the end of what is said on one line.
func TestTail(t *testing.T) {
	w := &tail{}
	for range 100 {
		fmt.Fprintf(w, "line\n")
	}
	fmt.Fprintf(w, "the \xff end\n")
	require.LessOrEqual(t, len(w.String()), tailBytes)
	require.True(t, strings.HasSuffix(w.String(), "line line the end"), w.String())
}
