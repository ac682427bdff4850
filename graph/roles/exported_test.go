package roles_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
	"memopt/graph/modules"
	"memopt/graph/roles"
)

// inModules gives each node the module that its name begins with, as PyTorch's exporter does.
func inModules(m *graph.Model, scopes map[string]string) {
	for _, n := range m.Graph.Nodes {
		if scope, ok := scopes[n.Name]; ok {
			n.EditRare(func(r *graph.Rare) {
				names := "['', '" + scope + "', 'op']"
				r.Metadata = append(r.Metadata, graph.Property{Key: modules.ScopesKey, Value: names})
			})
		}
	}
}

// signed adds the signature of a program.
func signed(m *graph.Model, lines string) {
	m.Graph.Metadata = []graph.Property{{Key: "pkg.torch.export.ExportedProgram.graph_signature",
		Value: "\n# inputs\n" + lines + "\n# outputs\n"}}
}

// TestExported: changes of a program by its exporter are found by the signature of the program and the
// modules of the nodes.
func TestExported(t *testing.T) {
	for _, c := range []struct {
		name, model, signature string
		scopes                 map[string]string
		want                   []roles.Change
	}{
		{"a scale of ones stands for that of another norm, and biases of zeros are left out",
			`(float[N, 2] x) => (y) <float[2] "a.weight" = {1, 1}> {
				[a] p = LayerNormalization(x, "a.weight")  [b] y = LayerNormalization(p, "a.weight") }`,
			"p: PARAMETER target='a.weight'\np: PARAMETER target='a.bias'\np: PARAMETER target='b.weight'\n" +
				"p: PARAMETER target='b.bias'\n", map[string]string{"a": "a", "b": "b"},
			[]roles.Change{{roles.Dropped, "", []string{"a.bias", "b.bias"}},
				{roles.Merged, "a.weight", []string{"b.weight"}}}},
		{"a parameter that the program shares has learned", `(float[N, 2] x) => (y) <float[2] "a.weight" = {1, 2}> {
				[a] p = LayerNormalization(x, "a.weight")  [b] y = LayerNormalization(p, "a.weight") }`,
			"p: PARAMETER target='a.weight'\np: PARAMETER target='b.weight'\n",
			map[string]string{"a": "a", "b": "b"}, nil},
		{"a norm in pieces, whose weight another one's bias cannot stand for",
			`(float[N, 2] x) => (y) <float[2] "a.weight" = {1, 1}, float[2] "c.bias" = {1, 1}> {
				[a] p = Mul(x, "a.weight")  [b] q = Mul(p, "a.weight")  [c] r = Add(q, "c.bias")  [d] y = Add(r, "c.bias") }`,
			"p: PARAMETER target='a.weight'\np: PARAMETER target='b.weight'\np: PARAMETER target='c.bias'\n" +
				"p: PARAMETER target='d.bias'\n",
			map[string]string{"a": "a", "b": "b", "c": "c", "d": "d"},
			[]roles.Change{{roles.Merged, "a.weight", []string{"b.weight"}},
				{roles.Merged, "c.bias", []string{"d.bias"}}}},
		{"a program without modules", `(float[N, 2] x) => (y) <float[2] a = {1, 2}> { y = Mul(x, a) }`,
			"p: PARAMETER target='a'\np: PARAMETER target='b'\n", nil,
			[]roles.Change{{roles.Folded, "", []string{"b"}}}},
		{"batch norms, folded and in inference mode",
			`(float[N, 2] x) => (y) <float[2] "n.weight" = {1, 2}, float[2] "n.bias" = {1, 2},
				float[2] "n.running_mean" = {1, 2}, float[2] v = {1, 2}> {
				[n] y = BatchNormalization(x, "n.weight", "n.bias", "n.running_mean", v) }`,
			"p: PARAMETER target='n.weight'\np: PARAMETER target='n.bias'\n" +
				"b: BUFFER target='n.running_mean' persistent=True\n" +
				"b: BUFFER target='m.running_mean' persistent=True\n", nil,
			[]roles.Change{{roles.Frozen, "", []string{"n"}}, {roles.FoldedNorms, "", []string{"m"}}}},
		{"parameters of a folded norm are not named again", `(float[N, 2] x) => (y) <float[2, 2] "l.weight" = {1, 2, 3, 4},
				float[2] "l.weight_bias" = {1, 2}> { p = MatMul(x, "l.weight")  [l] y = Add(p, "l.weight_bias") }`,
			"p: PARAMETER target='l.weight'\np: PARAMETER target='n.weight'\np: PARAMETER target='n.bias'\n" +
				"b: BUFFER target='n.running_mean' persistent=True\n", nil,
			[]roles.Change{{roles.FoldedNorms, "", []string{"n"}}}},
		{"a bias that the program shares with a module inside",
			`(float[N, 2] x) => (y) <float[2] "h.d.bias" = {1, 2}> { [d] y = Add(x, "h.d.bias") }`,
			"p: PARAMETER target='h.bias'\np: PARAMETER target='h.d.bias'\n", map[string]string{"d": "h.d"},
			[]roles.Change{{roles.Folded, "", []string{"h.bias"}}}},
		{"no signature: a scale of norms of two modules",
			`(float[N, 2] x) => (y) <float[2] s = {1, 1}> {
				["/a/LayerNormalization"] p = LayerNormalization(x, s)  ["/b/LayerNormalization"] y = LayerNormalization(p, s) }`,
			"", nil, []roles.Change{{roles.Merged, "s", []string{"b"}}}},
		{"no signature: a module that runs twice",
			`(float[N, 2] x) => (y) <float[2] s = {1, 1}> {
				["/a/LayerNormalization"] p = LayerNormalization(x, s)  ["/a/LayerNormalization_1"] y = LayerNormalization(p, s) }`,
			"", nil, nil},
		{"tied weights apart",
			`(int64[N] x) => (y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2, 3] u = {1, 3, 5, 2, 4, 6}> {
				p = Gather(w, x)  y = MatMul(p, u) }`, "", nil, []roles.Change{{roles.Untied, "w", []string{"u"}}}},
		{"matrices of equal numbers",
			`(int64[N] x) => (y) <float[3, 2] w = {1, 1, 1, 1, 1, 1}, float[2, 3] u = {1, 1, 1, 1, 1, 1}> {
				p = Gather(w, x)  y = MatMul(p, u) }`, "", nil, nil},
		{"matrices that differ at the end",
			`(int64[N] x) => (y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2, 3] u = {1, 3, 5, 2, 4, 7}> {
				p = Gather(w, x)  y = MatMul(p, u) }`, "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := model(t, c.model)
			inModules(m, c.scopes)
			if c.signature != "" {
				signed(m, c.signature)
			}
			r, err := roles.Find(m, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, r.Exported)
			if v, ok := m.Graph.Lookup("l.weight_bias"); ok {
				require.Equal(t, roles.Parameter, r.Of(v).Kind, "the bias that a folded norm became")
			}
		})
	}
}

