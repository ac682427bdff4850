package memopt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/fileio"
)

const sized = `<ir_version: 8, opset_import: ["" : 17]>
step (float[rows, 4] x, float[other, width] z) => (float[rows, 4] y, float w) {
  s = Mul(x, x)
  y = Neg(s)
  w = ReduceSum<keepdims = 0>(z)
}`

// sizedModel writes the model, changed by edit, to a folder of its own and opens it.
func sizedModel(t *testing.T, edit func(m *graph.Model)) *memopt.Model {
	t.Helper()
	return sizedText(t, sized, edit)
}

func sizedText(t *testing.T, text string, edit func(m *graph.Model)) *memopt.Model {
	t.Helper()
	m, err := graph.Parse(text, "sized")
	require.NoError(t, err)
	edit(m)
	path := filepath.Join(t.TempDir(), "model.onnx")
	data, err := onnx.Encode(m)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	opened, err := memopt.Open(path, memopt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { opened.Close() })
	return opened
}

// TestExampleSizes: each place that has sizes of a symbol gives an example, the surest first.
func TestExampleSizes(t *testing.T) {
	all := []string{"rows", "other", "width"}
	small := map[string]memopt.Size{"rows": {Value: 2}, "other": {Value: 8}, "width": {Value: 8}}
	plain := sizedModel(t, func(*graph.Model) {})
	require.Equal(t, small, plain.ExampleSizes(all))
	require.Equal(t, map[string]memopt.Size{"width": {Value: 8}}, plain.ExampleSizes(all[2:]))

	ranged := sizedModel(t, func(m *graph.Model) {
		m.Graph.Metadata = append(m.Graph.Metadata, graph.Property{
			Key:   "pkg.torch.export.ExportedProgram.range_constraints",
			Value: "{rows: VR[3, int_oo], other: VR[0, 5], width: VR[0, 99999999999999999999]}"})
	})
	require.Equal(t, map[string]memopt.Size{"rows": {Value: 3}, "other": {Value: 5}, "width": {Value: 8}},
		ranged.ExampleSizes(all))

	stated := sizedText(t, strings.Replace(sized, "w) {", "w) <float[7, 4] s> {", 1), func(*graph.Model) {})
	require.Equal(t, memopt.Size{Value: 7, From: "shapes in the file"}, stated.ExampleSizes(all)["rows"])

	listed := sizedModel(t, func(m *graph.Model) {
		m.SetMeta("memopt.torch", `{"version":1,"root":"model","modules":[],"sizes":{"rows":6,"other":0}}`)
	})
	require.Equal(t, memopt.Size{Value: 6, From: "the export"}, listed.ExampleSizes(all)["rows"])
	require.Equal(t, memopt.Size{Value: 8}, listed.ExampleSizes(all)["other"], "0 is no example")

	recorded := sizedModel(t, func(m *graph.Model) {
		m.SetMeta("memopt.recompute", `{"schema":"memopt.recompute/v1","dims":{"rows":5}}`)
		m.SetMeta("memopt.torch", `{"version":1,"root":"model","modules":[],"sizes":{"rows":6}}`)
	})
	require.Equal(t, memopt.Size{Value: 5, From: "the recorded plan"}, recorded.ExampleSizes(all)["rows"])
}

// TestExampleSizesOfTests: test data beside a model are an example where they suit it.
func TestExampleSizesOfTests(t *testing.T) {
	all := []string{"rows", "other", "width"}
	m := sizedModel(t, func(*graph.Model) {})
	dir := filepath.Join(filepath.Dir(m.Path), "test_data_set_0")
	require.NoError(t, os.Mkdir(dir, 0o700))
	write := func(dims ...int) {
		t.Helper()
		x := &executor.Tensor{DType: graph.Float32, Shape: []int{3, 4}, Data: make([]byte, 48)}
		z := &executor.Tensor{DType: graph.Float32, Shape: dims, Data: make([]byte, 4*dims[0]*dims[1])}
		require.NoError(t, dataset.WriteDir(dir, []dataset.Named{{Name: "x", Tensor: x}, {Name: "z", Tensor: z}},
			&fileio.Ledger{}))
	}
	write(2, 5)
	of := func(n int64) memopt.Size { return memopt.Size{Value: n, From: "test_data_set_0"} }
	require.Equal(t, map[string]memopt.Size{"rows": of(3), "other": of(2), "width": of(5)}, m.ExampleSizes(all))
	m.Dims["rows"] = 4 // of another size, which the others do not depend on
	require.Equal(t, of(5), m.ExampleSizes(all)["width"])
	delete(m.Dims, "rows")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "input_0.pb"), []byte("no tensor"), 0o600))
	require.Equal(t, memopt.Size{Value: 8}, m.ExampleSizes(all)["width"], "a file that is no tensor")
}
