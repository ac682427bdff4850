package op

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestSignaturesAndRows: every row has a signature from its first version on, and the row's arities
// are those of its signatures together. Rows may have fewer required outputs: tools leave out what
// nobody reads.
func TestSignaturesAndRows(t *testing.T) {
	for k := Unknown + 1; k < NumKinds; k++ {
		row := Of(k)
		list := signatures()[k]
		if !assert.NotEmpty(t, list, row.Name) {
			continue
		}
		assert.LessOrEqual(t, list[0].since, row.Since[0], row.Name)
		in, out := arity(list[0].inputs), arity(list[0].outputs)
		for i := range list {
			assert.Contains(t, row.Since, list[i].since, row.Name)
			in, out = union(in, arity(list[i].inputs)), union(out, arity(list[i].outputs))
		}
		assert.Equal(t, row.Inputs, in, "%s: inputs", row.Name)
		assert.Equal(t, row.Outputs.Max, out.Max, "%s: outputs", row.Name)
		assert.LessOrEqual(t, row.Outputs.Min, out.Min, "%s: outputs", row.Name)
	}
}

func union(a, b Arity) Arity {
	if a.Max < 0 || b.Max < 0 {
		return Arity{min(a.Min, b.Min), -1}
	}
	return Arity{min(a.Min, b.Min), max(a.Max, b.Max)}
}

// TestTypeSets: what is known of a type decides, form and elements.
func TestTypeSets(t *testing.T) {
	f, i := graph.Tensor(graph.Float32, graph.Shape{}), graph.Tensor(graph.Int64, graph.Shape{})
	of := func(form graph.Form, elem *graph.Type) graph.Type { return graph.Type{Form: form, Elem: elem} }
	floats, ints := of(graph.FormSequence, &f), of(graph.FormSequence, &i)
	for _, c := range []struct {
		set  string
		t    graph.Type
		want bool
	}{
		{"float", f, true}, {"float", i, false}, {"float", graph.Tensor(graph.Undefined, graph.Shape{}), true},
		{"seq:float", graph.Tensor(graph.Undefined, graph.Shape{}), false},
		{"float", graph.Type{}, true}, {"float", floats, false},
		{"seq:float", floats, true}, {"seq:float", ints, false}, {"seq:float", of(graph.FormSequence, nil), true},
		{"seq:float", of(graph.FormSequence, &graph.Type{}), true},
		{"float", of(graph.FormSequence, nil), false}, {"seq:float", of(graph.FormSequence, &floats), false},
		{"seq:float", f, false},
		{"opt:float", of(graph.FormOptional, &f), true}, {"opt:float", of(graph.FormOptional, &i), false},
		{"opt:float", of(graph.FormOptional, &floats), false},
		{"optseq:float", of(graph.FormOptional, &floats), true}, {"optseq:float", of(graph.FormOptional, &ints), false},
		{"optseq:float", of(graph.FormOptional, &f), false},
		{"optseq:float", of(graph.FormOptional, nil), true}, {"opt:float", of(graph.FormOptional, &graph.Type{}), true},
		{"float", of(graph.FormOptional, nil), false},
		{"float,seq:float", floats, true}, {"float,int64", i, true},
	} {
		set, err := parseTypes(c.set, typeSets())
		require.NoError(t, err)
		assert.Equal(t, c.want, set.has(c.t), "%s: %v", c.set, c.t)
	}
}

// TestSignatureFaults: what has no text form.
func TestSignatureFaults(t *testing.T) {
	m, err := graph.Parse(
		`<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float[3] z) => (y, a) { y = Sum(x, z)  a = LeakyRelu<alpha = 1.0>(y) }`,
		"g")
	require.NoError(t, err)
	z, _ := m.Graph.Lookup("z")
	m.Graph.Values[z].Type.DType = graph.Undefined
	_, err = Infer(m)
	require.NoError(t, err, "elements that nobody knows are not others")
	m.Graph.Nodes[1].Attrs[0] = graph.Attr{Name: "alpha", Ref: "k"}
	_, err = Infer(m)
	require.ErrorContains(t, err, `attribute "alpha" stands for the attribute "k" of a function`)
}

// TestClashEnds: what the file no longer states is forgotten.
func TestClashEnds(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (y) <int8[3] y> { y = Relu(x) }`,
		"g")
	require.NoError(t, err)
	_, err = Infer(m)
	require.NoError(t, err)
	require.Error(t, m.Graph.Nodes[0].Clash())
	m.Graph.ValueInfo = nil
	_, err = Infer(m)
	require.NoError(t, err)
	require.NoError(t, m.Graph.Nodes[0].Clash())
}

// TestSignatureFiles: what is no signature is said with its line.
func TestSignatureFiles(t *testing.T) {
	kinds := map[string]graph.Kind{"Relu": Relu}
	for text, want := range map[string]string{
		"Nonesuch 1: T -> T | T=float":                         "line 1: no operator and version",
		"# a comment\n\nRelu x: T -> T | T=float":              "line 3: no operator and version",
		"Relu 1: T -> T | T=flaot":                             `line 1: no type: "flaot"`,
		"Relu 1: X -> T | T=float":                             `line 1: no type: "X"`,
		"Relu 1: T -> X | T=float":                             `line 1: no type: "X"`,
		"Relu 1: T -> T | T=float | alpha:number":              "line 1: no kind of attribute",
		"Relu 6: T -> T | T=float\nRelu 6: T -> T | T=float":   "line 2: version 6 is not above",
		"Relu 6: T -> T | T=float\nRelu 13: T -> T | T=floats": "",
	} {
		err := parseSignatures(text, typeSets(), kinds, make([][]signature, NumKinds))
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
