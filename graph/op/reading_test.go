package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestReadings: how nodes are taken that are not what the imported operator sets say of them. The
// last node of each graph is the one in question; y is its output.
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		name, opsets, graph string
		read                string // as what the node is read; "": as it is written
		opaque              bool
		y, why              string
	}{
		{name: "as defined", opsets: `"" : 17`, graph: `(float[3] x) => (y) { y = Relu(x) }`, y: "float[3]"},
		{name: "rank, stated types", opsets: `"" : 11`,
			graph:  `(float[4, 2, 3] x, float[5, 3] w) => (y) <float[4, 2, 5] y> { y = Gemm<transA = 1, transB = 1>(x, w) }`,
			opaque: true, y: "float[4, 2, 5]",
			why: `node "Gemm#0" (Gemm-11): input 0 has shape [4, 2, 3], wanted rank 2`},
		{name: "nothing stated", opsets: `"" : 17`, graph: `(float[3] x, float[4] z) => (y) { y = Add(x, z) }`,
			opaque: true, y: "?", why: `node "Add#0" (Add-14): shapes [3] and [4] cannot be broadcast`},
		{name: "arity", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[3] y> { y = Relu(x, x) }`, opaque: true,
			y: "float[3]", why: "has 2 inputs, wanted 1"},
		{name: "attribute's type", opsets: `"" : 17`,
			graph: `(float[3] x) => (y) <float[3] y> { y = Softmax<axis = "last">(x) }`, opaque: true, y: "float[3]",
			why: `attribute "axis" holds a string, wanted an integer`},
		{name: "too new", opsets: `"" : 12`, graph: `(float[3] x) => (y) { y = Gelu(x) }`, read: "Gelu-20",
			y:   "float[3]",
			why: `node "Gelu#0" (Gelu): operator set 12 of domain "ai.onnx" does not have it; it came with 20`},
		{name: "too new and wrong", opsets: `"" : 12`, graph: `(float[3] x) => (y) { y = Gelu(x, x) }`, opaque: true,
			y: "?", why: "operator set 12"},
		{name: "attribute that became an input", opsets: `"" : 17`,
			graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = [1]>(x) }`, read: "Squeeze-11", y: "float[1, 3]",
			why: `node "Squeeze#0" (Squeeze-13): has the attribute "axes", which is input 1 from version 13 on`},
		{name: "both", opsets: `"" : 17`,
			graph: `(float[1, 1, 3] x) => (y) <int64[1] a = {0}> { y = Squeeze<axes = [1]>(x, a) }`, y: "float[1, 3]"},
		{name: "and wrong in both versions", opsets: `"" : 17`,
			graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = [2]>(x) }`, opaque: true, y: "?",
			why: `has the attribute "axes"`},
		{name: "clip", opsets: `"" : 13`, graph: `(float[3] x) => (y) { y = Clip<min = 0.0>(x) }`, read: "Clip-6",
			y: "float[3]", why: `has the attribute "min", which is input 1 from version 11 on`},
		{name: "second of two", opsets: `"" : 13`, graph: `(float[3] x) => (y) { y = Clip<max = 6.0>(x) }`,
			read: "Clip-6", y: "float[3]", why: `"max", which is input 2`},
		{name: "reduction", opsets: `"" : 18`,
			graph: `(float[2, 3] x) => (y) { y = ReduceMean<axes = [1], keepdims = 0>(x) }`, read: "ReduceMean-13",
			y: "float[2]", why: "version 18"},
		{name: "reduction of its version", opsets: `"" : 17`,
			graph: `(float[2, 3] x) => (y) { y = ReduceMean<axes = [1], keepdims = 0>(x) }`, y: "float[2]"},
		{name: "integer for a list", opsets: `"" : 11`, graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = 1>(x) }`,
			read: "Squeeze-11", y: "float[1, 3]",
			why: `attribute "axes" holds an integer, wanted a list of integers`},
		{name: "integer for a list in another version", opsets: `"" : 15`,
			graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = 1>(x) }`, read: "Squeeze-11", y: "float[1, 3]",
			why: "from version 13 on"},
		{name: "the last import counts", opsets: `"" : 18, "" : 11`,
			graph: `(float[1, 1, 3] x) => (y) { y = Squeeze<axes = [1]>(x) }`, y: "float[1, 3]"},
		{name: "Gemm of stacks", opsets: `"" : 11`,
			graph:  `(float[2, 4, 3] x, float[2, 5, 4] w, float[5, 1] c) => (y) { y = Gemm<transA = 1, transB = 1>(x, w, c) }`,
			opaque: true, y: "?", why: "input 0 has shape [2, 4, 3], wanted rank 2"},
		{name: "Gemm of stacks, a bias that fits", opsets: `"" : 11`,
			graph: `(float[2, 4, 3] x, float[2, 5, 4] w, float[3, 1] c) => (y) { y = Gemm<transA = 1, transB = 1>(x, w, c) }`,
			read:  "Gemm of Deeploy's dialect", y: "float[2, 3, 5]", why: "wanted rank 2"},
		{name: "Gemm of matrices is no stack", opsets: `"" : 11`,
			graph: `(float[4, 3] x, float[5, 4] w) => (float[4, 4] y) { y = Gemm(x, w) }`, opaque: true,
			y: "float[4, 4]", why: "3 columns meet 5 rows"},
		{name: "SGD", opsets: `"" : 12`, graph: `(float[4, 3] w, float[4, 3] g) => (y) { y = SGD<lr = 0.01>(w, g) }`,
			read: "SGD of Deeploy's dialect", y: "float[4, 3]",
			why: `node "SGD#0" (SGD): no operator set of domain "ai.onnx" has it`},
		{name: "SGD without a rate", opsets: `"" : 12`,
			graph: `(float[4, 3] w, float[4, 3] g) => (y) { y = SGD(w, g) }`, opaque: true, y: "?",
			why: "no operator set"},
		{name: "SGD of another shape", opsets: `"" : 12`,
			graph: `(float[4, 3] w, float[3] g) => (y) { y = SGD<lr = 0.01>(w, g) }`, opaque: true, y: "?",
			why: "no operator set"},
		{name: "GeluGrad", opsets: `"" : 12`, graph: `(float[4] d, float[4] x) => (y) { y = GeluGrad(d, x) }`,
			read: "GeluGrad of Deeploy's dialect", y: "float[4]", why: "no operator set"},
		{name: "loss as log-probabilities", opsets: `"" : 13`,
			graph: `(float[2, 5] s, int64[2] l) => (float[2, 5] y) { y = SoftmaxCrossEntropyLoss(s, l) }`,
			read:  "SoftmaxCrossEntropyLoss of Deeploy's dialect", y: "float[2, 5]",
			why: "its outputs would not have the types that the file states"},
		{name: "loss as defined", opsets: `"" : 13`,
			graph: `(float[2, 5] s, int64[2] l) => (y) { y = SoftmaxCrossEntropyLoss(s, l) }`, y: "float"},
		{name: "loss with other stated types", opsets: `"" : 13`,
			graph: `(float[2, 5] s, int64[2] l) => (float[3] y) { y = SoftmaxCrossEntropyLoss(s, l) }`, y: "float"},
		{name: "other elements stated", opsets: `"" : 17`, graph: `(float[3] x) => (y) <int8[3] y> { y = Relu(x) }`,
			y: "float[3]"},
		{name: "gradient of the loss", opsets: `"" : 13, "com.microsoft" : 1`,
			graph: `(float[2, 5] p, int64[2] l) => (y) { y = com.microsoft.SoftmaxCrossEntropyLossGrad(p, l) }`,
			read:  "SoftmaxCrossEntropyLossGrad of Deeploy's dialect", y: "float[2, 5]",
			why: "has 2 inputs, wanted 3 to 5"},
		{name: "gradient of a norm without statistics", opsets: `"" : 13, "com.microsoft" : 1`,
			graph: `(float[2, 5] d, float[2, 5] x, float[5] s, float[5] b) => (y) { y = com.microsoft.LayerNormalizationGrad(d, x, s, b) }`,
			read:  "LayerNormalizationGrad of Deeploy's dialect", y: "float[2, 5]", why: "has 1 outputs, wanted 3"},
		{name: "gradient of a norm, a bias that does not fit", opsets: `"" : 13, "com.microsoft" : 1`,
			graph:  `(float[2, 5] d, float[2, 5] x, float[5] s, float[2] b) => (y) { y = com.microsoft.LayerNormalizationGrad(d, x, s, b) }`,
			opaque: true, y: "?", why: "has 1 outputs"},
		{name: "other stated types alone", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[4] y> { y = Relu(x) }`,
			y: "float[3]"},
		{name: "no such operator", opsets: `"" : 17`, graph: `(float[3] x) => (y) <float[4] y> { y = Nonesuch(x) }`,
			y: "float[4]"},
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
			require.Equal(t, c.opaque, n.Fault() != nil)
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

			// A second time it is read the same way; and Infer refuses what is against the
			// definition.
			again, err := op.InferAsIs(m)
			require.NoError(t, err)
			require.Equal(t, res.Deviations[0].Read, again.Deviations[0].Read)
			_, err = op.Infer(m)
			if c.opaque && !strings.HasPrefix(c.name, "SGD") && c.name != "and wrong in both versions" &&
				c.name != "too new and wrong" {
				require.ErrorContains(t, err, c.why)
			}
			require.NoError(t, n.Fault())
		})
	}
}

