package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/onnx"
)

// writeModules writes modules.onnx, a forward model of two blocks with names as torch.onnx.export gives them, and
// unnamed.onnx, the same without.
func writeModules(t *testing.T) {
	t.Helper()
	const text = `<ir_version: 8, opset_import: ["" : 17]>
	m (float[batch, 32] x, float[32, 64] w0, float[64, 32] w1, float[32, 64] w2, float[64, 32] w3) => (float loss) {
		["/h.0/up/Gemm"] a0 = Gemm (x, w0)
		["/h.0/act/Tanh"] b0 = Tanh (a0)
		["/h.0/down/Gemm"] c0 = Gemm (b0, w1)
		["/h.1/up/Gemm"] a1 = Gemm (c0, w2)
		["/h.1/act/Tanh"] b1 = Tanh (a1)
		["/h.1/drop/Dropout"] d1 = Dropout <ratio = 0.1> (b1)
		["/h.1/down/Gemm"] c1 = Gemm (d1, w3)
		["/Mean"] loss = ReduceMean <keepdims = 0> (c1)
	}`
	unnamed := strings.ReplaceAll(text, "/", "")
	for name, source := range map[string]string{"modules.onnx": text, "unnamed.onnx": unnamed} {
		m, err := graph.Parse(strings.ReplaceAll(source, "Dropout <ratio = 0.1> (b1)", "Exp (b1)"), "m")
		require.NoError(t, err)
		require.NoError(t, onnx.WriteFile(name, m, onnx.Options{}))
	}
}

// namedSteps has steps of JAX with named values.
var namedSteps = ofTorch("../../jax/testdata/steps.zip")

// tracedStep is a step that PyTorch traced: four blocks that end with a dropout.
var tracedStep = ofTorch("net.step.json")

// operatorPlan80 is a plan of operators of a small perceptron for an H100, at 80 % of its peak.
var operatorPlan80 = ofTorch("net.operators.json")

// ofTorch is the path of a file that memopt.torch has written.
func ofTorch(name string) string {
	path, err := filepath.Abs(filepath.Join("../../sim/torch/testdata", name))
	if err != nil {
		panic(err)
	}
	return path
}

// TestOperatorPlan: verbs that read models read a plan of operators as the graph of its schedule, whose peak is the
// plan's, and solve takes its graph.
func TestOperatorPlan(t *testing.T) {
	exitFolder(t)
	for _, line := range []string{"report -o page.html", "trace -o step.json", "inspect"} {
		end := inProcess(t.Context(), nil, line+" -q "+operatorPlan80)
		require.Zero(t, end.code, line+end.errors)
	}
	end := inProcess(t.Context(), nil, "explain -O json -q "+operatorPlan80)
	require.Zero(t, end.code, end.errors)
	require.Contains(t, end.out, `addmm_recompute`)
	require.Contains(t, end.out, `34816`) // the peak_bytes of the plan
	end = inProcess(t.Context(), nil, "diff -q "+operatorPlan80+" "+operatorPlan80)
	require.Zero(t, end.code, end.errors)
	require.Contains(t, end.out, "No difference.")
	end = inProcess(t.Context(), nil, "diff -q --fail-if peak>30KiB "+operatorPlan80+" "+operatorPlan80)
	require.Equal(t, cli.ExitEarly, end.code, end.errors)
	end = inProcess(t.Context(), nil, "fit --gpu 24GiB --vary batch "+operatorPlan80)
	require.Equal(t, cli.ExitUsage, end.code)
	require.Contains(t, end.errors, "is a plan of operators, made for one batch: --vary batch needs a model")
	require.NoError(t, os.WriteFile("bad.json", []byte(`{"format": "memopt-operators", "version": 2}`), 0o644))
	end = inProcess(t.Context(), nil, "explain bad.json")
	require.Equal(t, cli.ExitUsage, end.code)
	require.Contains(t, end.errors, "of version 2, wanted 1")
	require.NoError(t, os.WriteFile("bad.json", []byte(
		`{"format": "memopt-operators", "version": 1, "held": [{"name": "w", "bytes": -5}], "graphs": [{}]}`), 0o644))
	end = inProcess(t.Context(), nil, "explain bad.json")
	require.Equal(t, cli.ExitUsage, end.code)
	require.Contains(t, end.errors, `"w" has -5 bytes`)
	data, err := os.ReadFile(operatorPlan80)
	require.NoError(t, err)
	var plan struct {
		Peak   int64 `json:"peak_bytes"`
		Graphs []struct {
			Instance json.RawMessage `json:"instance"`
		} `json:"graphs"`
	}
	require.NoError(t, json.Unmarshal(data, &plan))
	require.NoError(t, os.WriteFile("graph.json", plan.Graphs[0].Instance, 0o644))
	end = inProcess(t.Context(), nil, "solve graph.json -o schedule.json -O json")
	require.Zero(t, end.code, end.errors)
	var solved struct {
		Peak int64 `json:"peak"`
	}
	require.NoError(t, json.Unmarshal([]byte(end.out), &solved))
	require.LessOrEqual(t, solved.Peak, plan.Peak)
}

