package op

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestDefinitions: every operator of memopt's own but those of ranks has a definition whose body has its result, and no
// other operator has one.
func TestDefinitions(t *testing.T) {
	written := map[graph.Kind]bool{}
	for _, info := range slices.Concat(memoptRows, lowBitRows) {
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
	require.Len(t, defined(), 7)
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

// TestInlineOtherVersions: a body of another operator set is inlined where its operators did not change
// on the way.
func TestInlineOtherVersions(t *testing.T) {
	for _, c := range []struct {
		body     string
		from, to int64
		err      string
	}{
		{"z = Tanh (a)", 18, 20, ""},
		{"z = Tanh (a)", 20, 18, ""},
		{"z = Tanh (a)", 12, 13, "operator Tanh"},
		{"z = Tanh (a)", 13, 12, "operator Tanh"},
		{"b = Relu (a) z = Gelu (b)", 20, 18, "operator Gelu"},
		{"z = Identity (a)", 18, 23, ""},
		{"z = Identity (a)", 23, 18, "operator Identity"},
		{"z = Softmax (a)", 11, 17, "operator Softmax"},
		{"s = Shape (a) z = GroupNormalization <num_groups = 1> (a, a, a)", 18, 21, "operator GroupNormalization"},
		{"c = Constant <value = bool {1}> () z = If (c) <then_branch = t () => (r) { r = Softmax (a) }, " +
			"else_branch = e () => (r) { r = Relu (a) }>", 12, 13, "operator Constant"},
		{"z = Own (a)", 18, 20, "operator Own"},
	} {
		text := fmt.Sprintf("<ir_version: 10, opset_import: [\"\": %d, \"l\": 1]>\n"+
			"g (float[2,3] x) => (y) { y = l.f (x) }\n"+
			"<domain: \"l\", opset_import: [\"\": %d]> f (a) => (z) { %s }\n", c.to, c.from, c.body)
		m, err := graph.Parse(text, "g")
		require.NoError(t, err, c.body)
		_, err = InlineFunctions(m)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, "%s from %d to %d", c.body, c.from, c.to)
			continue
		}
		require.NoError(t, err, "%s from %d to %d", c.body, c.from, c.to)
		require.Equal(t, c.to, m.OpsetVersion(""))
	}
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
