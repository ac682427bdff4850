package onnx_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

// eachGraph calls f for every graph of a model, functions' bodies included.
func eachGraph(m *graph.Model, f func(*graph.Graph)) {
	var walk func(g *graph.Graph)
	walk = func(g *graph.Graph) {
		f(g)
		for _, n := range g.Nodes {
			n.Subgraphs(func(_ string, sub *graph.Graph) { walk(sub) })
		}
	}
	walk(m.Graph)
	for _, fn := range m.Functions {
		walk(fn.Body)
	}
}

// strip removes every encoded form from a model, as if everything had been edited.
func strip(m *graph.Model) {
	sparse := func(s *graph.Sparse) { s.Wire, s.Values.Wire, s.Indices.Wire = nil, nil, nil }
	attrs := func(list []graph.Attr) {
		for i := range list {
			list[i].Wire = nil
			switch v := list[i].Value.(type) {
			case *graph.TensorData:
				v.Wire = nil
			case []*graph.TensorData:
				for _, t := range v {
					t.Wire = nil
				}
			case *graph.Sparse:
				sparse(v)
			case []*graph.Sparse:
				for _, s := range v {
					sparse(s)
				}
			}
		}
	}
	for _, f := range m.Functions {
		f.Wire = nil
		attrs(f.AttrDefaults)
	}
	eachGraph(m, func(g *graph.Graph) {
		for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
			for i := range list {
				list[i].Wire = nil
			}
		}
		for i := range g.Values {
			if t := g.Values[i].Data; t != nil {
				t.Wire = nil
			}
			if s := g.Values[i].SparseData; s != nil {
				sparse(s)
			}
		}
		for _, n := range g.Nodes {
			attrs(n.Attrs)
		}
	})
}

// TestEncodeFromFields encodes a model without any of its encoded forms and
// compares the result with the second decoder's view of the original.
func TestEncodeFromFields(t *testing.T) {
	data := everything(t)
	m, err := onnx.Decode(data, "")
	require.NoError(t, err)
	before := onnx.StructureSHA256(m)
	strip(m)
	out, err := onnx.Encode(m)
	require.NoError(t, err)
	again, err := onnx.Decode(out, "")
	require.NoError(t, err)
	requireModel(t, data, again)
	require.Equal(t, before, onnx.StructureSHA256(again))
	requireSame(t, out)
}

func decodeText(t testing.TB, text string) *graph.Model {
	t.Helper()
	m, err := onnx.Decode(fromText(t, "ModelProto", text), "")
	require.NoError(t, err)
	return m
}

func recode(t testing.TB, m *graph.Model) *graph.Model {
	t.Helper()
	data, err := onnx.Encode(m)
	require.NoError(t, err)
	again, err := onnx.Decode(data, "")
	require.NoError(t, err)
	return again
}

func TestEditsReachTheFile(t *testing.T) {
	m := decodeText(t, `ir_version: 8 producer_name: "" opset_import { version: 17 } metadata_props { key: "a" value: "" }
	  graph { input { name: "x" } node { op_type: "Gelu" name: "" doc_string: "" input: "x" output: "y" attribute { name: "alpha" type: FLOAT f: 1 } }
	  output { name: "y" } }`)
	m.ProducerName = "memopt"
	m.SetMeta("a", "b")
	m.SetMeta("c", "d")
	g := m.Graph
	g.Nodes[0].Name = "gelu"
	g.Nodes[0].SetAttr("alpha", float32(2))
	g.Nodes[0].SetAttr("axes", []int64{1, -1})
	_, err := g.AddInitializer(graph.Float32Tensor("w", []int64{2}, 1, 2))
	require.NoError(t, err)
	require.NoError(t, g.AddNode(&graph.Node{Op: "Add", Inputs: []graph.ValueID{g.Value("y"), g.Value("w")},
		Outputs: []graph.ValueID{g.Value("z")}}))
	require.NoError(t, g.AddOutput(graph.Decl{Value: g.Value("z"), Doc: "sum", Type: graph.Tensor(graph.Float32,
		graph.Dims(symbolic.Sym("input-0_dim0"), symbolic.MustParse("2*n + 1"), symbolic.Const(0),
			symbolic.Unknown()))}))

	got := recode(t, m)
	assert.Equal(t, "memopt", got.ProducerName)
	assert.Equal(t, []graph.Property{{Key: "a", Value: "b", Extra: got.Metadata[0].Extra}, {Key: "c", Value: "d"}},
		got.Metadata)
	n := got.Graph.Nodes[0]
	assert.Equal(t, "gelu", n.Name)
	assert.Equal(t, float32(2), n.Float("alpha", 0))
	assert.Equal(t, []int64{1, -1}, n.IntList("axes", nil))
	id, ok := got.Graph.Lookup("w")
	require.True(t, ok)
	elems, err := got.Graph.Values[id].Data.Float64s()
	require.NoError(t, err)
	assert.Equal(t, []float64{1, 2}, elems)
	require.Len(t, got.Graph.Outputs, 2)
	assert.Equal(t, "float[`input-0_dim0`, 2*n + 1, 0, ?]", got.Graph.Outputs[1].Type.String())
	assert.Equal(t, "sum", got.Graph.Outputs[1].Doc)
}