// TestPlanTraced: modules of a step that PyTorch traced are planned as those of a model.
func TestPlanTraced(t *testing.T) {
	exitFolder(t)
	run := func(flags string) ended { return inProcess(t.Context(), nil, "plan "+flags+" --select modules") }
	got := run(tracedStep + " --budget 70% --save-plan plan.json")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "Fits: ")
	require.Contains(t, got.out, " of h.")
	require.Contains(t, got.out, "\nbudget 75%  ")
	require.NotContains(t, run(tracedStep+" --budget 70% --time-limit 0").out, "budget 75%")
	var plan struct {
		Modules    []string
		Torch      string
		RNG        bool  `json:"preserve_rng_state"`
		Held       int64 `json:"held_bytes"`
		Peak       int64 `json:"peak_bytes"`
		Baseline   int64 `json:"baseline_peak_bytes"`
		Parameters map[string][]int64
	}
	text, err := os.ReadFile("plan.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &plan))
	require.NotEmpty(t, plan.Modules)
	require.True(t, plan.RNG, "blocks drop")
	require.Equal(t, "2.15.0", plan.Torch)
	require.Equal(t, []int64{5, 16}, plan.Parameters["head.weight"])
	require.LessOrEqual(t, float64(plan.Peak-plan.Held), 0.7*float64(plan.Baseline-plan.Held))

	step, err := os.ReadFile(tracedStep)
	require.NoError(t, err)
	streamed := inProcess(t.Context(), bytes.NewReader(step), "plan - --budget 70% --save-plan - -q --select modules")
	require.Zero(t, streamed.code, streamed.errors)
	require.True(t, strings.HasPrefix(streamed.out, strings.ReplaceAll(string(text), filepath.Base(tracedStep), "-")),
		streamed.out)

	require.Contains(t, run(tracedStep+" -O torch").out, "No module needs a checkpoint")
	every := run(tracedStep + " --level 1 -O torch")
	require.Contains(t, every.out, `"h.3"`)
	require.Equal(t, cli.ExitInfeasible, run(tracedStep+" --budget 60KiB").code)
	for flags, want := range map[string]string{
		" --dim batch=2":       "a step that PyTorch traced at one size",
		" --module-map m.json": "--dim and --module-map have no effect on it",
		" --level 2":           "wanted 0, or 1 for every block",
		" --budget 3parsecs":   "--budget",
	} {
		got := run(tracedStep + flags)
		require.Equal(t, cli.ExitUsage, got.code, flags)
		require.Contains(t, got.errors, want)
	}
	data, err := os.ReadFile(tracedStep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("damaged.json", data[:len(data)/2], 0o600))
	got = run("damaged.json")
	require.Equal(t, cli.ExitInvalid, got.code)
	require.Contains(t, got.errors, "damaged.json: wanted a step as memopt.torch.trace writes it")
}

