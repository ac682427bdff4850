package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/option"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/schematest"
	"memopt/train/checkpoint"
	"memopt/train/events"
)

// compiledStep is a program of XLA; @ stands for a shape.
const compiledStep = `HloModule step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  w = @ parameter(0)
  a = @ dot(w, w), metadata={op_name="jit(step)/jvp()/dot" source_file="step.py" source_line=2}
  b = @ sort(a), metadata={op_name="jit(step)/jvp()/sort" source_file="step.py" source_line=3}
  c = @ dot(a, b), metadata={op_name="jit(step)/transpose(jvp())/dot" source_file="step.py" source_line=2}
  d = @ subtract(w, c)
  ROOT r = (@) tuple(d)
}
`

// TestSchemas holds what the verbs print to the schemas in docs/schemas, of which each describes
// every property.
func TestSchemas(t *testing.T) {
	folder := schematest.Folder(t)
	snapshots, err := filepath.Abs("../../sim/snapshot/testdata")
	require.NoError(t, err)
	exitFolder(t)
	writeGrid(t, sweepGrid)
	writeModules(t)
	writeNames(t)
	for name, width := range map[string]string{"step.hlo": "32", "wider.hlo": "64"} {
		text := strings.ReplaceAll(compiledStep, "@", "f32["+width+",32]")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
	require.Zero(t, inProcess(t.Context(), nil,
		"run forward.onnx --dim batch=4 --init random:1 --save-outputs outputs.npz -q").code)
	checked := map[string]bool{}
	for _, c := range []struct{ verb, line string }{
		{"plan", "plan example:transformer"},
		{"plan", "plan example:cnn --dim batch=4 --level 1"},
		{"plan", "plan example:mlp --dim batch=4096 --budget 60% --time-limit 0"},
		{"plan", "plan forward.onnx"},
		{"unfit", "plan example:cnn --dim batch=4 --budget 4MiB --time-limit 1"},
		{"unfit", "plan example:cnn --dim batch=1 --budget 1%"},
		{"unfit", "plan example:cnn --dim batch=2 --budget 1KiB"},
		{"plan", "plan example:transformer --dim batch=1..4,seq=64..128 --level 1"},
		{"plan", "plan example:mlp --dim batch=64..4096 --budget 700MiB --time-limit 0"},
		{"pareto", "plan example:mlp --dim batch=4096 --pareto 3"},
		{"bands", "plan example:mlp --dim batch=256..4096 --plans 3 --quantile 0.9 --budget 500MiB --time-limit 0"},
		{"bands", "plan example:mlp --dim batch=256..512 --plans 2 --budget 500MiB --time-limit 0 --save-plan plans"},
		{"modules", "plan modules.onnx --select modules --dim batch=64 --budget 90%"},
		{"modules", "plan modules.onnx --select modules --dim batch=64"},
		{"emit", "plan modules.onnx --emit torch --dim batch=64"},
		{"emit", "plan " + tracedStep + " --emit torch-policy --budget 80%"},
		{"emit", "plan " + tracedStep + " --emit torch-policy --budget 20%"},
		{"emit", "plan names.json --emit jax --budget 20MiB"},
		{"emit", "plan names.json --emit jax --budget 2MiB"},
		{"emit", "plan names.json --emit jax --budget 17MiB --host-budget 1GiB --link 1TB/s"},
		{"estimate", "estimate example:transformer"},
		{"explain", "explain example:transformer --level 1"},
		{"explain", "explain example:transformer /transformer/h.0 --top 2"},
		{"explain", "explain example:transformer-small --dim batch=4,seq=64 --budget 60% --link 1TB/s " +
			"--host-budget 1GiB --effort 0.01 --top 3"},
		{"fit", "fit example:mlp --gpu 2GiB --vary batch --effort 0"},
		{"fit", "fit example:transformer --gpu 1GiB --vary batch --effort 0"},
		{"fit", "fit example:transformer --gpu 3GiB --vary batch,seq --dim batch=1..2 --effort 0"},
		{"fit", "fit example:mlp --vary device --effort 0"},
		{"fit", "fit example:transformer-small --gpu 24MiB --reserve 0 --vary batch --dim batch=1..6,seq=64 " +
			"--link 200GB/s --host-budget 1GiB --effort 0"},
		{"estimate", "estimate example:mlp --dim batch=4096 --gpu 1GiB --time-limit 0 --precision bf16"},
		{"estimate", "estimate forward.onnx --dim batch=4 --gpu 1MiB --device cpu --reserve 0 --accumulate 2 --check"},
		{"diff", "diff example:cnn example:mlp --dim batch=4096 --level 1 --fail-if peak>1KiB"},
		{"estimate",
			"estimate example:transformer --tp 2 --pp 2 --dp 2 --zero 3 --sequence-parallel --gpu 1GiB --time-limit 0"},
		{"snapshot", "explain " + filepath.Join(snapshots, "fragments.pickle")},
		{"snapshot", "explain " + filepath.Join(snapshots, "ragged.pickle")},
		{"estimate", "estimate example:mlp --dim batch=4096 --gpu 1GiB --time-limit 0 --allocator torch"},
		{"estimate", "estimate example:mlp --dim batch=64 --gpu 1GiB --reserve 0 --allocator bfc"},
		{"estimate", "estimate forward.onnx --dim batch=4 --pp 2 --microbatches 4"},
		{"estimate", "estimate forward.onnx --dim batch=4 --gpu 1MiB --host-dir home --host-budget 1GiB --link 1GB/s"},
		{"fit", "fit forward.onnx --vary batch --gpu 1MiB --effort 0 --host-dir home --host-budget 1GiB"},
		{"plan", "plan forward.onnx --dim batch=4 --precision bf16"},
		{"explain", "explain forward.onnx --dim batch=4 --precision fp16"},
		{"apply", "apply example:mlp --dim batch=4096 --level 1 -o out.onnx"},
		{"apply", "apply forward.onnx --level 1 --anchor off -o bare.onnx"},
		{"grad", "grad forward.onnx -o train.onnx"},
		{"train", "train example:transformer --data example:text --batch 2 --dim seq=16 --max-steps 2"},
		{"train", "train example:transformer --data example:text --batch 2 --dim seq=16 --max-steps 2 " +
			"--host-dir home --host-budget 1GiB"},
		{"train", "train example:transformer --data example:text --blocks documents --batch 2 --dim seq=12..16 " +
			"--max-steps 2"},
		{"run", "run forward.onnx --dim batch=4 --init random:1"},
		{"run", "run forward.onnx --dim batch=4 --init random:1 --data-dir outputs.npz"},
		{"run", "run example:cnn --dim batch=2 --init random:1 --phases --mem-pattern off"},
		{"run", "run example:transformer -e null"},
		{"run", "run away.onnx --init random:1 --link 1GB/s"},
		{"verify", "verify forward.onnx --dim batch=4 --level 1 --init random:1 -r 2"},
		{"verify", "verify forward.onnx other.onnx --dim batch=4 --init random:1"},
		{"pack", "pack buffers.csv -o offsets.csv --capacity 16"},
		{"solve", "solve chain.json -o schedule.json"},
		{"solve-v2", "solve joint.json -o joint.schedule.json"},
		{"moves", "plan example:transformer-small --dim batch=4,seq=64 --budget 60% --link 1TB/s --host-budget 1GiB " +
			"--effort 0.01"},
		{"check", "check schedule.json chain.json"},
		{"check", "check joint.schedule.json joint.json"},
		{"check", "check schedule.json joint.json"},
		{"infeasible", "solve chain.json -o none.json --budget 1"},
		{"infeasible", "solve joint.json -o none.json --budget 1"},
		{"optimize", "optimize forward.onnx -o smaller.onnx --dim batch=4"},
		{"optimize", "optimize classifier.onnx -o smaller.onnx --dim batch=4 --opset 20"},
		{"optimize", "optimize strange.onnx -o smaller.onnx --check off"},
		{"quantize", "quantize classifier.onnx -o int8.onnx --dim batch=4"},
		{"quantize", "quantize classifier.onnx -o int8.onnx --weight-type int8 --exclude table"},
		{"inspect", "inspect example:transformer"},
		{"inspect", "inspect broken.onnx"},
		{"inspect", "inspect strange.onnx --by category"},
		{"inspect", "inspect step.hlo"},
		{"plan", "plan step.hlo --level 1"},
		{"explain", "explain step.hlo"},
		{"diff", "diff step.hlo wider.hlo"},
		{"ops", "ops"},
		{"examples", "examples"},
		{"devices", "devices h100 t4"},
		{"doctor", "doctor"},
		{"sweep", "sweep grid.json -o swept"},
		{"config", "config show"},
		{"config", "config show plan --level 1"},
		{"version", "version"},
	} {
		got := inProcess(t.Context(), nil, c.line+" -O json -q")
		schema := schematest.Load(t, folder, c.verb)
		schema.Check(t, []byte(got.out))
		checked[c.verb] = true
	}
	schematest.Load(t, folder, "trial").Check(t,
		[]byte(inProcess(t.Context(), nil, "doctor --try A=1 NOTHING= -O json -r 2 -- true").out))
	checked["trial"] = true
	if d := option.Backends["double"]; d != nil {
		schematest.Load(t, folder, "run").Check(t,
			[]byte(inProcess(t.Context(), nil,
				"run pads.onnx --level 0 --init random:1 -e double --cuda-graph -O json -q").out))
	}
	require.Zero(t, inProcess(t.Context(), nil,
		"plan example:mlp --dim batch=4096 --budget 60% --time-limit 0 --save-plan plan.json").code)
	data, err := os.ReadFile("plan.json")
	require.NoError(t, err)
	schematest.Load(t, folder, "recompute").Check(t, data)
	checkOfPlan := inProcess(t.Context(), nil, "check plan.json example:mlp -O json")
	require.Zero(t, checkOfPlan.code, checkOfPlan.errors)
	schematest.Load(t, folder, "check").Check(t, []byte(checkOfPlan.out))
	checked["recompute"] = true
	require.Zero(t, inProcess(t.Context(), nil, "plan example:transformer-small --dim batch=16,seq=128 --budget 30% "+
		"--link 40GB/s,5us --host-budget 1GiB --effort 0.02 --save-plan moved.json").code)
	data, err = os.ReadFile("moved.json")
	require.NoError(t, err)
	require.Contains(t, string(data), "certificate")
	schematest.Load(t, folder, "recompute-v2").Check(t, data)
	checked["recompute-v2"] = true
	require.Zero(t, inProcess(t.Context(), nil,
		"plan modules.onnx --select modules --dim batch=64 --level 1 --save-plan modules.json").code)
	modules, err := os.ReadFile("modules.json")
	require.NoError(t, err)
	schematest.Load(t, folder, "module-plan").Check(t, modules)
	checked["module-plan"] = true
	step, err := os.ReadFile(tracedStep)
	require.NoError(t, err)
	schematest.Load(t, folder, "step").Check(t, step)
	checked["step"] = true
	names, err := os.ReadFile("names.json")
	require.NoError(t, err)
	schematest.Load(t, folder, "names").Check(t, names)
	checked["names"] = true
	operators, err := os.ReadFile(operatorPlan80)
	require.NoError(t, err)
	schematest.Load(t, folder, "operator-plan").Check(t, operators)
	checked["operator-plan"] = true
	schedule, err := os.ReadFile("schedule.json")
	require.NoError(t, err)
	schematest.Load(t, folder, "solve").Check(t, schedule)
	schedule, err = os.ReadFile("joint.schedule.json")
	require.NoError(t, err)
	schematest.Load(t, folder, "solve-v2").Check(t, schedule)
	require.Contains(t, string(schedule), `"tags":{"a":{"line":7}}`)

	schematest.Load(t, folder, "checkpoint").Check(t, manifest(t))
	text, err := os.ReadFile(filepath.Join("home", "checkpoint.json"))
	require.NoError(t, err)
	schematest.Load(t, folder, "checkpoint").Check(t, text)
	checked["checkpoint"] = true
	for name, value := range map[string]any{"metrics": &events.Metrics{Step: 1}, "draws": draws(t)} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		schematest.Load(t, folder, name).Check(t, text)
		checked[name] = true
	}
	lines, err := os.ReadFile(filepath.Join("swept", "results.jsonl"))
	require.NoError(t, err)
	for line := range bytes.Lines(lines) {
		schematest.Load(t, folder, "point").Check(t, line)
	}
	schematest.Load(t, folder, "grid").Check(t, []byte(sweepGrid))
	checked["point"], checked["grid"] = true, true
	checked["export"] = true // by TestExport
	checked["page"] = true   // by TestData of package webpage
	for _, name := range formats {
		checked[name] = true // by TestFormats
	}

	files, err := filepath.Glob(filepath.Join(folder, "*.schema.json"))
	require.NoError(t, err)
	for _, file := range files {
		verb := strings.TrimSuffix(filepath.Base(file), ".schema.json")
		require.True(t, checked[verb], "no command line is held to %s", file)
		schematest.Load(t, folder, verb).Described(t)
	}
	require.Len(t, files, len(checked))
}

// draws returns the metadata of a part of a random node.
func draws(t *testing.T) json.RawMessage {
	t.Helper()
	n := &graph.Node{Kind: op.RandomNormal}
	require.NoError(t, op.SetDrawRuns(n, "whole", 4, 2, 8))
	for _, p := range n.Rare().Metadata {
		if p.Key == op.DrawsKey {
			return json.RawMessage(p.Value)
		}
	}
	require.Fail(t, "no metadata "+op.DrawsKey)
	return nil
}

// manifest returns the manifest of a checkpoint.
func manifest(t *testing.T) []byte {
	t.Helper()
	j, err := checkpoint.OpenJob("job")
	require.NoError(t, err)
	defer j.Close()
	eval := 1.5
	path, err := j.Save(&checkpoint.Manifest{Accumulation: 1, Plan: []byte("{}"), Options: []byte("{}"),
		LossScale: &checkpoint.LossScale{Scale: 1, Good: 2}, Dims: map[string]int64{"batch": 4},
		Data: checkpoint.Data{Paths: []string{"a"}}, Metrics: &checkpoint.Metrics{Loss: 2, Eval: &eval}}, nil, nil, nil)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(path, "checkpoint.json"))
	require.NoError(t, err)
	return text
}
