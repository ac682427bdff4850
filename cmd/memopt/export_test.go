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
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/schematest"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// state is a state of a job, of float32.
type state struct {
	name  string
	shape []int
	elems []float32
}

// entries describes states.
func entries(list []state) (out []safetensors.Entry) {
	for _, s := range list {
		out = append(out, safetensors.Entry{Name: s.name, DType: graph.Float32, Shape: s.shape})
	}
	return out
}

// trained makes a job's folder with a checkpoint of a model, and returns it.
func trained(t *testing.T, model string, weights, others []state) string {
	t.Helper()
	m, done, err := checkpoint.OpenModel(model)
	require.NoError(t, err)
	defer done()
	all := map[string][]float32{}
	for _, s := range append(append([]state{}, weights...), others...) {
		all[s.name] = s.elems
	}
	d, err := checkpoint.DescribeModel(m, func(name string) bool { return all[name] != nil })
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "job")
	j, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer j.Close()
	_, err = j.Save(&checkpoint.Manifest{Step: 7, Accumulation: 1, Model: d}, entries(weights), entries(others),
		func(name string, dst []byte) error {
			require.Len(t, dst, copy(dst, executor.Memory(all[name])))
			return nil
		})
	require.NoError(t, err)
	return dir
}

// opened reads a model, until the end of the test.
func opened(t *testing.T, path string) *graph.Model {
	t.Helper()
	m, o, err := onnx.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { o.Close() })
	return m
}

// initializer returns a value's contents as a model has them.
func initializer(t *testing.T, m *graph.Model, name string) []float64 {
	t.Helper()
	v, ok := m.Graph.Lookup(name)
	require.True(t, ok, name)
	require.NotNil(t, m.Graph.Values[v].Data, name)
	list, err := m.Graph.Values[v].Data.Float64s()
	require.NoError(t, err)
	return list
}

// writeText writes a model in text form.
func writeText(t *testing.T, path, text string) {
	t.Helper()
	m, err := graph.Parse(text, path)
	require.NoError(t, err)
	require.NoError(t, onnx.WriteFile(path, m, onnx.Options{}))
}

const normText = `<ir_version: 8, opset_import: ["" : 17]>
norm (float[2, 2] x) => (float[2, 2] y)
<float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] mean = {0, 0}, float[2] var = {1, 1}, float[2] frozen = {5, 6}>
{ n = BatchNormalization (x, s, b, mean, var)  y = Add (n, frozen) }`

// TestExport: the exported model is the original but for the contents of what was trained, running
// statistics included, and computes what these come to.
func TestExport(t *testing.T) {
	folder := schematest.Folder(t)
	exitFolder(t)
	writeText(t, "norm.onnx", normText)
	two := []int{2}
	job := trained(t, "norm.onnx", []state{{"s", two, []float32{2, 3}}, {"b", two, []float32{10, 20}}},
		[]state{{"mean", two, []float32{1, 2}}, {"var", two, []float32{4, 9}}, {"s_moment", two, []float32{7, 7}}})
	got := inProcess(t.Context(), nil, "export "+job+" -o out.onnx --moments moments.safetensors -O json")
	require.Zero(t, got.code, got.errors)
	schematest.Load(t, folder, "export").Check(t, []byte(got.out))
	moments, err := safetensors.Open("moments.safetensors")
	require.NoError(t, err)
	moment, ok := moments.Tensor("s_moment")
	require.True(t, ok)
	require.Equal(t, []float32{7, 7}, executor.Of[float32](moment))
	require.NoError(t, moments.Close())
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &report))
	require.Equal(t, []any{7.0, 4.0, 0.0, 1.0, 32.0}, []any{report["step"], report["weights"], report["added"],
		report["kept"], report["bytes"]})
	after := opened(t, "out.onnx")
	for name, want := range map[string][]float64{"s": {2, 3}, "b": {10, 20}, "mean": {1, 2}, "var": {4, 9},
		"frozen": {5, 6}} {
		require.Equal(t, want, initializer(t, after, name), name)
	}
	before := opened(t, "norm.onnx")
	for _, name := range []string{"s", "b", "mean", "var"} {
		v, _ := before.Graph.Lookup(name)
		w, _ := after.Graph.Lookup(name)
		before.Graph.Values[v].Data = after.Graph.Values[w].Data
	}
	require.NoError(t, graphtest.Equal(before, after))
	require.Zero(t, inProcess(t.Context(), nil, "run out.onnx --init random:1 --save-outputs y.npz -q").code)
	writeText(t, "want.onnx", strings.NewReplacer("s = {1, 1}", "s = {2, 3}", "b = {0, 0}", "b = {10, 20}",
		"mean = {0, 0}", "mean = {1, 2}", "var = {1, 1}", "var = {4, 9}").Replace(normText))
	same := inProcess(t.Context(), nil, "verify out.onnx want.onnx --init random:1 -q")
	require.Zero(t, same.code, same.errors)
	differs := inProcess(t.Context(), nil, "verify norm.onnx want.onnx --init random:1 -q")
	require.Equal(t, cli.ExitDiffers, differs.code)
}

