package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/option"
	"memopt/graph"
	"memopt/graph/onnx"
)

// toyModels stand in for the models that gpu-verify looks for, by their names.
var toyModels = map[string]string{
	"mlp_tiny": `mlp (float[batch, 64] x, float[64] w) => (float loss) {
		a = Mul(x, w)  b = Tanh(a)  c = Sigmoid(b)  d = Mul(b, c)  e = Exp(d)  f = Tanh(e)  g = Sigmoid(f)  h = Mul(f, g)  loss = ReduceMean<keepdims = 0>(h) }`,
	"mlp_dropout_bn_tiny": `dropout (float[batch, 8] x, float[8] w) => (float loss) <float ratio = {0.5}, bool training = {1}> {
		a = Mul(x, w)  b = Dropout(a, ratio, training)  c = Tanh(b)  loss = ReduceMean<keepdims = 0>(c) }`,
	"gpt2_tiny": `tokens (int64[batch, seq] ids, float[16, 4096] table, float[4096] scale) => (float loss) {
		x = Gather(table, ids)  y = Softmax<axis = -1>(x)  z = Mul(y, scale)  loss = ReduceMean<keepdims = 0>(z) }`,
	"resnet_tiny": `image (float[batch, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float loss) {
		y = Conv<pads = [1, 1, 1, 1]>(x, w)  z = Relu(y)  loss = ReduceMean<keepdims = 0>(z) }`,
}

// toyTests stands in for a program of go test -c.
const toyTests = `#!/bin/sh
echo '--- PASS: TestLeaks (0.10s)'
echo '    --- PASS: TestLeaks/a (0.10s)'
echo '    x_test.go:3: a thing is missing'
echo '--- SKIP: TestOther (0.00s)'
echo PASS
`

// gpuBundle makes a folder as gpu-verify build does, whose memopt is this program, and returns it
// with that of the toy models.
func gpuBundle(t *testing.T) (bundle, models string) {
	t.Helper()
	if option.Backends["double"] == nil {
		t.Skip("a C++ compiler is missing, which compiles the kernels for the driver double: apt-get install g++")
	}
	for _, name := range []string{"bash", "timeout", "gzip"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is missing, which scripts/gpu-verify needs: apt-get install bash coreutils gzip")
		}
	}
	bundle, models = t.TempDir(), t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, dir := range []string{"bin", "tests/executor/cuda/driver"} {
		require.NoError(t, os.MkdirAll(filepath.Join(bundle, dir), 0o777))
	}
	for _, name := range []string{"memopt", "gpuverify"} {
		require.NoError(t, os.Symlink(self, filepath.Join(bundle, "bin", name)))
	}
	for _, name := range []string{"cuda.test", "driver.test"} {
		require.NoError(t, os.WriteFile(filepath.Join(bundle, "bin", name), []byte(toyTests), 0o777))
	}
	for name, text := range toyModels {
		dir := filepath.Join(models, name)
		require.NoError(t, os.Mkdir(dir, 0o777))
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, name)
		require.NoError(t, err)
		require.NoError(t, onnx.WriteFile(filepath.Join(dir, "model.onnx"), m, onnx.Options{}))
		require.NoError(t,
			os.WriteFile(filepath.Join(dir, "meta.json"),
				[]byte(`{"dims_traced": {"batch": 4`+map[bool]string{true: `, "seq": 3`}[name == "gpt2_tiny"]+`}}`),
				0o666))
	}
	return bundle, models
}

// gpuVerify runs the script and returns what it printed and its exit code.
func gpuVerify(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../scripts/gpu-verify", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(os.Environ(), env...)
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestGPUVerify runs all stages of scripts/gpu-verify at toy sizes, on the driver double.
func TestGPUVerify(t *testing.T) {
	bundle, models := gpuBundle(t)
	out := t.TempDir()
	onDouble := []string{"--backend", "double", "--toy", "--python", "none", "--models", models, "--out", out}
	table, errs, code := gpuVerify(t, nil, append([]string{"run", bundle}, onDouble...)...)
	require.Zero(t, code, "%s%s", table, errs)
	for _, want := range []string{
		`kernels +executor/cuda +pass +passed 1 tests; with 1 cases; skipped 1 tests`,
		`kernels +executor/cuda: skipped tests +not available +TestOther: a thing is missing`,
		`sanitizer-racecheck +compute-sanitizer racecheck +not available`,
		`models +resnet_tiny: verify +pass`,
		`budgets +mlp_tiny: budget of 80% +pass`,
		`budgets +mlp_tiny: largest batch under a limit +pass`,
		`oom +more than the device has, planned +pass`,
		`leaks +memopt run of 10 and of 30 steps +pass`,
		`graphs +mlp_dropout_bn_tiny +pass`,
		`bench-gpt2-bf16 +gpt2_tiny, bfloat16, memopt +pass`,
		`bench-gpt2-bf16 +gpt2_tiny, bfloat16, memopt, captured +pass`,
		`bench-recompute +mlp_tiny: overhead predicted by times of this machine +pass`,
	} {
		require.Regexp(t, want, table)
	}
	var r struct {
		Schema string
		Failed int
		Stages []struct {
			Stage    string
			Finished bool
		}
	}
	data, err := os.ReadFile(filepath.Join(out, "report.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Equal(t, "memopt.gpu/v1", r.Schema)
	require.Zero(t, r.Failed)
	require.Len(t, r.Stages, 15)

	// A test that fails is a failed check; the other stages keep their records.
	failing := strings.Replace(toyTests, "PASS: TestLeaks (", "FAIL: TestLeaks (", 1) + "exit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(bundle, "bin", "cuda.test"), []byte(failing), 0o777))
	table, errs, code = gpuVerify(t, nil,
		append([]string{"run", bundle, "--stage", "kernels", "--stage", "sanitizer"}, onDouble...)...)
	require.Equal(t, 1, code, "%s%s", table, errs)
	require.Regexp(t, `kernels +executor/cuda +fail +.*1 failed, of them TestLeaks`, table)
	require.Regexp(t, `models +resnet_tiny: verify +pass`, table)

	// A stage that was stopped is one as well.
	record := filepath.Join(out, "stage-oom.json")
	data, err = os.ReadFile(record)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(record,
		[]byte(strings.Replace(string(data), `"finished": true`, `"finished": false`, 1)), 0o666))
	table, errs, code = gpuVerify(t, nil, "report", bundle, "--out", out)
	require.Equal(t, 1, code, "%s%s", table, errs)
	require.Regexp(t, `oom +the stage ends +fail +it was stopped`, table)
	require.Contains(t, errs, "2 checks: a check has failed")
}

// TestGPUVerifyWithout: where there is no GPU the script says so in one line, and wrong words are
// faults of usage.
func TestGPUVerifyWithout(t *testing.T) {
	bundle, _ := gpuBundle(t)
	out, errs, code := gpuVerify(t, []string{"MEMOPT_LIBCUDA=/nonexistent"}, "run", bundle, "--out", t.TempDir())
	require.Equal(t, 7, code)
	require.Empty(t, out)
	require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	require.Contains(t, errs, "no NVIDIA driver: /nonexistent")
	for _, args := range [][]string{{}, {"run"}, {"run", bundle, "--stage", "nonesuch"}, {"run", bundle, "--nonesuch"},
		{"run", t.TempDir()}, {"report"}, {"build"}, {"build", bundle}} {
		_, errs, code := gpuVerify(t, nil, args...)
		require.Equal(t, 2, code, "%v: %s", args, errs)
		require.NotEmpty(t, errs)
	}
}