// property is an entry of a value's metadata, as files have it.
func property(key, value string) []byte {
	var entry []byte
	for i, text := range []string{key, value} {
		entry = protowire.AppendString(protowire.AppendTag(entry, protowire.Number(i+1), protowire.BytesType), text)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), entry)
}

// TestComputed: a tensor that the exporter computed of a parameter that is gone is named by the parameter, once; one
// with the same elements in another order, or with some of the rows, trains as the parameter would.
func TestComputed(t *testing.T) {
	for _, c := range []struct {
		value, dims, data, from string
		want                    []string
	}{
		{"exp_3", "2", "1, 2", "'w'", []string{"w"}},
		{"unsqueeze_7", "1, 2", "1, 2", "'w', 'exp', 'val_3'", []string{"w"}},
		{"mul", "2", "1, 2", "'v', 'w', 'div', 'linalg_vector_norm'", []string{"v", "w"}},
		{"val_8", "1, 2", "1, 2", "'w'", nil},
		{"val_8", "1, 2", "1, 2", "'w', 'table'", []string{"w"}}, // a product with a buffer
		{"cat_1", "2", "1, 2", "'v', 'w', 'val_3'", nil},
		{"unsqueeze_7", "1, 2", "1, 2", "'w', 'permute_12', 'val_3'", nil},
		{"expand", "2, 2", "1, 2, 1, 2", "'w'", []string{"w"}},
		{"embedding", "2, 2", "1, 2, 3, 4", "'w', 'table', 'add_5'", nil},
		{"embedding", "2, 2", "1, 2, 1, 2", "'w', 'table', 'add_5'", []string{"w"}},
		{"embedding", "2, 2", "1, 2, 3, 4", "'v', 'w'", []string{"v", "w"}},
		{"exp_3", "2", "1, 2", "'table'", nil},
	} {
		m := model(t, fmt.Sprintf("(float[N, 2] x) => (y) <float[%s] %s = {%s}> { y = Mul(x, %[2]s) }", c.dims, c.value,
			c.data))
		signed(m, "p: PARAMETER target='v'\np: PARAMETER target='w'\nb: BUFFER target='table' persistent=True")
		v, _ := m.Graph.Lookup(c.value)
		m.Graph.ValueInfo = []graph.Decl{{Value: v,
			Wire: property("pkg.onnxscript.optimizer.folded_from", "["+c.from+"]")}}
		r, err := roles.Find(m, nil)
		require.NoError(t, err)
		var got []string
		for _, change := range r.Exported {
			if change.Kind == roles.Computed {
				got = append(got, change.Names...)
			}
		}
		require.Equal(t, c.want, got, "%s of %s", c.value, c.from)
	}
}

// TestFoldedInScripts: in a file of torch.onnx.export(dynamo=False), a convolution whose weights have no names had a
// norm behind it.
func TestFoldedInScripts(t *testing.T) {
	m := model(t, `(float[N, 2, 5] x) => (y) <float[2, 2, 1] "onnx::Conv_30" = {1, 2, 3, 4}, float[2] "onnx::Conv_31" = {5, 6},
		float[2, 2, 1] "d.weight" = {1, 2, 3, 5}, float[2, 2, 1] "onnx::Conv_33" = {1, 2, 3, 6}, float[2] "e.bias" = {5, 7}> {
		["/c/Conv"] p = Conv(x, "onnx::Conv_30", "onnx::Conv_31")  ["/d/Conv"] q = Conv(p, "d.weight", "onnx::Conv_31")
		["/e/Conv"] r = Conv(q, "onnx::Conv_33", "e.bias")  ["/c/Conv_1"] y = Conv(r, "onnx::Conv_30", "onnx::Conv_31") }`)
	r, err := roles.Find(m, nil)
	require.NoError(t, err)
	require.Empty(t, r.Exported)
	m.ProducerName = "pytorch"
	r, err = roles.Find(m, nil)
	require.NoError(t, err)
	require.Equal(t, []roles.Change{{Kind: roles.FoldedNorms, Names: []string{"c"}}}, r.Exported)
}