// TestPlanModules: plans of modules, their files, their Python, and what is refused.
func TestPlanModules(t *testing.T) {
	exitFolder(t)
	writeModules(t)
	const line = "plan modules.onnx --select modules --dim batch=4096 "
	run := func(flags string) ended { return inProcess(t.Context(), nil, flags) }

	got := run(line + "--budget 90% --save-plan plan.json")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "Fits: ")
	require.Contains(t, got.out, "Under torch.utils.checkpoint: h.")
	require.Contains(t, got.out, "every block")
	text, err := os.ReadFile("plan.json")
	require.NoError(t, err)
	var plan struct {
		Modules    []string
		Parameters map[string][]int64
		Inputs     []struct{ Name string }
		Peak       int64 `json:"peak_bytes"`
	}
	require.NoError(t, json.Unmarshal(text, &plan))
	require.NotEmpty(t, plan.Modules)
	require.Equal(t, []int64{32, 64}, plan.Parameters["w2"])
	require.Equal(t, "x", plan.Inputs[0].Name)
	require.Equal(t, got.out, run(line+"--budget 90%").out, "twice the same")

	got = run(line + "--level 1 -O torch")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "    \"h.0\",\n    \"h.1\",\n):")
	require.Contains(t, got.out, "preserve_rng_state=False")
	require.Contains(t, run(line+"-O torch").out, "leave the model as it is")
	require.Contains(t, run(line).out, "No recomputation")
	require.Contains(t, run(line+"-O csv").out, "every block,")
	require.Contains(t, run(line+"-O markdown").out, "| every block |")

	require.NoError(t, os.WriteFile("map.json", []byte(`{"first": ["h.0*"], "first.up": ["h.0upGemm"]}`), 0o600))
	got = run("plan unnamed.onnx --select modules --dim batch=64 --module-map map.json")
	require.Zero(t, got.code, got.errors)

	for _, c := range []struct {
		line  string
		code  int
		wants string
	}{
		{line + "--budget 1KiB", cli.ExitInfeasible, "no choice of modules fits: the lowest peak in PyTorch is"},
		{line + "--budget 1KiB -O torch", cli.ExitInfeasible, "no choice of modules fits"},
		{line + "--level 2", cli.ExitUsage, "wanted 0, or 1 for every block"},
		{line + "--level 1 --budget 50%", cli.ExitUsage, "cannot be combined"},
		{line + "--pareto 3", cli.ExitUsage, "--pareto cannot be combined with --select modules"},
		{line + "--save-config c.json", cli.ExitUsage, "--save-config cannot be combined"},
		{line + "--budget x", cli.ExitUsage, "--budget \"x\""},
		{line + "--device none", cli.ExitUsage, "--device"},
		{line + "-O yaml", cli.ExitUsage, "wanted one of table, json, csv, markdown, torch"},
		{line + "--module-map none.json", cli.ExitUsage, "none.json"},
		{"plan modules.onnx --module-map map.json", cli.ExitUsage, "--module-map is for --select modules"},
		{"plan modules.onnx --select modules", cli.ExitUsage, "batch"},
		{"plan unnamed.onnx --select modules --dim batch=64", cli.ExitInvalid, "no node has the name of a module"},
		{"plan example:transformer --select modules", cli.ExitInvalid, "has a backward half"},
		{"verify modules.onnx --select modules --budget 50% --dim batch=64", cli.ExitUsage,
			"--select modules is for plan"},
		{"plan modules.onnx -O torch --dim batch=64", cli.ExitUsage, "wanted one of table, json, csv, markdown"},
	} {
		got := run(c.line)
		require.Equal(t, c.code, got.code, "%s: %s", c.line, got.errors)
		require.Contains(t, got.errors, c.wants, c.line)
	}
	_, err = os.Stat("c.json")
	require.ErrorIs(t, err, os.ErrNotExist)
}
