package op

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestDefinitions: every operator of memopt's own but those of ranks has a definition whose body has its result, and no
// other operator has one.
func TestDefinitions(t *testing.T) {
	written := map[graph.Kind]bool{}
	for _, info := range memoptRows {
		written[info.Kind] = true
	}
	for k := Unknown + 1; k < NumKinds; k++ {
		info := Of(k)
		f := definitionOf(info.Domain, info.Name)
		require.Equal(t, written[k], f != nil, info.Name)
		if f == nil {
			continue
		}
		require.Len(t, f.Inputs, info.Inputs.Max, info.Name)
		require.Len(t, f.Outputs, info.Outputs.Max, info.Name)
		for _, s := range signatures()[k] {
			var attrs []string
			for _, a := range s.attrs {
				require.True(t, a.Required, "%s: definitions have no defaults", info.Name)
				attrs = append(attrs, a.Name)
			}
			require.Equal(t, attrs, f.AttrNames, info.Name)
		}
	}
	require.Len(t, defined(), 2)
}

const added = `<ir_version: %v, opset_import: ["": 17]>
g (float[2, 3, 400] a, float[2, 400, 5] b, float[2, 3, 5] c) => (z, y) {
  y = memopt.MatMulAdd (a, b, c)
  z = memopt.FusedMatMulAdd <alpha = 0.5, transA = 0, transB = 0> (a, b, y)
}`

// TestDefine: a model gets the definitions of what it uses, once, with its own operator set, and reads as
// a model of these operators.
func TestDefine(t *testing.T) {
	m, err := graph.Parse(strings.Replace(added, "%v", "6", 1), "g")
	require.NoError(t, err)
	Bind(m)
	for range 2 {
		require.NoError(t, Define(m))
		require.EqualValues(t, 8, m.IRVersion, "functions came with IR version 8")
		require.Len(t, m.Functions, 2)
		require.EqualValues(t, 1, m.OpsetVersion("memopt"))
		require.EqualValues(t, 1, m.OpsetVersion("com.microsoft"))
		require.EqualValues(t, 17, graph.OpsetVersion(m.Functions[0].Opsets, ""))
	}
	m, err = graph.Parse(graph.Format(m, graph.FormatOptions{}), "g")
	require.NoError(t, err)
	changed, err := InlineFunctions(m)
	require.NoError(t, err)
	require.False(t, changed)
	_, err = Infer(m)
	require.NoError(t, err)
	require.Equal(t, MatMulAdd, m.Graph.Nodes[0].Kind)
	require.Equal(t, FusedMatMulAdd, m.Graph.Nodes[1].Kind)
	require.Len(t, m.Functions, 2)

	m, err = graph.Parse(strings.Replace(added, "%v", "3", 1), "g")
	require.NoError(t, err)
	Bind(m)
	require.ErrorContains(t, Define(m), "IR version 3 cannot have: wanted version 4 or newer")
	require.Empty(t, m.Functions)
	require.Empty(t, m.OpsetVersion("memopt"))
}

// TestOtherDefinitions: a function that only has the name of memopt's own operator is a function like
// others.
func TestOtherDefinitions(t *testing.T) {
	m, err := graph.Parse(strings.Replace(added, "%v", "8", 1), "g")
	require.NoError(t, err)
	Bind(m)
	require.NoError(t, Define(m))
	text := strings.Replace(graph.Format(m, graph.FormatOptions{}), "Y = Add (AB, C)", "Y = Sub (AB, C)", 1)
	m, err = graph.Parse(text, "g")
	require.NoError(t, err)
	Bind(m)
	require.Len(t, localFunctions(m), 1)
	changed, err := InlineFunctions(m)
	require.NoError(t, err)
	require.True(t, changed)
	Bind(m)
	var kinds []graph.Kind
	for _, n := range m.Graph.Nodes {
		kinds = append(kinds, n.Kind)
	}
	require.Equal(t, []graph.Kind{MatMul, Sub, FusedMatMulAdd}, kinds)
	require.Len(t, m.Functions, 1)
}
