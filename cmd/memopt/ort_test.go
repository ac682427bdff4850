package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// TestORTFile holds the file that ONNX Runtime is given to the one that apply writes.
func TestORTFile(t *testing.T) {
	for _, args := range [][]string{
		{"example:mlp", "--level", "1", "--dim", "batch=4096"},
		{"example:mlp", "--budget", "100%", "--time-limit", "0", "--dim", "batch=4096"}, // anchors, although nothing runs again
		{"example:mlp", "--budget", "70%", "--budget-in", "ort", "--time-limit", "0", "--dim", "batch=4096"},
		{"example:transformer", "--level", "1", "--dim", "batch=2,seq=16"},
		{"example:transformer", "--budget", "90%", "--time-limit", "0", "--dim", "batch=8,seq=256"},
	} {
		out := filepath.Join(t.TempDir(), "out.onnx")
		require.Zero(t, run(append([]string{"apply", "-o", out, "-q"}, args...), stdio{nil, io.Discard, os.Stderr}, os.Environ()))
		a := &app{stdio: stdio{nil, io.Discard, os.Stderr}, ctx: t.Context()}
		var sel selectionFlags
		ex := execFlags{backend: ortName, differentiate: true}
		flags := pflag.NewFlagSet("verify", pflag.ContinueOnError)
		sel.register(flags)
		flags.StringArrayVar(&a.global.dims, "dim", nil, "")
		require.NoError(t, flags.Parse(args[1:]))
		a.global.quiet = true
		x, err := a.prepareExecution(args[0], &sel, &ex)
		require.NoError(t, err)
		require.True(t, x.changed, "%v", args)
		given := filepath.Join(t.TempDir(), "given.onnx")
		require.NoError(t, a.writeModel(given, x.planned.Model, onnx.Options{ExternalDataThreshold: ortExternal(x.planned.Model.Graph)}))
		want, err := os.ReadFile(out)
		require.NoError(t, err)
		got, err := os.ReadFile(given)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%v", args)
	}
}

// TestBlamed finds the node that a message of the runtime is about.
func TestBlamed(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { [act] a = Elu(x)  [sum] b = Add(a, a)  y = Selu(b) }`, "test")
	require.NoError(t, err)
	for message, want := range map[string]string{
		"Could not find an implementation for Elu(6) node with name 'act'":                         "act",
		"Could not find an implementation for Elu(6) node with name ''":                            "act",
		"Fatal error: com.microsoft:Elu(-1) is not a registered function/op":                       "act",
		"Non-zero status code returned while running Add node. Name:'sum' Status Message: shapes":  "sum",
		"Non-zero status code returned while running Selu node. Name:'' Status Message: something": m.Graph.NodeLabel(2),
		"Invalid input name: x": "",
		"Relu(6) SomeElu(7)":    "",
	} {
		require.Equal(t, want, blamed(m.Graph, message), message)
	}
	require.Empty(t, blamed(nil, "Elu(6)"))
}

// TestORTExternal moves weights out of a file that would be too large for ONNX, and out of no
// other.
func TestORTExternal(t *testing.T) {
	g := &graph.Graph{Values: []graph.Value{{Name: "x"}, {Name: "w", Data: &graph.TensorData{DType: graph.Float32, Dims: []int64{1 << 28}}}}}
	require.Zero(t, ortExternal(g))
	g.Values = append(g.Values, graph.Value{Name: "v", Data: &graph.TensorData{DType: graph.Float32, Dims: []int64{1 << 28}}})
	require.EqualValues(t, 1<<20, ortExternal(g))
	g.Values[1].Data.External = &graph.External{Location: "w.data"}
	require.Zero(t, ortExternal(g))
}
