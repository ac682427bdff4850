package ortengine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestBlamed finds the node that a message of the runtime is about.
func TestBlamed(t *testing.T) {
	m, err := graph.Parse(
		`<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { [act] a = Elu(x)  [sum] b = Add(a, a)  y = Selu(b) }`,
		"test")
	require.NoError(t, err)
	for message, want := range map[string]string{
		"Could not find an implementation for Elu(6) node with name 'act'":                        "act",
		"Could not find an implementation for Elu(6) node with name ''":                           "act",
		"Fatal error: com.microsoft:Elu(-1) is not a registered function/op":                      "act",
		"Non-zero status code returned while running Add node. Name:'sum' Status Message: shapes": "sum",
		"Non-zero status code returned while running Selu node. Name:'' Status Message: something": m.Graph.NodeLabel(
			2),
		"Invalid input name: x": "",
		"Relu(6) SomeElu(7)":    "",
	} {
		require.Equal(t, want, blamed(m.Graph, message), message)
	}
	require.Empty(t, blamed(nil, "Elu(6)"))
}

// TestExternalData moves weights out of a file that would be too large for ONNX, and out of no
// other.
func TestExternalData(t *testing.T) {
	g := &graph.Graph{
		Values: []graph.Value{{Name: "x"},
			{Name: "w", Data: &graph.TensorData{DType: graph.Float32, Dims: []int64{1 << 28}}}},
	}
	require.Zero(t, ExternalData(g))
	g.Values = append(g.Values,
		graph.Value{Name: "v", Data: &graph.TensorData{DType: graph.Float32, Dims: []int64{1 << 28}}})
	require.EqualValues(t, 1<<20, ExternalData(g))
	g.Values[1].Data.External = &graph.External{Location: "w.data"}
	require.Zero(t, ExternalData(g))
}

// TestSharedDefaults takes the default from an input that a state of other models stands for: the
// runtime would hold it beside the state.
func TestSharedDefaults(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }`, "test")
	require.NoError(t, err)
	w, _ := m.Graph.Lookup("w")
	b, err := bind(m, nil)
	require.NoError(t, err)
	require.Same(t, m, b.model)
	b, err = bind(m, nil, w)
	require.NoError(t, err)
	require.Nil(t, b.model.Graph.Values[w].Data)
	require.Empty(t, b.model.Graph.Initializers)
	require.Len(t, b.model.Graph.Inputs, 2)
	require.NotNil(t, m.Graph.Values[w].Data, "the caller's is as it was")
}
