//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// manyPoints is a grid of n quick points.
func manyPoints(t *testing.T, n int) {
	t.Helper()
	var batches []int
	for i := range n {
		batches = append(batches, 4+i)
	}
	text, err := json.Marshal(map[string]any{"verb": "plan", "models": "example:cnn",
		"dims": map[string]any{"batch": batches}, "flags": map[string]any{"budget": "60%", "time-limit": 0}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("grid.json", text, 0o666))
}

// sweepFiles are the files of a sweep's results.
func sweepFiles(t *testing.T) (list []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("out", "points", "[^.]*")) // a killed sweep leaves hidden temporary files
	require.NoError(t, err)
	return list
}

// TestSweep: each combination has a file, what is finished is not run again, and gathering twice
// changes nothing.
func TestSweep(t *testing.T) {
	exitFolder(t)
	writeGrid(t, sweepGrid)
	got := inProcess(t.Context(), nil, "sweep grid.json -o out --jobs 2 --plot cost.svg")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "4 points: 2 done, 2 unfit.")
	files := sweepFiles(t)
	require.Len(t, files, 4)
	before := readAll(t, append(files, "out/results.jsonl", "out/results.csv", "cost.svg"))
	for _, rest := range []string{"", "--gather", "--index 3", "--retry"} {
		got := inProcess(t.Context(), nil, "sweep grid.json -o out "+rest)
		want := 0
		if strings.Contains(rest, "index") {
			want = cli.ExitInfeasible
		}
		require.Equal(t, want, got.code, got.errors)
		require.Equal(t, before, readAll(t, append(files, "out/results.jsonl", "out/results.csv", "cost.svg")))
	}
	for _, format := range []string{"csv", "markdown"} {
		got := inProcess(t.Context(), nil, "sweep grid.json -o out --gather -O "+format)
		require.Contains(t, got.out, "unfit")
	}
}

// readAll returns the contents of files.
func readAll(t *testing.T, files []string) string {
	t.Helper()
	var b strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s %s\n", file, data)
	}
	return b.String()
}

// TestSweepFaults: what is wrong with a grid is found before anything runs.
func TestSweepFaults(t *testing.T) {
	exitFolder(t)
	for _, c := range []struct{ grid, want string }{
		{`{"verb":"plan","models":"none.onnx"}`, "no such file"},
		{`{"verb":"plan","models":"example:none"}`, "no such built-in model"},
		{`{"verb":"plan","models":"-"}`, "wanted files"},
		{`{"verb":"plan","models":"example:mlp","flags":{"bugdet":"60%"}}`, "did you mean budget?"},
		{`{"verb":"plan","models":"example:mlp","flags":{"save-plan":"a"}}`, "the same file"},
		{`{"verb":"train","models":"example:mlp","flags":{"out":"a"}}`, "gives each job a folder"},
		{`{"verb":"plan","models":"example:mlp","flags":{"threads":"many"}}`, "wanted a whole number"},
		{`{"verb":"plan","models":"example:mlp","flags":{"level":[[1,2]]}}`, "given once only"},
	} {
		writeGrid(t, c.grid)
		got := inProcess(t.Context(), nil, "sweep grid.json -o out")
		require.Equal(t, cli.ExitUsage, got.code)
		require.Contains(t, got.errors, "grid.json: ")
		require.Contains(t, got.errors, c.want)
		require.NoDirExists(t, "out")
	}
	writeGrid(t, sweepGrid)
	for line, want := range map[string]string{"": "-o is missing", "-o out --index 4": "points 0 to 3",
		"-o out --gather --index 1": "cannot be combined", "-o out --dim batch=2": "dims belong into the grid"} {
		got := inProcess(t.Context(), nil, "sweep grid.json "+line)
		require.Equal(t, cli.ExitUsage, got.code)
		require.Contains(t, got.errors, want)
	}
}

// TestSweepFailures: a point that fails does not end the sweep, and runs again only if asked to.
func TestSweepFailures(t *testing.T) {
	exitFolder(t)
	writeGrid(t, `{"verb": "verify", "models": ["forward.onnx", ["forward.onnx", "other.onnx"]],
		"dims": {"batch": 4}, "flags": {"init": "random:1", "data-dir": [null, "none"]}}`)
	got := inProcess(t.Context(), nil, "sweep grid.json -o out -O csv")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, "2 of 4 points failed; the first is point 1")
	require.Contains(t, got.out, "\n2,negative,4,")
	before := readAll(t, sweepFiles(t))
	require.Equal(t, cli.ExitUsage, inProcess(t.Context(), nil, "sweep grid.json -o out").code)
	require.Equal(t, before, readAll(t, sweepFiles(t)))
	require.NoError(t, os.Mkdir("none", 0o777))
	require.NoError(t, os.WriteFile(filepath.Join("none", "other"), nil, 0o666))
	inProcess(t.Context(), nil, "sweep grid.json -o out --retry")
	require.NotEqual(t, before, readAll(t, sweepFiles(t)))
}

// TestSweepSurvivesKills: sweeps that are killed at any moment, two at a time over one folder, leave
// nothing half, and the last one completes the grid.
func TestSweepSurvivesKills(t *testing.T) {
	t.Chdir(t.TempDir())
	const points = 24
	manyPoints(t, points)
	here, err := os.Getwd()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	line := "sweep " + here + "/grid.json -o " + here + "/out --jobs 2 -q"
	for range 12 {
		a, b := startVictim(t, nil, nil, line), startVictim(t, nil, nil, line)
		time.Sleep(time.Duration(20+rng.IntN(120)) * time.Millisecond)
		require.NoError(t, a.cmd.Process.Kill())
		require.NoError(t, b.cmd.Process.Signal([]os.Signal{syscall.SIGTERM, syscall.SIGKILL}[rng.IntN(2)]))
		<-a.ended
		<-b.ended
		for _, file := range sweepFiles(t) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, json.Valid(data), file)
		}
	}
	last := inProcess(t.Context(), nil, line)
	require.Zero(t, last.code, last.errors)
	require.Len(t, sweepFiles(t), points)
	text := readAll(t, []string{"out/results.jsonl"})
	require.Equal(t, points, strings.Count(text, `"outcome":"done"`), text)
}

// TestSweepTrains: a job that is interrupted goes on from its checkpoint, with the bits of one that was
// left alone.
func TestSweepTrains(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	writeGrid(t, `{"verb": "train", "models": "example:transformer", "dims": {"seq": 16},
		"flags": {"data": "example:text", "batch": 2, "max-steps": 40, "save-every": 5, "threads": 1}}`)
	line := "sweep " + here + "/grid.json -q -O json -o " + here
	v := startVictim(t, nil, nil, line+"/out")
	require.Eventually(t, func() bool {
		list, _ := filepath.Glob("out/jobs/*/checkpoints/step-*")
		return len(list) > 0
	}, promptly, 5*time.Millisecond)
	require.NoError(t, v.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, cli.ExitTerminated, v.code(t))
	require.Empty(t, sweepFiles(t))
	got := inProcess(t.Context(), nil, line+"/out")
	require.Zero(t, got.code, got.errors)
	alone := inProcess(t.Context(), nil, line+"/alone")
	require.Zero(t, alone.code, alone.errors)
	loss := func(out string) any {
		var j struct {
			Points []struct{ Loss float64 }
		}
		require.NoError(t, json.Unmarshal([]byte(out), &j))
		return j.Points[0].Loss
	}
	require.Equal(t, loss(alone.out), loss(got.out))
}
