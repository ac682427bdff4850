package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/cmd/memopt/internal/cli"
)

// torchFigure is a step that PyTorch has run (bench/torch2/step.py --testdata).
type torchFigure struct {
	Model, Attention, Form, File string
	Flags                        []string
	Measured                     int64
}

// path is the file of a figure.
func (f *torchFigure) path() string {
	name := f.Model + "-" + f.Attention + "-" + f.Form + ".onnx"
	if f.File == "traced" {
		name = strings.TrimSuffix(name, ".onnx") + ".step.json"
	}
	return filepath.Join("testdata", "pytorch", "steps", name)
}

// torchEstimate is the JSON of an estimate of PyTorch's step.
type torchEstimate struct {
	Runtime string
	Total   int64 `json:"total_bytes"`
	Parts   map[string]int64
	Peak    string `json:"peak_node"`
	Plan    *struct {
		Total int64 `json:"total_bytes"`
		Parts map[string]int64
	} `json:"with_plan"`
}

// TestTorchSteps: estimates of PyTorch's steps are within 2 % of PyTorch's measured bytes, and their parts add up.
func TestTorchSteps(t *testing.T) {
	text, err := os.ReadFile("testdata/pytorch/steps/figures.json")
	require.NoError(t, err)
	var figures []torchFigure
	require.NoError(t, json.Unmarshal(text, &figures))
	require.Greater(t, len(figures), 80)
	updates := 0
	for _, f := range figures {
		line := "estimate " + f.path() + " --runtime torch -O json " + strings.Join(f.Flags, " ")
		got := inProcess(t.Context(), nil, line)
		require.Zero(t, got.code, got.errors)
		var e torchEstimate
		require.NoError(t, json.Unmarshal([]byte(got.out), &e), line)
		require.Equal(t, "torch", e.Runtime)
		require.LessOrEqual(t, math.Abs(float64(e.Total)/float64(f.Measured)-1), 0.02, "%s: %d of %d", line, e.Total,
			f.Measured)
		require.Equal(t, e.Total, sum(e.Parts), line)
		if strings.HasPrefix(e.Peak, "torch.optim.") {
			updates++
		}
	}
	require.Greater(t, updates, len(figures)/10, "steps whose peak is the update's")
}

// sum adds up parts.
func sum(parts map[string]int64) (n int64) {
	for _, p := range parts {
		n += p
	}
	return n
}

// TestTorchPlan: a step of PyTorch that does not fit has a choice of modules with which it does, within the memory,
// and the next command finds it.
func TestTorchPlan(t *testing.T) {
	exitFolder(t)
	writeModules(t)
	const line = "estimate modules.onnx --dim batch=4096 --runtime torch --reserve 0 "
	run := func(flags string) ended { return inProcess(t.Context(), nil, flags) }
	var e torchEstimate
	require.NoError(t, json.Unmarshal([]byte(run(line+"-O json").out), &e))
	for _, more := range []string{"", "--gradient-accumulation-steps 2 "} {
		got := run(line + more + "--gpu 6MB -O json")
		require.Equal(t, cli.ExitInfeasible, got.code, got.errors)
		var fits torchEstimate
		require.NoError(t, json.Unmarshal([]byte(got.out), &fits))
		require.NotNil(t, fits.Plan)
		require.Less(t, fits.Plan.Total, int64(6_000_000))
		require.Equal(t, fits.Plan.Total, sum(fits.Plan.Parts))
		_, next, _ := strings.Cut(run(line+more+"--gpu 6MB").out, "next: memopt ")
		require.Zero(t, run(strings.TrimSpace(next)).code, next)
	}
	got := run(line + "--gpu 2MB -O json")
	require.Equal(t, cli.ExitInfeasible, got.code)
	require.Contains(t, got.out, "No plan that was found fits, either")
}

// TestTorchRefused: flags without a meaning for PyTorch's step, and files that have no such step.
func TestTorchRefused(t *testing.T) {
	exitFolder(t)
	writeModules(t)
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"modules.onnx --runtime jax", cli.ExitUsage, `--runtime "jax": wanted memopt or torch`},
		{"modules.onnx --runtime torch", cli.ExitUsage, `"batch"`},
		{"modules.onnx --runtime torch --dp 2", cli.ExitUsage, "--dp cannot be combined with --runtime torch"},
		{"modules.onnx --runtime torch --precision bf16", cli.ExitUsage, "--precision cannot be combined"},
		{"modules.onnx --runtime torch --check", cli.ExitUsage, "--check cannot be combined"},
		{"modules.onnx --runtime torch --optimizer lamb", cli.ExitUsage, "wanted " + autograd.Kinds("none")},
		{"example:mlp --runtime torch", cli.ExitInvalid, "leave out --runtime torch"},
		{tracedStep + " --runtime memopt", cli.ExitUsage, "is a step that PyTorch traced"},
		{tracedStep + " --dim batch=2", cli.ExitUsage, "--dim has no effect on it"},
		{tracedStep + " --outputs loss", cli.ExitUsage, "--outputs has no effect on it"},
		{tracedStep + " --freeze head", cli.ExitUsage, "--freeze has no effect on it"},
		{tracedStep + " --momentum 1 --optimizer none", cli.ExitUsage, "--momentum configures an optimizer"},
	} {
		got := inProcess(t.Context(), nil, "estimate "+c.line)
		require.Equal(t, c.code, got.code, "%s: %s", c.line, got.errors)
		require.Contains(t, got.errors, c.want, c.line)
	}
	unnamed := inProcess(t.Context(), nil, "estimate unnamed.onnx --dim batch=8 --runtime torch")
	require.Zero(t, unnamed.code, "no modules are needed: %s", unnamed.errors)
}