// TestExportInputs: parameters that are inputs become initializers, and only those.
func TestExportInputs(t *testing.T) {
	exitFolder(t)
	ones := bytes.Repeat(executor.Memory([]float32{1}), 16*8)
	job := trained(t, "forward.onnx", []state{{"fc1.weight", []int{16, 8}, executor.Cast[float32](ones)},
		{"fc1.bias", []int{16}, executor.Cast[float32](ones[:64])},
		{"fc2.weight", []int{4, 16}, executor.Cast[float32](ones[:256])}}, nil)
	got := inProcess(t.Context(), nil, "export "+job+"/checkpoints/step-7 -o out.onnx --external-data 256")
	require.Zero(t, got.code, got.errors)
	require.Regexp(t, `of these, inputs of the model +3\n`, got.out)
	m := opened(t, "out.onnx")
	require.Len(t, m.Graph.Inputs, 2)
	require.Equal(t, 1.0, initializer(t, m, "fc1.weight")[127])
	data, err := os.ReadFile("out.onnx.data")
	require.NoError(t, err)
	require.Len(t, data, 512+256, "the two that have 256 bytes or more")
	require.Zero(t, inProcess(t.Context(), nil, "run out.onnx --dim batch=3 --init random:1 -q").code)
}

// TestExportExternal: weights of external data go into external data again, of their own: that of
// the original stays as it was.
func TestExportExternal(t *testing.T) {
	exitFolder(t)
	m := opened(t, "weights.onnx")
	m.Path = ""
	require.NoError(t, onnx.WriteFile("large.onnx", m, onnx.Options{ExternalDataThreshold: 1}))
	was, err := os.ReadFile("large.onnx.data")
	require.NoError(t, err)
	job := trained(t, "large.onnx", []state{{"w", []int{4}, []float32{5, 6, 7, 8}}}, nil)
	require.Zero(t, inProcess(t.Context(), nil, "export "+job+" -o out.onnx -q").code)
	require.FileExists(t, "out.onnx.data")
	require.Equal(t, []float64{5, 6, 7, 8}, initializer(t, opened(t, "out.onnx"), "w"))
	require.Equal(t, []float64{1, 2, 3, 4}, initializer(t, opened(t, "large.onnx"), "w"))
	now, err := os.ReadFile("large.onnx.data")
	require.NoError(t, err)
	require.Equal(t, was, now)
	same := inProcess(t.Context(), nil, "export "+job+" -o large.onnx")
	require.Equal(t, cli.ExitUsage, same.code)
	require.Contains(t, same.errors, "overwrite")
}

// TestExportFaults: what cannot be exported is refused, with the reason and what helps.
func TestExportFaults(t *testing.T) {
	exitFolder(t)
	four := []int{4}
	weights := []state{{"w", four, []float32{5, 6, 7, 8}}}
	job := trained(t, "weights.onnx", weights, nil)
	yield := trained(t, "example:transformer", weights, nil)
	piped := trained(t, "weights.onnx", weights, nil)
	path := filepath.Join(piped, "checkpoints", "step-7", "checkpoint.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte(`"step": 7`), []byte(`"step": 8`)), 0o666))
	for _, c := range []struct{ line, want string }{
		{"export " + job, "-o OUT is missing"},
		{"export -o out.onnx", "takes one argument, a job's folder or a checkpoint's; got 0"},
		{"export nowhere -o out.onnx", "nowhere: "},
		{"export folder -o out.onnx", "folder: no checkpoint is there"},
		{"export weights.onnx -o out.onnx", "weights.onnx: no checkpoint is there: it is a file"},
		{"export " + piped + " -o out.onnx", "it has been edited"},
		{"export " + job + " -o out.onnx --model forward.onnx",
			`forward.onnx has no input or initializer for 1 of the checkpoint's 1 weights: w; wanted the forward ` +
				`model that was trained, weights.onnx`},
		{"export " + job + " -o out.onnx --model unused.onnx",
			`unused.onnx: "w" has type float[8] in the model; the checkpoint has float[4]`},
		{"export " + job + " -o out.onnx --model gone.onnx", "gone.onnx"},
		{"export " + job + " -o out.onnx --model text.onnx", "text.onnx"},
		{"export " + yield + " -o out.onnx", `example:transformer is a training graph: node "YieldOp"`},
		{"export " + job + " -o out.onnx --model example:mlp", "example:mlp is a training graph"},
		{"export " + job + " -o weights.onnx", "overwrite"},
		{"export " + job + " -o " + job + "/checkpoints/step-7/weights.safetensors", "weights.safetensors"},
	} {
		got := inProcess(t.Context(), nil, c.line)
		require.Contains(t, []int{cli.ExitUsage, cli.ExitInvalid}, got.code, c.line)
		require.Contains(t, got.errors, c.want, c.line)
		require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
		require.NoFileExists(t, "out.onnx")
	}
	require.Zero(t, inProcess(t.Context(), nil, "export "+job+" -o - -q").code)
	data, err := os.ReadFile("weights.onnx")
	require.NoError(t, err)
	require.NoError(t, os.Rename("weights.onnx", "moved.onnx"))
	got := inProcess(t.Context(), nil, "export "+job+" -o out.onnx")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Zero(t, inProcess(t.Context(), nil, "export "+job+" -o out.onnx --model moved.onnx -q").code)
	require.NoError(t, os.Remove("out.onnx"))
	at := bytes.LastIndex(data, []byte("Tanh"))
	copy(data[at:], "Sqrt")
	require.NoError(t, os.WriteFile("weights.onnx", data, 0o666))
	got = inProcess(t.Context(), nil, "export "+job+" -o out.onnx")
	require.Contains(t, got.errors, "weights.onnx is not the model that the checkpoint is of, or has changed since")
	require.Zero(t, inProcess(t.Context(), nil, "export "+job+" -o out.onnx --model weights.onnx -q").code,
		"a model that is named needs the weights alone")
}
