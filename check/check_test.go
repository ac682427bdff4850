package check_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/planner/offload"
)

// TestValid: no alarm over valid plans, and the numbers of the plain reading.
func TestValid(t *testing.T) {
	moved := 0
	for _, p := range plans(t, 1, 200) {
		r := p.check()
		require.Empty(t, r.Faults, "%s: %s\n%s", p.name, text(p.instance), text(p.answer))
		require.True(t, r.Valid)
		if p.answer["certificate"] == nil {
			require.Equal(t, []string{"steps", "copies", "numbers"}, r.Proved)
		}
		require.InDelta(t, p.answer["overhead"], r.Overhead, 1e-9)
		require.Equal(t, p.answer["peak"], r.Peak)
		if p.answer["link"] != nil {
			moved++
			require.Equal(t, p.answer["host_peak"], r.HostPeak)
			require.InDelta(t, p.answer["makespan"], r.Makespan, 1e-6)
		}
	}
	require.Greater(t, moved, 50)
}

// TestPlanned: no alarm over schedules whose values the planner moves, and their bounds are proved. No certificate,
// whatever its moment and price, proves more than the schedule takes.
func TestPlanned(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	moved, proved, helped := 0, 0, 0
	for i := range 60 {
		in := randomInstance(rng, 4+rng.IntN(10))
		if i%3 > 0 {
			in = trainingInstance(rng, 3+rng.IntN(6))
		}
		link := offload.Link{BytesPerSecond: 1e6 * math.Exp2(6*rng.Float64()),
			Latency: time.Duration(rng.IntN(3)) * 300}
		p := planned(t, "planned", in, 0.4+0.5*rng.Float64(), link)
		if p == nil {
			continue
		}
		r := p.check()
		require.Empty(t, r.Faults, "%s\n%s", text(p.instance), text(p.answer))
		if r.HostPeak > 0 {
			moved++
		}
		if r.BoundProved != nil && slices.Contains(r.Proved, "bound") {
			proved++
		}
		rate := link.BytesPerSecond / map[any]float64{"us": 1e6, "ms": 1e3}[p.instance["cost_unit"]]
		for _, id := range shapeOf(p.instance).order {
			c := object{"moment": id, "price": rng.Float64() / rate, "budget_bytes": p.answer["peak"], "bound": 0,
				"order": map[bool]string{true: "given", false: "any"}[p.instance["order"] == "given"]}
			p.answer["certificate"] = c
			r := p.check()
			require.LessOrEqual(t, *r.BoundProved, r.Overhead+1e-9, "%s\n%s", text(p.instance), text(p.answer))
			if *r.BoundProved > 0 {
				helped++
			}
			c["price"] = 1.001 / rate // more than the time that the link takes for a byte is no proof
			require.Zero(t, *p.check().BoundProved)
		}
	}
	t.Logf("%d move values, %d with a bound that is proved, %d other proofs", moved, proved, helped)
	require.Greater(t, moved, 8)
	require.Greater(t, proved, 2)
	require.Positive(t, helped)
}

// TestInstances: no alarm over answers for the instances that the repository has.
func TestInstances(t *testing.T) {
	files, err := filepath.Glob("../planner/remat/testdata/joint/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, share := range []float64{0.9, 0.5} {
			p := solved(t, file, read(t, b), share)
			require.NotNil(t, p)
			r := p.check()
			require.Empty(t, r.Faults, "%s at %g", file, share)
		}
	}
}

// pythonLoop has the file check.py answer plans, a line of two objects each.
const pythonLoop = `
import json, sys
sys.path.insert(0, sys.argv[1])
import check
for line in sys.stdin:
    answer, instance = json.loads(line)
    print(json.dumps(check.check(answer, instance)))
`

// pythonOf is a Python: that of the tests with PyTorch, which .ci/run makes, or the system's.
func pythonOf(t *testing.T) string {
	t.Helper()
	if python := os.Getenv("TORCH_PYTHON"); python != "" {
		return python
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing: install it, or set TORCH_PYTHON, as .ci/run does")
	}
	return python
}

// TestPython: check.py agrees in every field, over valid plans and over mutants of all kinds.
func TestPython(t *testing.T) {
	python := pythonOf(t)
	var in bytes.Buffer
	var want []string
	add := func(p *plan) {
		in.WriteString("[" + text(p.answer) + "," + text(p.instance) + "]\n")
		want = append(want, text(p.check()))
	}
	for _, p := range plans(t, 4, 100) {
		add(p)
		for k, m := range mutants {
			c := p.clone()
			if m.make(rand.New(rand.NewPCG(uint64(k), 5)), c) {
				add(c)
			}
		}
	}
	cmd := exec.Command(python, "-c", pythonLoop, "../python/src/memopt")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, got, len(want))
	for i := range got {
		require.JSONEq(t, want[i], got[i])
	}
	require.Greater(t, len(got), 500)
}

// TestPythonAlone: check.py runs by itself, and its exit codes are those of memopt check.
func TestPythonAlone(t *testing.T) {
	python := pythonOf(t)
	file := filepath.Join(t.TempDir(), "check.py")
	b, err := os.ReadFile("../python/src/memopt/check.py")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	p := plans(t, 6, 1)[0]
	for code, answer := range map[int]string{0: text(p.answer), 4: `{"steps": []}`, 2: `{"steps": 1}`} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(answer), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "i.json"), []byte(text(p.instance)), 0o600))
		cmd := exec.Command(python, "-I", "-S", file, filepath.Join(dir, "a.json"), filepath.Join(dir, "i.json"))
		out, _ := cmd.CombinedOutput()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s", out)
	}
}
