package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"memopt/bench/gpu/stages"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/ort"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"memopt":    main,
		"gpuverify": func() { os.Exit(stages.Main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// ownProgram is a file that runs as memopt: the program of the tests under that name.
func ownProgram(t testing.TB) string {
	own, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "memopt")
	require.NoError(t, os.Symlink(own, program))
	return program
}

// forwardModels are files that every script finds in its folder.
var forwardModels = map[string]string{
	"forward.onnx": `forward (float[batch, 8] x, int64[batch] labels, float[16, 8] 'fc1.weight', float[16] 'fc1.bias', float[4, 16] 'fc2.weight') => (float loss, float[batch, 4] scores) {
		h = Gemm<transB = 1>(x, 'fc1.weight', 'fc1.bias')  r = Relu(h)  scores = Gemm<transB = 1>(r, 'fc2.weight')  loss = SoftmaxCrossEntropyLoss(scores, labels) }`,
	"other.onnx": `other (float[batch, 8] x, int64[batch] labels, float[16, 8] 'fc1.weight', float[16] 'fc1.bias', float[4, 16] 'fc2.weight') => (float loss, float[batch, 4] scores) {
		h = Gemm<transB = 1>(x, 'fc1.weight', 'fc1.bias')  r = Tanh(h)  scores = Gemm<transB = 1>(r, 'fc2.weight')  loss = SoftmaxCrossEntropyLoss(scores, labels) }`,
	"written.onnx": `written (float[batch, 64] x, float[64, 64] w, float[64] b) => (float loss) <float r = {1.4142135}, float one = {1}, float half = {0.5}, float two = {2}, float eps = {1e-5}> {
		n = MatMul(x, w)  u = ReduceMean<axes = [-1]>(n)  d = Sub(n, u)  p = Pow(d, two)  v = ReduceMean<axes = [-1]>(p)  q = Add(v, eps)  s = Sqrt(q)  h = Div(d, s)  k = Mul(h, b)
		g = Div(k, r)  e = Erf(g)  a = Add(e, one)  m = Mul(k, a)  y = Mul(m, half)  loss = ReduceMean<keepdims = 0>(y) }`,
	"square.onnx": `square (float[batch, 64] x, float[64, 64] a, float[64, 64] b, float[64, 64] c, float[64, 64] d) => (float loss) {
		p = MatMul(x, a)  q = Tanh(p)  r = MatMul(q, b)  s = Tanh(r)  t = MatMul(s, c)  u = Tanh(t)  v = MatMul(u, d)  w = Tanh(v)  loss = ReduceMean<keepdims = 0>(w) }`,
	"head.onnx": `head (float[rows, 32] x, int64[rows] labels, float[32, 32] w, float[32, classes] scores) => (float loss) {
		h = MatMul(x, w)  r = Tanh(h)  l = MatMul(r, scores)  loss = SoftmaxCrossEntropyLoss<ignore_index = 0>(l, labels) }`,
	"noloss.onnx": `noloss (float[batch, 8] x, float[8] w) => (float[batch, 8] y) { y = Mul(x, w) }`,
	"norule.onnx": `norule (float[batch, 8] x, float[8] w) => (float loss) { y = Mul(x, w)  u = Unique(y)  loss = ReduceSum<keepdims = 0>(u) }`,
	"wide.onnx": `wide (float[64] x) => (float loss, float[1] g) {
		y = Exp(x)  loss = ReduceMean<keepdims = 0>(y)  a = Concat<axis = 0>(y, y)  b = Concat<axis = 0>(y, y)
		ra = ReduceMax(a)  rb = ReduceMax(b)  g = Add(ra, rb) }`,
	"conv.onnx": `conv (float[1, 4, 7, 7] x, float[3, 4, 3, 3] 'conv.weight') => (float loss, float[1, 3, 4, 4] y) {
		y = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, 'conv.weight')  loss = ReduceMean<keepdims = 0>(y) }`,
	"pads.onnx": `pads (float[1, 4, 7, 7] x, float[3, 4, 3, 3] 'conv.weight') => (float loss) {
		y = Conv<pads = [1, 1, 1, 1]>(x, 'conv.weight')  z = Conv<pads = [0, 1, 2, 1]>(x, 'conv.weight')  d = Sub(y, z)  loss = ReduceMean<keepdims = 0>(d) }`,
	"long.onnx": `long (float[1, 1, 2048, 1024] x, float[1, 1, 1, 1] 'conv.weight') => (float loss, float[1, 1, 32, 16] y) {
		y = Conv<strides = [64, 64]>(x, 'conv.weight')  loss = ReduceMean<keepdims = 0>(y) }`,
	"strange.onnx": `strange (float[2] x) => (float[2] y) { y = Mystery(x) }`,
	"branch.onnx": `branch (float[n, 1, 4] x, float[4] w) => (float loss) {
		s = Shape(x)  one = Constant<value_ints = [1]>()  d = Gather(s, one)  is = Equal(d, one)
		q = If<then_branch = then () => (float[then_0, then_1] r) { r = Squeeze(x, one) },
			else_branch = else () => (float[never_0, never_1, never_2] r) { z = Identity(x)  r = Tanh(z) }>(is)
		y = Mul(q, w)  t = Tanh(y)  loss = ReduceMean<keepdims = 0>(t) }`,
	"labelled.onnx": `labelled (float[4, 8] x, int64[4] labels, float[8, 3] w) => (float loss) {
		h = MatMul(x, w)  loss = SoftmaxCrossEntropyLoss(h, labels) }`,
	// Dims by the names that ORTModule gives them, one of two equal ones kept.
	"named.onnx": `named (float[a_dim0, ids_dim1] ids, float[a_dim0] labels, float[3] w) => (float loss) {
		r = ReduceSum<keepdims = 0>(ids)  l = ReduceSum<keepdims = 0>(labels)  s = ReduceSum<keepdims = 0>(w)
		a = Mul(r, l)  loss = Mul(a, s) }`,
	"static.onnx": `static (float[2] x) => (float loss) { y = Exp(x)  loss = ReduceMean<keepdims = 0>(y) }`,
	"many.onnx":   `many (float[s00, s01, s02, s03, s04, s05, s06, s07, s08, s09, s10, s11, s12] x) => (float loss) { y = Exp(x)  loss = ReduceMean<keepdims = 0>(y) }`,
	"label.onnx":  `label (float[n] x) => (float loss) <float[unk__1] y> { y = Exp(x)  loss = ReduceMean<keepdims = 0>(y) }`,
	// Sigmoid with two operands, and a Squeeze of an older operator set.
	"broken.onnx": `broken (float[4, 8] x, int64[4] labels, float[8, 8] w) => (float loss, float[8, 8] g) <float[4, 8] b> {
		h = Tanh(x)  a = MatMul(h, w)  b = Sigmoid(a, w)  u = Unsqueeze<axes = [0]>(b)  c = Squeeze<axes = [0]>(u)  loss, p = SoftmaxCrossEntropyLoss(c, labels)
		d = Mul(p, b)  e = Mul(d, a)  ht = Transpose(h)  g = MatMul(ht, e) }`,
	"loop.onnx": `loop (float[64, 32] x, float[32] w) => (float loss) <int64 three = {3}, bool yes = {1}> {
		a = Mul(x, w)  b = Tanh(a)
		c = Loop(three, yes, b) <body = l (int64 i, bool more, float[64, 32] s) => (bool again, float[64, 32] u) { again = Identity(more)  p = Mul(s, w)  q = Exp(p)  u = Tanh(q) }>
		d = Exp(c)  loss = ReduceMean<keepdims = 0>(d) }`,
	"rows.onnx": `rows (float[n, 8] x, float[8, 8] w) => (float loss, float[m, 8] g) <int64[2, unk__85] where, float[n, unk__86] h> {
		h = MatMul(x, w)  r = Relu(h)  where = NonZero(r)  count = Cast<to = 1>(where)  loss = ReduceMean<keepdims = 0>(r)
		a = Mul(r, h)  total = ReduceSum<keepdims = 0>(count)  g = Mul(a, total) }`,
	"weights.onnx": `weights (float[4] x) => (float loss) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w)  t = Tanh(y)  loss = ReduceMean<keepdims = 0>(t) }`,
	// What the file says of y contradicts Add; s and k are outputs that no node makes.
	"clash.onnx":     `clash (float[4] x, float[4] w) => (float loss) <int8[4] y> { y = Add(x, w)  t = Tanh(y)  loss = ReduceMean<keepdims = 0>(t) }`,
	"bodyinput.onnx": `bodyinput (float[4] x) => (float loss) <int64 n = {2}, bool c = {1}> { y = Loop<body = l (int64 i, bool m, int8[4] s) => (bool m2, float[4] u) { m2 = Identity(m)  u = Tanh(s) }>(n, c, x)  loss = ReduceMean<keepdims = 0>(y) }`,
	"inside.onnx":    `inside (bool c, float[4] x) => (float loss) { y = If<then_branch = t () => (int8[4] z) { z = Relu(x) }, else_branch = e () => (float[4] w) { w = Tanh(x) }>(c)  loss = ReduceMean<keepdims = 0>(y) }`,
	"leftout.onnx":   `leftout (float[4] x) => (float loss) <float[4] y> { y = Sub(, x)  t = Tanh(y)  loss = ReduceMean<keepdims = 0>(t) }`,
	"given.onnx":     `given (float[4] x, float s) => (float s, float k, float loss) <float k = {2}> { y = Exp(x)  z = Mul(y, s)  loss = ReduceMean<keepdims = 0>(z) }`,
	"givenloss.onnx": `givenloss (float[4] x, float s) => (float s) { y = Exp(x) }`,
	// A step of another tool: the name of an output tells whose next value it is.
	"stateful.onnx": `stateful (float[8] x, float[8] w, float[8] v, float[4] m) => (float[8] w_updated, float[4] next) {
		vx = Mul(v, x)  w_updated = Sub(w, vx)  next = Exp(m) }`,
	// A classifier with all its weights, as an exporter writes it: what is constant is computed in every run, a norm
	// stands alone behind a product, and the head reads the table of embeddings transposed.
	"classifier.onnx": `classifier (int64[batch, 4] ids) => (float[batch, 6] scores)
		<float[6, 4] table = {0.1, -0.4, 0.7, 0.2, 0.9, -0.3, 0.5, -0.8, 0.6, 0.3, -0.2, 0.4, -0.7, 0.1, 0.8, -0.5, 0.2, 0.9, -0.6, 0.3, -0.1, 0.5, 0.4, -0.9},
		float[4, 4] w = {0.5, -0.2, 0.1, 0.7, -0.6, 0.3, 0.8, -0.1, 0.2, 0.9, -0.4, 0.3, 0.6, -0.7, 0.5, 0.1},
		float[4] b = {0.1, 0.2, -0.1, 0.3}, float[4] s = {1.5, 0.5, 1, 2}, float[4] t = {0, 0.1, 0.2, -0.3},
		float[4] m = {0.1, -0.1, 0.2, 0}, float[4] v = {0.5, 1, 2, 0.8}> {
		e = Gather (table, ids)
		sum = ReduceMean <axes = [1], keepdims = 0> (e)
		p = MatMul (sum, w)  q = Add (p, b)
		n = BatchNormalization (q, s, t, m, v)
		half = Constant <value_float = 0.5> ()  one = Constant <value_float = 1.0> ()
		root = Constant <value_float = 1.4142135> ()
		d = Div (n, root)  f = Erf (d)  g = Add (f, one)  h = Mul (n, g)  a = Mul (h, half)
		k = Identity (a)
		swapped = Transpose (table)
		scores = MatMul (k, swapped) }`,
	"normed.onnx": `normed (float[batch, 2, 3] x) => (float[batch, 2, 3] y)
		<float[2, 2, 1] w = {1, 2, 3, 4}, float[2] s = {1, 2}, float[2] t = {0, 1}, float[2] m = {0.5, 0}, float[2] v = {1, 2}> {
		c = Conv (x, w)  y, mean, var = BatchNormalization <training_mode = 1> (c, s, t, m, v) }`,
	// Dims of values that are left from another size, and the same without them.
	"stale.onnx": `stale (float[batch, 4] x, float[4, 4] w) => (float loss) <float[1, 4] h, float[1, 4] a> { h = MatMul(x, w)  a = Tanh(h)  loss = ReduceMean<keepdims = 0>(a) }`,
	"fresh.onnx": `stale (float[batch, 4] x, float[4, 4] w) => (float loss) { h = MatMul(x, w)  a = Tanh(h)  loss = ReduceMean<keepdims = 0>(a) }`,
	// Texts, as in front of a model that splits them into tokens.
	"strings.onnx": `strings (string[n] s, float[n, 4] x, float[4, 4] w) => (float loss) {
		p, q = StringSplit<delimiter = ",">(s)  c = Cast<to = 1>(q)  u = Unsqueeze<axes = [1]>(c)  h = MatMul(x, w)  y = Mul(h, u)  loss = ReduceMean<keepdims = 0>(y) }`,
	// A value that moves to the host and back beside a larger one, and the same without moves.
	"stayed.onnx": `net (float[64, 64] x) => (float loss) <int64[2] reps = {4, 1}> {
		a = Exp(x)  b = Neg(a)  wide = Tile(b, reps)  least = ReduceMax<axes = [0], keepdims = 1>(wide)
		y = Add(a, least)  loss = ReduceMean<keepdims = 0>(y) }`,
	"away.onnx": `net (float[64, 64] x) => (float loss) <int64[2] reps = {4, 1}> {
		a = Exp(x)  far = memopt.Offload(a)  b = Neg(a)  there = memopt.Wait(far, a)
		wide = Tile(b, reps)  least = ReduceMax<axes = [0], keepdims = 1>(wide)
		coming = memopt.Reload(there)  back = memopt.Wait(coming, there)
		y = Add(back, least)  loss = ReduceMean<keepdims = 0>(y) }`,
	"unused.onnx": `unused (float[8] x, float[8] w, float[3] idle) => (float loss, float[3] other) { y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y)  other = Neg(idle) }`,
}

func writeForward(dir string) error {
	for name, text := range forwardModels {
		text = strings.ReplaceAll(text, "'", `"`) // names with dots stand in quotes
		m, err := graph.Parse("<ir_version: 8, opset_import: [\"\" : 17]> "+text, name)
		if err != nil {
			return err
		}
		if strings.Contains(text, "memopt.") {
			op.Import(m, op.DomainMemopt)
		}
		if err := onnx.WriteFile(filepath.Join(dir, name), m, onnx.Options{}); err != nil {
			return err
		}
	}
	return nil
}

// TestScripts runs the command lines of testdata/script. A script that needs sample models beside
// the repository says [samples], or [deeploy] for Deeploy's training graphs, one that needs ONNX
// Runtime says [ort]; without them the condition is false and the script skips. UPDATE_SCRIPTS=1
// rewrites the expected output.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("../../../shared/models")
	if err != nil {
		t.Fatal(err)
	}
	deeploy, err := filepath.Abs("../../../shared/deeploy")
	if err != nil {
		t.Fatal(err)
	}
	library := findORT(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", samples)
			env.Setenv("DEEPLOY", deeploy)
			env.Setenv(ort.LibraryVariable, library)
			return writeForward(env.WorkDir)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "samples":
				_, err := os.Stat(samples)
				return err == nil, nil
			case "deeploy":
				_, err := os.Stat(deeploy)
				return err == nil, nil
			case "ort":
				return library != "", nil
			}
			if cond == "double" {
				return option.Backends["double"] != nil, nil
			}
			return false, nil
		},
	})
}

// findORT returns ONNX Runtime's library, or "" and a line in the log that says how to get it.
func findORT(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := ort.Start(t.Context(), cli.OrtProgram(path))
	var missing *ort.MissingError
	switch {
	case errors.As(err, &missing) && os.Getenv("ORT_NODE_DIR") == "":
		t.Log("parts of scripts that say [ort] are left out: ", err)
		return ""
	case err != nil:
		t.Fatal(err)
	}
	defer p.Close()
	return p.Info().Path
}

// needORT is findORT for tests that are nothing without it.
func needORT(t *testing.T) string {
	t.Helper()
	library := findORT(t)
	if library == "" {
		t.Skip("ONNX Runtime is missing: npm install --ignore-scripts onnxruntime-node@1.30.0, then ORT_NODE_DIR " +
			"names the folder")
	}
	return library
}
