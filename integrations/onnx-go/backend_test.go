package onnxgo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/require"
	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/topo"
	"gorgonia.org/tensor"

	"memopt/graph"
	mo "memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/integrations/onnx-go"
)

// encoded returns the bytes of a model in ONNX's textual syntax.
func encoded(t *testing.T, text string) []byte {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	op.Bind(m)
	path := filepath.Join(t.TempDir(), "model.onnx")
	require.NoError(t, mo.WriteFile(path, m, mo.Options{}))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// decode decodes a model into a backend.
func decode(t *testing.T, text string, o onnxgo.Options) (*onnxgo.Backend, *onnx.Model) {
	t.Helper()
	b := onnxgo.New(o)
	m := onnx.NewModel(b)
	require.NoError(t, m.UnmarshalBinary(encoded(t, text)))
	return b, m
}

const mixed = `<ir_version: 8, opset_import: ["" : 13]>
mixed (float[2, 3] x) => (float[2, 3] y, float[2, 1] z, int64[2, 1] at)
<float half = {0.5}, int64[1] one = {1}, float[3] row = {1, 2, 3}> {
  c = Constant<value = float[1, 3] {4, 5, 6}>()
  square = Mul(x, x)
  low = Clip(square, , half)
  s = Add(low, c)
  y = Mul(s, row)
  z, at = TopK<axis = -1, largest = 0>(y, one)
}`

// TestModel holds the model that comes through onnx-go to the file: operands read twice, left out, or of
// operators without any; constants of all forms; attributes; outputs in order.
func TestModel(t *testing.T) {
	b, decoded := decode(t, mixed, onnxgo.Options{Opset: 13})
	m, err := b.Model(decoded)
	require.NoError(t, err)
	g := m.Graph
	require.Equal(t, []string{"Constant", "Mul", "Clip", "Add", "Mul", "TopK"}, operators(g))
	require.Equal(t, g.Nodes[1].Inputs[0], g.Nodes[1].Inputs[1])
	require.Empty(t, g.Nodes[0].Inputs)
	require.Equal(t, graph.NoValue, g.Nodes[2].Inputs[1])
	require.EqualValues(t, -1, g.Nodes[5].Int("axis", 0))
	require.EqualValues(t, 0, g.Nodes[5].Int("largest", 1))
	for i, want := range []string{"float[2, 3]", "float[2, 1]", "int64[2, 1]"} {
		require.Equal(t, want, g.Values[g.Outputs[i].Value].Type.String())
	}
	_, err = topo.Sort(b)
	require.NoError(t, err)
	require.Equal(t, gonum.Empty, b.From(0)) // inputs have no operands
}

func operators(g *graph.Graph) []string {
	var list []string
	for _, n := range g.Nodes {
		list = append(list, n.Op)
	}
	return list
}

// TestRun computes a model that onnx-go has decoded.
func TestRun(t *testing.T) {
	b, decoded := decode(t, mixed, onnxgo.Options{})
	require.ErrorContains(t, b.Run(), "call Bind")
	b.Bind(decoded)
	x := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{1, 0.5, -2, 0, 0.1, -0.2}))
	require.NoError(t, decoded.SetInput(0, x))
	require.NoError(t, b.Run())
	out, err := decoded.GetOutputTensors()
	require.NoError(t, err)
	require.InDeltaSlice(t, []float32{4.5, 10.5, 19.5, 4, 10.02, 18.12}, out[0].Data(), 1e-5)
	require.Equal(t, tensor.Shape{2, 1}, out[1].Shape())
	require.Equal(t, []int64{0, 0}, out[2].Data())
}

// TestSymbols gives dims back that onnx-go leaves out.
func TestSymbols(t *testing.T) {
	text := `<ir_version: 8, opset_import: ["" : 13]> g (float[n, 3] x) => (float[n, 3] y) { y = Exp(x) }`
	b, decoded := decode(t, text, onnxgo.Options{})
	m, err := b.Model(decoded)
	require.NoError(t, err)
	require.Equal(t, "float[3]", m.Graph.Values[m.Graph.Outputs[0].Value].Type.String())
	b, decoded = decode(t, text, onnxgo.Options{Shapes: map[string]string{"x": "n, 3"}})
	m, err = b.Model(decoded)
	require.NoError(t, err)
	require.Equal(t, "float[n, 3]", m.Graph.Values[m.Graph.Outputs[0].Value].Type.String())
	b.Bind(decoded)
	require.NoError(t, decoded.SetInput(0, tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Float32))))
	require.NoError(t, b.Run())
	b, decoded = decode(t, text, onnxgo.Options{Shapes: map[string]string{"x": "n +, 3"}})
	_, err = b.Model(decoded)
	require.ErrorContains(t, err, `the shape of input "x"`)
}

// TestRefused: memopt refuses such models by name.
func TestRefused(t *testing.T) {
	b, decoded := decode(t, `<ir_version: 8, opset_import: ["" : 13]>
g (float[2] x) => (float[2] y) { y = NoSuchThing(x) }`, onnxgo.Options{})
	b.Bind(decoded)
	require.ErrorContains(t, b.Run(), "NoSuchThing")
}
