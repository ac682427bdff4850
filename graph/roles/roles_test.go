package roles_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/roles"
	"memopt/internal/test/schematest"
)

// model reads the text of a graph and infers its types.
func model(t *testing.T, body string) *graph.Model {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> g `+body, "g")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	return m
}

// kindOf finds the role of a value by its name.
func kindOf(t *testing.T, m *graph.Model, name string, data ...string) roles.Role {
	t.Helper()
	r, err := roles.Find(m, data)
	require.NoError(t, err)
	v, ok := m.Graph.Lookup(name)
	require.True(t, ok, name)
	return r.Of(v)
}

// TestRules: the role of the initializer w follows from its readers and its contents.
func TestRules(t *testing.T) {
	parameter := roles.Role{Kind: roles.Parameter}
	constant := func(why string) roles.Role { return roles.Role{Kind: roles.Constant, Why: why} }
	number := constant("a single number")
	angles := constant("a table of sines and cosines")
	bound := constant("a bound of Clip")
	scale := roles.Role{Kind: roles.Scale, Why: "a scale of quantization"}
	zeros := constant("the initial state of a recurrence")
	for _, c := range []struct {
		name, w, nodes string
		want           roles.Role
	}{
		{"weight", "float[2, 2] w = {1, 2, 3, 4}", "y = MatMul(x, w)", parameter},
		{"scale of a norm", "float[2] w = {1, 1}", "y = RMSNormalization(x, w)", parameter},
		{"scale of columns", "float[2] w = {1, 1}", "y = Mul(x, w)", parameter},
		{"table of an embedding", "float[2, 2] w = {0, 1, 0.5, 2}", "y = Gather(w, ids)", parameter},
		{"transposed", "float[2, 2] w = {1, 2, 3, 4}", "t = Transpose(w)  y = MatMul(x, t)", parameter},

		{"exponent", "float w = {2}", "y = Pow(x, w)", constant("the exponent of Pow")},
		{"exponents of columns", "float[2] w = {2, 3}", "y = Pow(x, w)", constant("the exponent of Pow")},
		{"cast exponent", "float16 w = {0}", "e = Cast<to = 1>(w)  y = Pow(x, e)", constant("the exponent of Pow")},
		{"exponent and factor", "float[2] w = {2, 3}", "p = Pow(x, w)  y = Mul(p, w)", parameter},
		{"base", "float[2] w = {2, 3}", "y = Pow(w, x)", parameter},
		{"lower bound", "float w = {0}", "y = Clip(x, w)", bound},
		{"upper bound", "float w = {6}", "y = Clip(x, , w)", bound},
		{"epsilon", "float w = {0.00001}", "a = Add(x, w)  y = Sqrt(a)", number},
		{"epsilon of one dim", "float[1] w = {0.00001}", "a = Add(x, w)  r = Sqrt(a)  y = Div(x, r)", number},
		{"factor", "float w = {0.5}", "y = Mul(x, w)", number},
		{"factor in two dims", "float[1, 1] w = {0.5}", "y = Mul(x, w)", number},
		{"no elements to read", "float[2] w = {1, 2}", "y = Add(x, w)", parameter},

		{"bias of one column", "float[1] w = {0.5}", "p = MatMul(x, k)  y = Add(p, w)", parameter},
		{"bias behind a view", "float[1] w = {0.5}", "p = MatMul(x, k)  v = Identity(p)  y = Add(w, v)", parameter},
		{"number added to a product", "float[1] w = {0.5}", "p = MatMul(x, x)  y = Add(p, w)", number},
		{"number without dims added to a column", "float w = {0.5}", "p = MatMul(x, k)  y = Add(p, w)", number},
		{"number added to a column of data", "float[1] w = {0.5}",
			"p = Gather<axis = 1>(x, ids)  y = Add(p, w)", number},
		{"addend of Gemm", "float[1] w = {0.5}", "y = Gemm(x, k, w)", parameter},
		{"slope of PRelu", "float[1] w = {0.25}", "y = PRelu(x, w)", parameter},
		{"logarithm of a temperature", "float w = {2.6}", "e = Exp(w)  y = Mul(x, e)", parameter},
		{"gate", "float[1] w = {0}", "g = Tanh(w)  y = Mul(x, g)", parameter},
		{"number below a root", "float w = {2}", "r = Sqrt(w)  y = Mul(x, r)", number},

		{"running mean", "float[2] w = {0, 0}", "y = BatchNormalization(x, one, one, w, one)",
			roles.Role{Kind: roles.Statistic, Why: "a running mean"}},
		{"running variance", "float[2] w = {1, 1}", "y = BatchNormalization(x, one, one, one, w)",
			roles.Role{Kind: roles.Statistic, Why: "a running variance"}},
		{"scale of a norm of batches", "float[2] w = {1, 1}", "y = BatchNormalization(x, w, one, one, one)", parameter},
		{"scale of quantization", "float[2] w = {1, 1}",
			"d = DequantizeLinear<axis = 1>(q, w)  y = MatMul(x, d)", scale},
		{"scale that is divided by", "float w = {1}", "i = QuantizeLinear(x, w)  y = DequantizeLinear(i, w)", scale},
		{"fake quantization of a weight", "float[2, 2] w = {1, 2, 3, 4}",
			"i = QuantizeLinear(w, s)  d = DequantizeLinear(i, s)  y = MatMul(x, d)", parameter},
		{"fill of a pad", "float w = {0}", "y = Pad(x, pads, w)", constant("the fill of Pad")},

		{"mask of penalties", "float[2, 2] w = {0, -10000, 0, 0}", "y = Add(x, w)", constant("a mask")},
		{"mask of ones", "float[2, 2] w = {1, 0, 1, 1}", "y = Mul(x, w)", constant("a mask")},
		{"mask behind a cut", "float[1, 2, 2] w = {1, 0, 1, 1}", "c = Squeeze(w, first)  y = Mul(x, c)",
			constant("a mask")},
		{"ones are no mask", "float[2, 2] w = {1, 1, 1, 1}", "y = Mul(x, w)", parameter},
		{"zeros are no mask", "float[2, 2] w = {0, 0, 0, 0}", "y = Add(x, w)", parameter},
		{"a matrix of ones and zeros is a weight", "float[2, 2] w = {1, 0, 0, 1}", "y = MatMul(x, w)", parameter},
		{"9999 is no penalty", "float[2, 2] w = {0, -9999, 0, 0}", "y = Add(x, w)", parameter},
		{"cosines", "float[2, 2] w = {1, 1, 0.5403, 0.99995}", "r = Gather(w, ids)  y = Mul(x, r)", angles},
		{"sines and cosines", "float[2, 2] w = {0, 1, 0.84147, 0.5403}", "r = Gather(w, ids)  y = Add(x, r)", angles},
		{"no sines", "float[2, 2] w = {0, 1, 0.9, 0.5403}", "r = Gather(w, ids)  y = Add(x, r)", parameter},
		{"frequencies", "float[1, 2] w = {1, 0.01}",
			"c = Cast<to = 1>(ids)  u = Unsqueeze(c, last)  f = MatMul(u, w)  " +
				"a = Concat<axis = -1>(f, f)  k2 = Cos(a)  s2 = Sin(a)  y = Add(k2, s2)",
			constant("frequencies of an embedding of positions")},
		{"the first layer of a network of sines", "float[2, 2] w = {1, 2, 3, 4}",
			"p = MatMul(x, w)  y = Sin(p)", parameter},
		{"learned angles of positions are more than frequencies", "float[1, 2] w = {1, 0.01}",
			"c = Cast<to = 1>(ids)  u = Unsqueeze(c, last)  f = MatMul(u, w)  k2 = Cos(f)  y = Add(k2, f)", parameter},

		{"state of zeros", "float[1, 2, 2] w = {0, 0, 0, 0}", "y = GRU<hidden_size = 2>(x3, k3, k3, , , w)", zeros},
		{"learned state", "float[1, 2, 2] w = {0, 0, 0, 1}", "y = GRU<hidden_size = 2>(x3, k3, k3, , , w)", parameter},
		{"weights of a recurrence", "float[1, 6, 2] w = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}",
			"y = GRU<hidden_size = 2>(x3, w, k3)", parameter},
		{"inside a branch", "float w = {2}", "y = If(c0) <then_branch = t () => (float[N, 2] a) { a = Pow(x, w) }, " +
			"else_branch = e () => (float[N, 2] b) { b = Identity(x) }>", constant("the exponent of Pow")},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := model(t, `(float[N, 2] x, float[S, N, 2] x3, int64[N] ids, bool c0) => (y) <`+c.w+`,
				float[2, 1] k = {1, 2}, float[2] one = {1, 1}, float s = {0.1}, int8[2, 2] q = {1, 2, 3, 4},
				int64[4] pads = {0, 0, 0, 1}, int64[1] first = {0}, int64[1] last = {-1},
				float[1, 6, 2] k3 = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { `+c.nodes+` }`)
			require.Equal(t, c.want, kindOf(t, m, "w"))
		})
	}
}

// signature is how PyTorch's exporter notes the inputs of a program.
const signature = "\\n# inputs\\np_a: PARAMETER target='a'\\np_b: PARAMETER target='b'\\n" +
	"b_mean: BUFFER target='mean' persistent=True\\nc_0: CONSTANT_TENSOR target='lifted'\\n" +
	"x: USER_INPUT\\n\\n# outputs\\ny: USER_OUTPUT\\n"

// TestSignature: in a file with the signature of a program, that alone counts.
func TestSignature(t *testing.T) {
	m := model(t, `(float[N, 2] x) => (y) <float[2] a = {1, 2}, float[2] mean = {1, 2}, float[2] lifted = {3, 4},
		float[2] val_1 = {5, 6}> { p = Mul(x, a)  q = Sub(p, mean)  r = Mul(q, lifted)  y = Mul(r, val_1) }`)
	require.Equal(t, roles.Parameter, kindOf(t, m, "val_1").Kind)
	m.Graph.Metadata = []graph.Property{{Key: "pkg.torch.export.ExportedProgram.graph_signature",
		Value: strings.ReplaceAll(signature, `\n`, "\n")}}
	for name, kind := range map[string]roles.Kind{"a": roles.Parameter, "mean": roles.Buffer,
		"lifted": roles.Constant, "val_1": roles.Constant, "x": roles.Data} {
		require.Equal(t, kind, kindOf(t, m, name).Kind, name)
	}
	r, err := roles.Find(m, nil)
	require.NoError(t, err)
	require.Equal(t, []roles.Change{{Kind: roles.Folded, Names: []string{"b"}}}, r.Exported)
}

// TestScripted: in a file of torch.onnx.export(dynamo=False), a single number with a path of modules for its
// name is a parameter, unless its readers fix its role. Buffers of transformers are known by their names.
func TestScripted(t *testing.T) {
	m := model(t, `(float[N, 2] x) => (y) <float "head.scale" = {2}, float[1] "onnx::Mul_7.1" = {3},
		float "head.power" = {2}, float alone = {4}, float[1, 2] "m.final_logits_bias" = {0, 0}> {
		p = Mul(x, "head.scale")  q = Mul(p, "onnx::Mul_7.1")  r = Pow(q, "head.power")  s = Mul(r, alone)
		y = Add(s, "m.final_logits_bias") }`)
	kinds := func(scale, bias roles.Kind) {
		for name, kind := range map[string]roles.Kind{"head.scale": scale, "onnx::Mul_7.1": roles.Constant,
			"head.power": roles.Constant, "alone": roles.Constant, "m.final_logits_bias": bias} {
			require.Equal(t, kind, kindOf(t, m, name).Kind, name)
		}
	}
	kinds(roles.Constant, roles.Parameter)
	m.ProducerName = "pytorch"
	kinds(roles.Parameter, roles.Buffer)
	signed(m, "p_other: PARAMETER target='other'")
	kinds(roles.Constant, roles.Constant)
}

// TestRecord: Carry records the roles that Find would misjudge in a new file, and Find obeys the record.
func TestRecord(t *testing.T) {
	from := model(t, `(float[N, 2] x) => (y) <float[2] w = {1, 2}> {
		k = Constant<value = float[2] {3, 4}>()  t = Mul(w, k)  p = Mul(x, t)  y = Mul(p, k) }`)
	to := model(t, `(float[N, 2] x) => (y) <float[2] t = {3, 8}, float[2] k = {3, 4}> { p = Mul(x, t)  y = Mul(p, k) }`)
	require.Equal(t, roles.Parameter, kindOf(t, to, "k").Kind)
	require.NoError(t, roles.Carry(from, to))
	require.Equal(t, roles.Constant, kindOf(t, to, "k").Kind)
	require.Equal(t, roles.Parameter, kindOf(t, to, "t").Kind)
	text, _ := to.Meta(roles.RecordKey)
	require.JSONEq(t, `{"schema": "memopt.roles/v1", "constants": ["k"], "parameters": []}`, text)
	schema := schematest.Load(t, schematest.Folder(t), "roles")
	require.NoError(t, schema.Validate([]byte(text)))

	again := model(t, `(float[N, 2] x) => (y) <float[2] t = {3, 8}, float[2] k = {3, 4}> {
		p = Mul(x, t)  y = Mul(p, k) }`)
	require.NoError(t, roles.Carry(to, again), "a record is carried on")
	require.Equal(t, roles.Constant, kindOf(t, again, "k").Kind)

	signed := []graph.Property{{Key: "pkg.torch.export.ExportedProgram.graph_signature",
		Value: "\n# inputs\np_w: PARAMETER target='w'\n"}}
	from.Graph.Metadata, to.Graph.Metadata, to.Metadata = signed, signed, nil
	require.NoError(t, roles.Carry(from, to))
	text, _ = to.Meta(roles.RecordKey)
	require.JSONEq(t, `{"schema": "memopt.roles/v1", "constants": [], "parameters": ["t"]}`, text,
		"a file with a signature says nothing of what was computed of its weights")
	require.NoError(t, schema.Validate([]byte(text)))

	to.SetMeta(roles.RecordKey, `{"schema": "memopt.roles/v2"}`)
	_, err := roles.Find(to, nil)
	require.ErrorContains(t, err, `metadata memopt.roles: wanted JSON of schema "memopt.roles/v1"`)
}

// TestInputs: static float inputs are data where something says so.
func TestInputs(t *testing.T) {
	const nodes = " { h = MatMul(x, w)  y = Sub(h, l) }"
	for _, c := range []struct {
		name, inputs, init string
		data               []string
		want               map[string]roles.Kind
		guessed            int
	}{
		{"all static, weights in the file", "float[7, 2] x, float[7, 2] l", "float[2, 2] w = {1, 2, 3, 4}", nil,
			map[string]roles.Kind{"x": roles.Data, "l": roles.Data, "w": roles.Parameter}, 0},
		{"all static, no weights", "float[7, 2] x, float[7, 2] l, float[2, 2] w", "", nil,
			map[string]roles.Kind{"x": roles.Parameter, "l": roles.Parameter, "w": roles.Parameter}, 3},
		{"data has names", "float[7, 2] x, float[7, 2] l, float[2, 2] w", "", []string{"x", "l"},
			map[string]roles.Kind{"x": roles.Data, "l": roles.Data, "w": roles.Parameter}, 0},
		{"a symbol", "float[N, 2] x, float[7, 2] l, float[2, 2] w", "", nil,
			map[string]roles.Kind{"x": roles.Data, "l": roles.Parameter, "w": roles.Parameter}, 0},
		{"a default is a weight", "float[7, 2] x, float[7, 2] l, float[2, 2] w = {1, 2, 3, 4}", "", nil,
			map[string]roles.Kind{"x": roles.Data, "l": roles.Data, "w": roles.Parameter}, 0},
		{"data for what has a default", "float[7, 2] x, float[7, 2] l, float[2, 2] w = {1, 2, 3, 4}", "", []string{"x",
			"w"},
			map[string]roles.Kind{"x": roles.Data, "l": roles.Parameter, "w": roles.Data}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			init := ""
			if c.init != "" {
				init = "<" + c.init + ">"
			}
			m := model(t, `(`+c.inputs+`) => (y) `+init+nodes)
			r, err := roles.Find(m, c.data)
			require.NoError(t, err)
			require.Len(t, r.Guessed, c.guessed)
			for name, kind := range c.want {
				require.Equal(t, kind, kindOf(t, m, name, c.data...).Kind, name)
			}
		})
	}
}