// TestEditsInSubgraphsReachTheFile: nobody clears the encoded form of the attribute
// that holds an edited graph.
func TestEditsInSubgraphsReachTheFile(t *testing.T) {
	m := decodeText(t, `ir_version: 8 opset_import { version: 17 }
	  graph { input { name: "c" } input { name: "x" } node { op_type: "If" input: "c" output: "y"
	    attribute { name: "then_branch" type: GRAPH doc_string: "kept" g { node { op_type: "Relu" input: "x" output: "t" } output { name: "t" } } }
	    attribute { name: "else_branch" type: GRAPH g { node { op_type: "Neg" input: "x" output: "e" } output { name: "e" } } } } output { name: "y" } }`)
	m.Graph.Nodes[0].GraphAttr("then_branch").Nodes[0].Op = "Tanh"
	got := recode(t, m)
	assert.Equal(t, "Tanh", got.Graph.Nodes[0].GraphAttr("then_branch").Nodes[0].Op)
	assert.Equal(t, "kept", got.Graph.Nodes[0].Attr("then_branch").Doc)
	assert.Equal(t, []graph.ValueID{got.Graph.Value("x")}, got.Graph.Nodes[0].Captures())
}

func TestEncodeFaults(t *testing.T) {
	_, err := onnx.Encode(&graph.Model{})
	require.ErrorContains(t, err, "it has no graph")

	m := decodeText(t, `ir_version: 8 graph { node { op_type: "Op" name: "n" output: "y" } }`)
	m.Graph.Nodes[0].SetAttr("a", 3) // an int is no int64
	_, err = onnx.Encode(m)
	require.EqualError(t, err,
		`encoding the model: node "n" (Op): attribute "a": its value has the Go type int, which no ONNX attribute has`)
}

func TestTensorFile(t *testing.T) {
	data := fromText(t, "TensorProto",
		`dims: 2 data_type: 11 name: "input" double_data: 1.5 double_data: -2 metadata_props { key: "k" }`)
	tensor, err := onnx.DecodeTensor(data, "input_0.pb")
	require.NoError(t, err)
	elems, err := tensor.Float64s()
	require.NoError(t, err)
	assert.Equal(t, []float64{1.5, -2}, elems)
	out, err := onnx.EncodeTensor(tensor)
	require.NoError(t, err)
	assert.Equal(t, data, out)

	_, err = onnx.DecodeTensor([]byte{0x08}, "input_0.pb")
	require.ErrorAs(t, err, new(*onnx.FormatError))
}

func TestStructureHash(t *testing.T) {
	const base = `ir_version: 8 opset_import { version: 17 } graph { name: "g" input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_param: "n" } } } } }
	  initializer { dims: 1 data_type: 1 name: "w" raw_data: "abcd" }
	  node { op_type: "Add" input: "x" input: "w" output: "y" attribute { name: "k" type: INT i: 1 } } output { name: "y" } }`
	hash := func(text string) string { return onnx.StructureSHA256(decodeText(t, text)) }
	replaced := func(old, new string) string {
		t.Helper()
		require.Contains(t, base, old)
		return hash(replaceOnce(base, old, new))
	}
	want := hash(base)
	require.Len(t, want, 64)
	same := map[string][2]string{
		"contents":       {`raw_data: "abcd"`, `raw_data: "efgh"`},
		"typed contents": {`raw_data: "abcd"`, `float_data: 2`},
		"external contents": {`raw_data: "abcd"`,
			`data_location: EXTERNAL external_data { key: "location" value: "w" }`},
		"documentation": {`graph {`,
			`doc_string: "d" producer_name: "p" metadata_props { key: "k" } graph { doc_string: "e"`},
		"spelling of domain":  {`op_type: "Add"`, `op_type: "Add" domain: "ai.onnx"`},
		"ir_version":          {`ir_version: 8`, `ir_version: 9`},
		"blanks around a dim": {`"n"`, `" n "`},
	}
	for name, r := range same {
		assert.Equal(t, want, replaced(r[0], r[1]), "%s must not change the hash", name)
	}
	differ := map[string][2]string{
		"operator":     {`"Add"`, `"Sub"`},
		"attribute":    {`i: 1`, `i: 2`},
		"dim":          {`"n"`, `"m"`},
		"opset":        {`version: 17`, `version: 18`},
		"element type": {`data_type: 1 name`, `data_type: 6 name`},
		"dims":         {`dims: 1 data`, `dims: 1 dims: 1 data`},
		"value name":   {`output: "y" attribute`, `output: "z" output: "y" attribute`},
	}
	for name, r := range differ {
		assert.NotEqual(t, want, replaced(r[0], r[1]), "%s must change the hash", name)
	}
}
