package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestEmit: plans for other mechanisms, as text and as JSON; -O torch is one of them.
func TestEmit(t *testing.T) {
	exitFolder(t)
	writeModules(t)
	run := func(line string) ended { return inProcess(t.Context(), nil, "plan "+line) }
	for _, model := range []string{tracedStep, "modules.onnx --dim batch=64"} {
		got := run(model + " --emit torch --budget 90%")
		require.Zero(t, got.code, got.errors)
		require.Equal(t, run(model+" --select modules -O torch --budget 90%").out, got.out)
		require.Contains(t, got.out, "torch.utils.checkpoint")
	}
	got := run(tracedStep + " --emit torch-policy --budget 80%")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "by torch.utils.checkpoint with a policy, instead of 887.48 KiB;")
	require.Contains(t, got.out, "# memopt's own plan for the budget, of whole modules: ")
	require.Contains(t, got.out, `"aten.addmm.default": {`)
	text := got.out
	got = run(tracedStep + " --emit torch-policy --budget 80% -O json")
	require.Zero(t, got.code, got.errors)
	var answer struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(got.out), &answer))
	require.Equal(t, text, answer.Text)

	got = run(tracedStep + " --emit megatron --budget 60%")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "by Megatron-LM's activation recomputation, instead of 887.48 KiB;")
	const untried = "# Not tried, since not every layer has such a part that could run again: " +
		"core_attn, layernorm, mlp.\n"
	const full = "RECOMPUTE_ARGS=(\n    --recompute-granularity full\n    --recompute-method "
	require.Contains(t, got.out, untried+full)
	got = run(tracedStep + " --emit megatron --budget 60% --host-budget 1GiB")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, untried+"# Not moved, since less than two layers have such a part: attn_norm, "+
		"qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act.\n"+full)

	got = run(tracedStep + " --emit torch-remat --budget 70%")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "by torch_remat, instead of 887.48 KiB;")
	require.Contains(t, got.out, "module.forward = remat.checkpoint(region_name=block, ")

	// Out of reach: the lowest peak is told, in the JSON too, and no text is printed.
	got = run(tracedStep + " --emit torch-policy --budget 20%")
	require.Equal(t, cli.ExitInfeasible, got.code)
	require.Empty(t, got.out)
	require.Contains(t, got.errors, "no setting of torch.utils.checkpoint with a policy (operators of modules, each "+
		"call) fits: the lowest peak that was found is ")
	got = run(tracedStep + " --emit torch-policy --budget 20% -O json")
	require.Equal(t, cli.ExitInfeasible, got.code)
	require.Contains(t, got.out, `"fits": false`)
	require.Equal(t, cli.ExitInfeasible, run(tracedStep+" --emit torch --budget 20%").code)

	// A search that is stopped at once has an answer.
	got = run(tracedStep + " --emit torch-policy --budget 90% --time-limit 0")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "def apply(model):")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got = inProcess(ctx, nil, "plan "+tracedStep+" --emit torch-policy --budget 90%")
	require.Equal(t, cli.ExitInterrupted, got.code, got.errors)
}

// writeNames writes a step of JAX, names.json.
func writeNames(t *testing.T) {
	t.Helper()
	z, err := zip.OpenReader(namedSteps)
	require.NoError(t, err)
	defer z.Close()
	f, err := z.Open("mlp_scan/names.json")
	require.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("names.json", data, 0o644))
}

// TestEmitJAX: plans of named values, from a file and from standard input.
func TestEmitJAX(t *testing.T) {
	exitFolder(t)
	writeNames(t)
	run := func(line string) ended { return inProcess(t.Context(), nil, "plan names.json --emit jax "+line) }
	got := run("--budget 17MiB")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "# names.json: peak 15.26 MiB by jax.checkpoint, instead of ")
	_, policy, _ := strings.Cut(got.out, "\n")
	require.Equal(t, "import jax\n\npolicy = jax.checkpoint_policies.nothing_saveable\n", policy)
	got = run("--budget 20MiB")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, `save_only_these_names("pre")`)
	data, err := os.ReadFile("names.json")
	require.NoError(t, err)
	piped := inProcess(t.Context(), bytes.NewReader(data), "plan - --emit jax --budget 20MiB")
	require.Equal(t, strings.Replace(got.out, "names.json", "-", 1), piped.out)
	got = run("--budget 17MiB --host-budget 1GiB --link 1TB/s")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "names_which_can_be_offloaded=[\"pre\"]")
	got = run("--budget 17MiB --host-budget 1GiB --link 1MB/s")
	require.NotContains(t, got.out, "offloaded", "waiting for copies costs more than a product")
	got = run("--budget 5MiB")
	require.Equal(t, cli.ExitInfeasible, got.code)
	require.Empty(t, got.out)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got = inProcess(ctx, nil, "plan names.json --emit jax --budget 17MiB")
	require.Contains(t, got.out, "nothing_saveable", "found before the search was interrupted")
	for line, want := range map[string]string{
		"plan names.json --emit maxtext --budget 50%": "no value has a name of MaxText's (context, " +
			"decoder_layer_input, key_proj, ",
		"plan example:mlp --emit jax --budget 50%":              "is no step of JAX with its names: wanted the text",
		"plan " + tracedStep + " --emit jax --budget 50%":       "is no step of JAX",
		"plan names.json --emit jax":                            "--emit jax: --budget is missing",
		"plan names.json --emit jax --budget 0":                 "is zero",
		"plan names.json --emit jax --budget 50% --device x.y":  "--device",
		"plan names.json --emit jax --budget 50% --link 1":      "--link",
		"plan names.json --emit torch-policy --budget 50%":      "this is not an ONNX model",
		"plan names.json --emit jax --budget 50% --save-plan p": "--save-plan cannot be combined with --emit",
	} {
		got := inProcess(t.Context(), nil, line)
		require.NotZero(t, got.code, line)
		require.Contains(t, strings.ReplaceAll(got.errors, "\n", " "), want, line)
		require.Empty(t, got.out, line)
	}
	require.NoError(t, os.WriteFile("names.json", data[:len(data)/2], 0o644))
	require.Equal(t, cli.ExitInvalid, run("--budget 50%").code)
}

