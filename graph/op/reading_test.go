package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestReadings: how nodes are taken that are not what the imported operator sets say of them. The last node of
// each graph is the one in question; y is its output.
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		name, opsets, graph string
		read                string // as what the node is read; "": as it is written
		opaque              bool
		y, why              string
	}{
		{name: "as defined", opsets: `"" : 17`, graph: `(float[3] x) => (y) { y = Relu(x) }`, y: "float[3]"},
		{name: "rank, stated types", opsets: `"" : 11`, graph: `(float[4, 2, 3] x, float[5, 3] w) => (y) <float[4, 2, 5] y> { y = Gemm<transA = 1, transB = 1>(x, w) }`,
			opaque: true, y: "float[4, 2, 5]", why: `node "Gemm#0" (Gemm-11): input 0 has shape [4, 2, 3], wanted rank 2`},
		{name: "nothing stated", opsets: `"" : 17`, graph: `(float[3] x, float[4] z) => (y) { y = Add(x, z) }`,
			opaque: true, y: "?", why: `node "Add#0" (Add-14): shapes [3] and [4] cannot be broadcast`},
		{name: "arity", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[3] y> { y = Relu(x, x) }`, opaque: true, y: "float[3]", why: "has 2 inputs, wanted 1"},
		{name: "attribute's type", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[3] y> { y = Softmax<axis = "last">(x) }`, opaque: true, y: "float[3]",
			why: `attribute "axis" holds a string, wanted an integer`},
		{name: "too new", opsets: `"" : 12`, graph: `(float[3] x) => (y) { y = Gelu(x) }`, read: "Gelu-20", y: "float[3]",
			why: `node "Gelu#0" (Gelu): operator set 12 of domain "ai.onnx" does not have it; it came with 20`},
		{name: "too new and wrong", opsets: `"" : 12`, graph: `(float[3] x) => (y) { y = Gelu(x, x) }`, opaque: true, y: "?", why: "operator set 12"},
		{name: "attribute that became an input", opsets: `"" : 17`, graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = [1]>(x) }`, read: "Squeeze-11", y: "float[1, 3]",
			why: `node "Squeeze#0" (Squeeze-13): has the attribute "axes", which is input 1 from version 13 on`},
		{name: "both", opsets: `"" : 17`, graph: `(float[1, 1, 3] x) => (y) <int64[1] a = {0}> { y = Squeeze<axes = [1]>(x, a) }`, y: "float[1, 3]"},
		{name: "and wrong in both versions", opsets: `"" : 17`, graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = [2]>(x) }`, opaque: true, y: "?",
			why: `has the attribute "axes"`},
		{name: "clip", opsets: `"" : 13`, graph: `(float[3] x) => (y) { y = Clip<min = 0.0>(x) }`, read: "Clip-6", y: "float[3]", why: `has the attribute "min", which is input 1 from version 11 on`},
		{name: "second of two", opsets: `"" : 13`, graph: `(float[3] x) => (y) { y = Clip<max = 6.0>(x) }`, read: "Clip-6", y: "float[3]", why: `"max", which is input 2`},
		{name: "reduction", opsets: `"" : 18`, graph: `(float[2, 3] x) => (y) { y = ReduceMean<axes = [1], keepdims = 0>(x) }`, read: "ReduceMean-13", y: "float[2]", why: "version 18"},
		{name: "reduction of its version", opsets: `"" : 17`, graph: `(float[2, 3] x) => (y) { y = ReduceMean<axes = [1], keepdims = 0>(x) }`, y: "float[2]"},
		{name: "integer for a list", opsets: `"" : 11`, graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = 1>(x) }`, read: "Squeeze-11", y: "float[1, 3]",
			why: `attribute "axes" holds an integer, wanted a list of integers`},
		{name: "integer for a list in another version", opsets: `"" : 15`, graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = 1>(x) }`, read: "Squeeze-11", y: "float[1, 3]", why: "from version 13 on"},
		{name: "the last import counts", opsets: `"" : 18, "" : 11`, graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = [1]>(x) }`, y: "float[1, 3]"},
		{name: "Gemm of stacks", opsets: `"" : 11`, graph: `(float[2, 4, 3] x, float[2, 5, 4] w, float[5, 1] c) => (y) { y = Gemm<transA = 1, transB = 1>(x, w, c) }`,
			opaque: true, y: "?", why: "input 0 has shape [2, 4, 3], wanted rank 2"},
		{name: "Gemm of stacks, a bias that fits", opsets: `"" : 11`, graph: `(float[2, 4, 3] x, float[2, 5, 4] w, float[3, 1] c) => (y) { y = Gemm<transA = 1, transB = 1>(x, w, c) }`,
			read: "Gemm of Deeploy's dialect", y: "float[2, 3, 5]", why: "wanted rank 2"},
		{name: "Gemm of matrices is no stack", opsets: `"" : 11`, graph: `(float[4, 3] x, float[5, 4] w) => (float[4, 4] y) { y = Gemm(x, w) }`, opaque: true, y: "float[4, 4]", why: "3 columns meet 5 rows"},
		{name: "SGD", opsets: `"" : 12`, graph: `(float[4, 3] w, float[4, 3] g) => (y) { y = SGD<lr = 0.01>(w, g) }`, read: "SGD of Deeploy's dialect", y: "float[4, 3]",
			why: `node "SGD#0" (SGD): no operator set of domain "ai.onnx" has it`},
		{name: "SGD without a rate", opsets: `"" : 12`, graph: `(float[4, 3] w, float[4, 3] g) => (y) { y = SGD(w, g) }`, opaque: true, y: "?", why: "no operator set"},
		{name: "SGD of another shape", opsets: `"" : 12`, graph: `(float[4, 3] w, float[3] g) => (y) { y = SGD<lr = 0.01>(w, g) }`, opaque: true, y: "?", why: "no operator set"},
		{name: "GeluGrad", opsets: `"" : 12`, graph: `(float[4] d, float[4] x) => (y) { y = GeluGrad(d, x) }`, read: "GeluGrad of Deeploy's dialect", y: "float[4]", why: "no operator set"},
		{name: "loss as log-probabilities", opsets: `"" : 13`, graph: `(float[2, 5] s, int64[2] l) => (float[2, 5] y) { y = SoftmaxCrossEntropyLoss(s, l) }`,
			read: "SoftmaxCrossEntropyLoss of Deeploy's dialect", y: "float[2, 5]", why: "its outputs would not have the types that the file states"},
		{name: "loss as defined", opsets: `"" : 13`, graph: `(float[2, 5] s, int64[2] l) => (y) { y = SoftmaxCrossEntropyLoss(s, l) }`, y: "float"},
		{name: "loss with other stated types", opsets: `"" : 13`, graph: `(float[2, 5] s, int64[2] l) => (float[3] y) { y = SoftmaxCrossEntropyLoss(s, l) }`, y: "float[3]"},
		{name: "gradient of the loss", opsets: `"" : 13, "com.microsoft" : 1`, graph: `(float[2, 5] p, int64[2] l) => (y) { y = com.microsoft.SoftmaxCrossEntropyLossGrad(p, l) }`,
			read: "SoftmaxCrossEntropyLossGrad of Deeploy's dialect", y: "float[2, 5]", why: "has 2 inputs, wanted 3 to 5"},
		{name: "gradient of a norm without statistics", opsets: `"" : 13, "com.microsoft" : 1`,
			graph: `(float[2, 5] d, float[2, 5] x, float[5] s, float[5] b) => (y) { y = com.microsoft.LayerNormalizationGrad(d, x, s, b) }`,
			read:  "LayerNormalizationGrad of Deeploy's dialect", y: "float[2, 5]", why: "has 1 outputs, wanted 3"},
		{name: "gradient of a norm, a bias that does not fit", opsets: `"" : 13, "com.microsoft" : 1`,
			graph: `(float[2, 5] d, float[2, 5] x, float[5] s, float[2] b) => (y) { y = com.microsoft.LayerNormalizationGrad(d, x, s, b) }`, opaque: true, y: "?", why: "has 1 outputs"},
		{name: "other stated types alone", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[4] y> { y = Relu(x) }`, y: "float[4]"},
		{name: "no such operator", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[4] y> { y = Nonesuch(x) }`, y: "float[4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf("<ir_version: 8, opset_import: [%s]> g %s", c.opsets, c.graph)
			m, err := graph.Parse(text, "g")
			require.NoError(t, err)
			res, err := op.InferAsIs(m)
			require.NoError(t, err)
			n := m.Graph.Nodes[len(m.Graph.Nodes)-1]
			y, _ := m.Graph.Lookup("y")
			require.Equal(t, c.y, m.Graph.Values[y].Type.String())
			require.Equal(t, c.opaque, n.Fault != nil)
			if c.opaque {
				require.Equal(t, op.Unknown, n.Kind)
				require.Equal(t, 1, res.Opaque(m.Graph))
			}
			if c.why == "" {
				require.Empty(t, res.Deviations)
				return
			}
			require.Len(t, res.Deviations, 1)
			require.Equal(t, c.read, res.Deviations[0].Read)
			require.Equal(t, c.opaque, res.Deviations[0].Opaque())
			require.ErrorContains(t, res.Deviations[0].Why, c.why)

			// A second time it is read the same way; and Infer refuses what is against the definition.
			again, err := op.InferAsIs(m)
			require.NoError(t, err)
			require.Equal(t, res.Deviations[0].Read, again.Deviations[0].Read)
			_, err = op.Infer(m)
			if c.opaque && !strings.HasPrefix(c.name, "SGD") && c.name != "and wrong in both versions" && c.name != "too new and wrong" {
				require.ErrorContains(t, err, c.why)
			}
			require.NoError(t, n.Fault)
		})
	}
}

// TestReadingVersion: what asks for the version of a node is told the one in which it is written.
func TestReadingVersion(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 3] x) => (y) { a = Squeeze<axes = [1]>(x)  y = Unsqueeze<axes = [0]>(a)  z = Relu(a) }`, "g")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	for i, want := range []int{11, 11, 14} {
		n := m.Graph.Nodes[i]
		require.Equal(t, want, op.Of(n.Kind).VersionOf(n, m.OpsetVersion("")))
	}
}

// TestReadingInBodies: nodes of bodies are read as those of the main graph, and anew in every round of a loop.
func TestReadingInBodies(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (int64 n, bool go, float[1, 3] x) => (y) {
		y = Loop<body = b (int64 i, bool c, float[k, 3] s) => (c2, t) <float[1, 3] t> { c2 = Identity(c)  u = Squeeze<axes = [0]>(s)  t = Relu(u, s) }>(n, go, x) }`, "g")
	require.NoError(t, err)
	res, err := op.InferAsIs(m)
	require.NoError(t, err)
	require.Equal(t, 1, res.Opaque(m.Graph))
	require.Empty(t, res.Deviations)
	var read []string
	res.Walk(m.Graph, func(g *graph.Graph, r *op.Result) {
		for _, d := range r.Deviations {
			read = append(read, g.Nodes[d.Node].Op+" "+d.Read)
		}
	})
	require.Equal(t, []string{"Squeeze Squeeze-11", "Relu "}, read)
	_, err = op.Infer(m)
	require.Error(t, err)
}
