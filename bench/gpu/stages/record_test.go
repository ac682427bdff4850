package stages

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/internal/fileio"
)

// TestCount: outcomes of go test -v, parts of tests counted apart, and the reasons of skipped
// tests.
func TestCount(t *testing.T) {
	got := count([]byte(`=== RUN   TestA
=== RUN   TestA/x
=== RUN   TestA/y
--- PASS: TestA (0.02s)
    --- PASS: TestA/x (0.01s)
    --- PASS: TestA/y (0.01s)
=== RUN   TestB
    b_test.go:3: wanted 1
--- FAIL: TestB (0.00s)
=== RUN   TestC
    c_test.go:9: a compiler is missing
--- SKIP: TestC (0.00s)
    d_test.go:7: a compiler is missing
--- SKIP: TestD (0.00s)
    e_test.go:1: data are missing
--- SKIP: TestE (0.00s)
FAIL
`))
	require.Equal(t, &tally{passed: 1, cases: 2, failed: []string{"TestB"}, skips: 3,
		skipped: []string{"TestC, TestD: a compiler is missing", "TestE: data are missing"}}, got)
}

// TestFirstError: what compute-sanitizer found first.
func TestFirstError(t *testing.T) {
	require.Equal(t, "Invalid __global__ read of size 4 bytes",
		firstError([]byte("x\n========= COMPUTE-SANITIZER\n========= \n========= Invalid __global__ read of size 4 "+
			"bytes\n=========     at 0x10\n")))
	require.Equal(t, "it found errors", firstError(nil))
}

// TestMapped: NVIDIA's libraries among the mapped files, each once.
func TestMapped(t *testing.T) {
	require.Equal(t, []string{"/usr/lib/libcuda.so.1", "/opt/x y/libcublasLt.so.12"},
		mapped(`7f00-7f01 r--p 00000000 08:01 12 /usr/lib/libcuda.so.1
7f01-7f02 r-xp 00000000 08:01 12 /usr/lib/libcuda.so.1
7f02-7f03 rw-p 00000000 00:00 0
7f03-7f04 r-xp 00000000 08:01 13 /lib/libc.so.6
7f04-7f05 r-xp 00000000 08:01 14 /opt/x y/libcublasLt.so.12
`))
}

// TestBisect finds the largest batch that fits, or one within its 64th part; a batch that fails for
// another reason ends the search.
func TestBisect(t *testing.T) {
	for _, c := range []struct{ first, fits, least int64 }{{8, 8, 8}, {8, 29, 29}, {1, 1000, 985}, {32, 63, 63}} {
		tried := map[int64]bool{}
		best, v, _ := new(runner).bisect(c.first, func(batch int64) (*answer, *runReport) {
			require.False(t, tried[batch], "batch %d is tried twice", batch)
			tried[batch] = true
			if batch > c.fits {
				return &answer{code: exitInfeasible}, nil
			}
			return &answer{}, &runReport{NotCaptured: time.Duration(batch).String()}
		})
		require.LessOrEqual(t, best, c.fits)
		require.GreaterOrEqual(t, best, c.least)
		require.Equal(t, time.Duration(best).String(), v.NotCaptured, "what the largest one took")
	}
	_, v, why := new(runner).bisect(4, func(batch int64) (*answer, *runReport) {
		return &answer{code: map[bool]int{true: 1}[batch > 4], stderr: "a fault"}, new(runReport)
	})
	require.Nil(t, v)
	require.Equal(t, "batch 8: a fault", why)
}

// TestApart: the distance of a tensor from its reference, as a share of the tolerance.
func TestApart(t *testing.T) {
	refs, got := t.TempDir(), t.TempDir()
	write := func(dir, name string, v ...float32) {
		require.NoError(t,
			dataset.WriteDir(dir,
				[]dataset.Named{{Name: name, Tensor: executor.NewTensor(graph.Float32, []int{len(v)}, v...)}},
				new(fileio.Ledger)))
	}
	write(refs, "w", 1, -4, 2)
	write(got, "w_grad", 1, -4, 2.05)
	m := new(model)
	m.meta.Tolerance.Abs, m.meta.Tolerance.Rel = 0.02, 0.02
	share, name, err := m.apart(filepath.Join(refs, "w.pb"), got, true)
	require.NoError(t, err)
	require.Equal(t, "w_grad", name)
	require.InDelta(t, 0.5, share, 1e-4, "0.05 of 0.02 + 0.02*4")
	write(got, "w_grad", 1, -4)
	_, _, err = m.apart(filepath.Join(refs, "w.pb"), got, true)
	require.ErrorContains(t, err, "wanted float[3]")
}

// TestMergeFaults: folders without records, and records of another form, are named.
func TestMergeFaults(t *testing.T) {
	dir := t.TempDir()
	_, err := merge(dir)
	require.ErrorContains(t, err, "has no records")
	require.NoError(t, os.WriteFile(path(dir, "env"), []byte(`{"schema": "other"}`), 0o666))
	_, err = merge(dir)
	require.ErrorContains(t, err, `its schema is "other"`)
	require.NoError(t, os.WriteFile(path(dir, "env"), []byte(`{`), 0o666))
	_, err = merge(dir)
	require.ErrorContains(t, err, "stage-env.json")
}

// TestUsage: words that mean nothing end with exit code 2 and the usage.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"nonesuch"}, {"stage"}, {"report", "x"}, {"half", "a"}, {"list", "nonesuch"},
		{"stage", "env", "--nonesuch"}} {
		var out, errs strings.Builder
		require.Equal(t, exitUsage, Main(args, &out, &errs), "%v", args)
		require.NotEmpty(t, errs.String())
	}
	var out, errs strings.Builder
	require.Equal(t, exitFailed, Main([]string{"half", "nonesuch.onnx", t.TempDir() + "/x"}, &out, &errs))
	require.Contains(t, errs.String(), "nonesuch.onnx")
	require.Equal(t, exitDone, Main([]string{"list", "sanitizer"}, &out, &errs))
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
}

// TestStopped: a stage that is stopped keeps what it found, records nothing of the check that was
// under way, and is not finished.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := options{out: t.TempDir()}
	s := &stage{name: "env", run: func(r *runner) {
		r.row("before", Pass, "")
		cancel()
		r.judge("after", false, "it was killed")
	}}
	require.NoError(t, runStage(ctx, s, o))
	r, err := readRecord(path(o.out, "env"))
	require.NoError(t, err)
	require.False(t, r.Finished)
	require.Len(t, r.Rows, 1)
	m, err := merge(o.out)
	require.NoError(t, err)
	require.Equal(t, 1, m.Failed)
}