// TestEmitErrors: errors name the missing part, and how to give it.
func TestEmitErrors(t *testing.T) {
	exitFolder(t)
	writeModules(t)
	data, err := os.ReadFile(tracedStep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("loose.json", bytes.ReplaceAll(data, []byte(`"h.`), []byte(`"h`)), 0o644))
	require.NoError(t, os.WriteFile("bad.json", []byte(`{"format": "memopt-step", "version": 9}`), 0o644))
	for line, want := range map[string]struct {
		code int
		text string
	}{
		tracedStep + " --emit torche --budget 80%": {cli.ExitUsage,
			`--emit "torche" is no target: wanted one of torch, torch-policy, torch-remat, torchtitan, ` +
				`megatron, jax, maxtext`},
		tracedStep + " --emit torchtitan --budget 80%": {cli.ExitInvalid, "no module of the name layers.0 or the like"},
		tracedStep + " --emit torch-policy --budget 80% --host-budget 1GiB": {cli.ExitUsage,
			"--emit torch-policy has no words for values that move to the host: leave --host-budget and --link out"},
		tracedStep + " --emit megatron --budget 80% --link 1GB/day": {cli.ExitUsage, "--link"},
		tracedStep + " --emit megatron --budget 80% --device tpu9":  {cli.ExitUsage, "--device"},
		"modules.onnx --dim batch=64 --emit megatron --budget 80%": {cli.ExitInvalid,
			"trace the step with memopt.torch.trace(model, batch).to_json()"},
		"loose.json --emit megatron --budget 80%": {cli.ExitInvalid, "loose.json: the step has no two modules that " +
			"are called once each and have the names layers.0, layers.1 or the like"},
		tracedStep + " --emit torch-remat --budget 20%": {cli.ExitInfeasible, "no setting of torch_remat (modules of " +
			"blocks) fits: the lowest peak that was found is "},
		tracedStep + " --emit megatron --budget 20%": {cli.ExitInfeasible, "no setting of Megatron-LM's activation " +
			"recomputation (one list of modules for all layers) fits: the lowest peak that was found is "},
		tracedStep + " --emit torch-policy": {cli.ExitUsage,
			"--budget is missing: give a size, for example 12GiB"},
		tracedStep + " --emit torch-policy --budget 80% -O csv": {cli.ExitUsage,
			`output "csv": with --emit wanted table, for the framework's text, or json`},
		tracedStep + " --emit torch-policy --budget 80% -O torch": {cli.ExitUsage,
			`output "torch": with --emit wanted table`},
		tracedStep + " --emit torch-policy --budget 80% --save-plan p.json": {cli.ExitUsage,
			"--save-plan cannot be combined with --emit"},
		tracedStep + " --emit torch-policy --budget 80% --pareto 3": {cli.ExitUsage,
			"--pareto cannot be combined with --emit"},
		"modules.onnx --dim batch=64 --emit torch-policy --budget 80%": {cli.ExitInvalid,
			"an ONNX file does not name PyTorch's operators, which a policy of --emit torch-policy decides by: trace " +
				"the step with memopt.torch.trace(model, batch).to_json()"},
		"unnamed.onnx --dim batch=64 --emit torch --budget 80%": {cli.ExitInvalid, "no node has the name of a module"},
		"bad.json --emit torch-policy --budget 80%": {cli.ExitInvalid,
			`of format "memopt-step", version 9`},
	} {
		got := inProcess(t.Context(), nil, "plan "+line)
		require.Equal(t, want.code, got.code, line+": "+got.errors)
		require.Contains(t, strings.ReplaceAll(got.errors, "\n", " "), want.text, line)
		require.Empty(t, got.out, line)
	}
}