// TestReadingVersion: what asks for the version of a node is told the one in which it is written.
func TestReadingVersion(t *testing.T) {
	m, err := graph.Parse(
		`<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 3] x) => (y) { a = Squeeze<axes = [1]>(x)  y = Unsqueeze<axes = [0]>(a)  z = Relu(a) }`,
		"g")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	for i, want := range []int{11, 11, 14} {
		n := m.Graph.Nodes[i]
		require.Equal(t, want, op.Of(n.Kind).VersionOf(n, m.OpsetVersion("")))
	}
}

// TestReadingInBodies: nodes of bodies are read as those of the main graph, and anew in every round
// of a loop.
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

// TestClashes: where the file states something else than an operator gives, the operator's word stands;
// of other elements the node says so to whoever would run it.
func TestClashes(t *testing.T) {
	for _, c := range []struct{ name, graph, y, clash string }{
		{"elements", `(float[4] a, float[4] b) => (y) <int8[4] y> { y = Add(a, b) }`, "float[4]",
			`node "Add#0" (Add-14): output 0 ("y") is float[4] by the operator's definition, and int8[4] in the file`},
		{"of a graph output", `(float[4] a) => (int64[4] y) { y = Relu(a) }`, "float[4]",
			`is float[4] by the operator's definition, and int64[4] in the file`},
		{"dims that the operator does not know", `(float[n] a) => (int8[7] y) { y = Relu(a) }`, "float[n]",
			`is float[n] by the operator's definition`},
		{"rank", `(float[4] a) => (float[2, 2] y) { y = Relu(a) }`, "float[4]", ""},
		{"form", `(float[4] a) => (seq(float) y) { y = Relu(a) }`, "float[4]", `and seq(float`},
		{"dims", `(float[4] a) => (float[5] y) { y = Relu(a) }`, "float[4]", ""},
		{"a number for a symbol", `(float[n] a) => (y) <float[1] y> { y = Relu(a) }`, "float[n]", ""},
		{"a number for what is unknown", `(float[n] a) => (y) <int64[1, 5] y> { y = NonZero(a) }`, "int64[1, 5]", ""},
		{"a symbol for a number", `(float[n] b, float[4] a) => (y) <float[n] y> { y = Relu(a) }`, "float[4]", ""},
		{"twice the symbol", `(float[n] a) => (y) <float[n] y> { y = Concat <axis = 0> (a, a) }`, "float[2*n]", ""},
		{"the larger of two", `(float[n] a, float[m] b) => (y) <float[n] y> { y = Add (a, b) }`, "float[n]", ""},
		{"a symbol of another input", `(float[n] a, float[1] b, float[t] c) => (y) <float[t] y> ` +
			`{ y = Concat <axis = 0> (a, b) }`, "float[t]", ""},
		{"elements of a sequence", `(float[4] a) => (seq(int64[4]) y) { y = SequenceConstruct(a) }`, "seq(float[4])",
			`is seq(float[4]) by`},
		{"nothing stated", `(float[4] a) => (y) { y = Relu(a) }`, "float[4]", ""},
		{"the first of two", `(float[4] a) => (y, z) <int8[2] y, int8[2] z> { y, z = Split(a) }`, "float[2]",
			`output 0 ("y")`},
		{"a rank that the operator does not know", `(float[] a) => (int8[7] y) { y = Relu(a) }`, "float[7]",
			`and int8[7] in the file`},
		{"elements that the operator leaves open",
			`(float16[4] a) => (float16[3] y) { y = com.microsoft.ReduceAllL2(a) }`, "float16", ""},
		{"elements that no rule knows", `(float[4] a) => (float16 y) { y = Mystery(a) }`, "float16", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g `+c.graph, "g")
			require.NoError(t, err)
			for range 2 { // the second time there is still the file's word
				res, err := op.InferAsIs(m)
				require.NoError(t, err)
				y, _ := m.Graph.Lookup("y")
				require.Equal(t, c.y, m.Graph.Values[y].Type.String())
				if n := m.Graph.Nodes[0]; c.clash == "" {
					require.NoError(t, n.Clash())
				} else {
					require.ErrorContains(t, n.Clash(), c.clash)
					require.NotEmpty(t, res.Conflicts)
					require.True(t, res.Conflicts[0].Refuted())
				}
			}
		})
	}
}

// TestSignatureChecks: what a schema has against a node comes from its version's signature, before
// any rule sees the node.
func TestSignatureChecks(t *testing.T) {
	for _, c := range []struct{ name, opset, graph, read, why string }{
		{"required input left out", "17", `(float[3] x) => (y) { y = Sub(, x) }`, "",
			`node "Sub#0" (Sub-14): input 0 is left out; the operator requires it`},
		{"first input left out", "17", `(float[3] x) => (y) { y = Gelu(, x) }`, "", "Gelu"},
		{"operand of several left out", "17", `(float[3] x) => (y) { y = Concat<axis = 0>(x, , x) }`, "",
			"input 1 is left out"},
		{"optional input left out", "17", `(float[3] x) => (y) { y = Clip(x, , x0) }`, "-", ""},
		{"required output left out", "17", `(float[3] x) => (i) <int64[1] k = {1}> { , i = TopK(x, k) }`, "",
			"output 0 is left out; the operator requires it"},
		{"optional later", "9", `(float[2, 3] x, float[3, 4] w) => (y) { y = Gemm(x, w) }`, "Gemm-11",
			"has 2 inputs, wanted 3"},
		{"too many for the version", "11", `(float[2, 3] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }`,
			"ReduceSum-13", "has 2 inputs, wanted 1"},
		{"too many for any version", "17", `(float[2, 3] x) => (y) { y = ReduceSum(x, x, x) }`, "",
			"has 3 inputs, wanted 1 to 2"},
		{"too many outputs for the version", "7",
			`(float[2, 2, 8, 8] x) => (y) { y, i = MaxPool<kernel_shape = [2, 2]>(x) }`, "", "has 2 outputs, wanted 1"},
		{"type of an operand that no rule looks at", "17", `(float[2, 3] x, float[1] a) => (y) { y = Squeeze(x, a) }`,
			"", "input 1 has type float, wanted int64"},
		{"types of one variable", "17", `(float[3] x, double[3] z) => (y) { y = Sum(x, z) }`, "",
			"input 0 has type float and input 1 has type double; they must be equal"},
		{"types that came later", "6", `(int32[3] x) => (y) { y = Relu(x) }`, "Relu-6",
			"input 0 has type int32, wanted float, float16 or double"},
		{"types that may differ later", "7", `(float[3] x, int32[3] z) => (y) { y = Pow(x, z) }`, "",
			"input 1 has type int32"},
		{"sequence for a tensor", "17", `(seq(float[3]) x) => (y) { y = Relu(x) }`, "", "input 0 has type seq(float"},
		{"tensor for a sequence", "17", `(float[3] x) => (y) { y = SequenceLength(x) }`, "",
			"wanted a sequence of any type"},
		{"attribute of another kind", "17", `(float[3] x) => (y) { y = LeakyRelu<alpha = 1>(x) }`, "",
			`attribute "alpha" holds an integer, wanted a float`},
		{"tensor attribute of another kind", "17", `() => (y) { y = Constant<value = 1>() }`, "",
			`attribute "value" holds an integer, wanted a tensor`},
		{"required attribute", "17", `(float[3] x) => (y) { y = Concat(x) }`, "",
			`lacks the attribute "axis", an integer`},
		{"an integer for a list", "17", `(float[3] x) => (y) { y = Transpose<perm = 0>(x) }`, "Transpose-13",
			"wanted a list of integers"},
		{"an output that nobody reads", "17", `(float[3] x) => (y) <int64[1] k = {1}> { y = TopK(x, k) }`, "-", ""},
		{"too many for the version, and not for the first", "11",
			`(float[6] x) => (y, z) <int64[2] k = {2, 4}> { y, z = Split<axis = 0>(x, k) }`, "Split-13",
			"has 2 inputs, wanted 1"},
		{"attribute that the schema does not have", "17", `(float[3] x) => (y) { y = Relu<axis = "?">(x) }`, "-", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(c.graph, "x0", "m")
			if text != c.graph {
				text = strings.Replace(text, "=> (y) {", "=> (y) <float m = {1}> {", 1)
			}
			m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : %s]> g %s`, c.opset, text), "g")
			require.NoError(t, err)
			res, err := op.InferAsIs(m)
			require.NoError(t, err)
			n := m.Graph.Nodes[0]
			require.Equal(t, c.read == "", n.Fault() != nil)
			if c.read == "-" {
				require.Empty(t, res.Deviations)
				return
			}
			require.Len(t, res.Deviations, 1)
			require.Equal(t, c.read, res.Deviations[0].Read)
			require.ErrorContains(t, res.Deviations[0].Why, c.why)
		})
	}
}
