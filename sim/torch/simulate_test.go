package torch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/modules"
	"memopt/graph/op"
	torchsim "memopt/sim/torch"
)

// build builds the step of a model in the textual syntax, whose parameters begin with w.
func build(t *testing.T, text string) (*torchsim.Program, error) { return buildAt(t, 17, text) }

// buildAt is build with another operator set.
func buildAt(t *testing.T, opset int, text string) (*torchsim.Program, error) {
	t.Helper()
	m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : %d]> %s`, opset, text), "m")
	require.NoError(t, err)
	types, err := op.InferAsIs(m)
	require.NoError(t, err)
	tree, err := modules.Read(m, nil)
	require.NoError(t, err)
	var wrt []string
	for _, d := range m.Graph.Inputs {
		if name := m.Graph.ValueName(d.Value); name[0] == 'w' {
			wrt = append(wrt, name)
		}
	}
	return torchsim.Build(m, types, torchsim.Options{Tree: tree, Wrt: wrt, Loss: "loss"})
}

// layers is a program of two modules and a sum. Bytes: x 1024, w1 and w2 256, all between 1024.
const layers = `m (float[32, 8] x, float[8, 8] w1, float[8, 8] w2) => (float loss) {
	["/a/fc/Gemm"] a = Gemm (x, w1)
	["/a/act/Tanh"] b = Tanh (a)
	["/b/fc/Gemm"] c = Gemm (b, w2)
	["/b/act/Exp"] d = Exp (c)
	["/Sum"] loss = ReduceSum <keepdims = 0> (d)
}`

// TestByHand: saved bytes and peaks, worked out by hand.
func TestByHand(t *testing.T) {
	p, err := build(t, layers)
	require.NoError(t, err)
	require.Equal(t, int64(1024+2*256), p.Held)
	require.Equal(t, int64(2*1024), p.Saved(), "tanh's and exp's results")
	u := p.Simulate(nil)
	// In the backward of the second product: tanh's result, the incoming gradient, those of both factors, and
	// the gradient of the loss is gone.
	require.Equal(t, p.Held+1024+1024+1024+256, u.Peak)
	require.Equal(t, "addmm_backward", p.Steps[u.At].Op)
	require.Equal(t, int64(2*1024), u.Saved, "of the loss autograd keeps its sizes alone")
	require.Equal(t, int64(2<<20), u.Blocks)
	require.False(t, u.Again)

	call := func(name string) int32 { return callOf(t, p, name) }
	// Under a checkpoint the first module keeps x, which is there anyway; tanh's result is kept by the second one.
	u = p.Simulate([]int32{call("a")})
	require.Equal(t, int64(2*1024), u.Saved)
	u = p.Simulate([]int32{call("a"), call("b")})
	require.Equal(t, int64(1024), u.Saved, "what b reads")
}

// callOf is the call of a module.
func callOf(t *testing.T, p *torchsim.Program, name string) int32 {
	for i, c := range p.Tree.Calls {
		if p.Tree.Modules[c.Module].Name == name {
			return int32(i)
		}
	}
	t.Fatal(name)
	return -1
}

// again lists which steps run again, in order, and what is live then, less what is held anyhow.
func again(p *torchsim.Program, s *torchsim.Simulator, calls ...int32) ([]string, []int64, torchsim.Usage) {
	var steps []string
	var live []int64
	u := s.Run(calls)
	last, backward := -1, false
	s.Live(func(step int, bytes int64) {
		if backward && step < p.Backward {
			steps, live = append(steps, p.Steps[step].Op), append(live, bytes-p.Held)
		}
		last = step
		backward = backward || last == p.Backward-1
	})
	return steps, live, u
}

// TestNested: up to 2.0 a checkpoint in another one keeps its inputs from the forward half on, and runs again with the
// other one, which leaves nothing of it, and by itself. From 2.1 on it finds them in the other one, which runs first.
func TestNested(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8, 8] w2) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/in/Tanh"] b = Tanh (a)
	["/a/in/Exp"] c = Exp (b)
	["/a/Gemm_1"] d = Gemm (c, w2)
	["/a/Sigmoid"] e = Sigmoid (d)
	["/Sum"] loss = ReduceSum <keepdims = 0> (e)
}`)
	require.NoError(t, err)
	const size, one = 1024, 4
	outer, inner := callOf(t, p, "a"), callOf(t, p, "a.in")
	s := p.Simulator()
	p.Stacked = false
	steps, _, plain := again(p, s, outer)
	require.Equal(t, []string{"addmm", "tanh", "exp", "addmm", "sigmoid"}, steps)
	require.Zero(t, plain.Saved)

	steps, live, u := again(p, s, outer, inner)
	require.Equal(t, []string{"addmm", "tanh", "exp", "addmm", "sigmoid", "tanh", "exp"}, steps)
	require.Equal(t, int64(size), u.Saved, "what the inner one reads is kept")
	base := int64(size + one) // the gradient of the sum is one number
	require.Equal(t, base+3*size, live[2], "the product and tanh's result are of no use, the first as an argument")
	// The second product ends the life of what it reads but for exp's result.
	require.Equal(t, base+3*size, live[3])
	require.Equal(t, base+4*size, live[4])
	swapped := p.Simulate([]int32{inner, outer})
	require.Equal(t, u, swapped)

	p.Stacked = true
	steps, live, u = again(p, s, outer, inner)
	require.Equal(t, []string{"addmm", "tanh", "exp", "addmm", "sigmoid", "tanh", "exp"}, steps)
	require.Zero(t, u.Saved, "what the inner one reads is found again")
	require.Equal(t, base+3*size, live[4], "the argument that runs again serves both")
}

// TestStackedOrder: a checkpoint whose inner one is needed first runs again itself only where they are stacked.
func TestStackedOrder(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Sigmoid"] e = Sigmoid (a)
	["/a/in/Tanh"] b = Tanh (e)
	["/a/in/Exp"] c = Exp (b)
	["/Sum"] loss = ReduceSum <keepdims = 0> (c)
}`)
	require.NoError(t, err)
	outer, inner := callOf(t, p, "a"), callOf(t, p, "a.in")
	p.Stacked, p.Early = false, false
	steps, _, _ := again(p, p.Simulator(), outer, inner)
	require.Equal(t, []string{"tanh", "exp", "addmm", "sigmoid", "tanh", "exp"}, steps)
	p.Stacked = true
	steps, _, _ = again(p, p.Simulator(), outer, inner)
	require.Equal(t, []string{"addmm", "sigmoid", "tanh", "exp", "tanh", "exp"}, steps)
	p.Early = true
	steps, _, _ = again(p, p.Simulator(), outer, inner)
	require.Equal(t, []string{"addmm", "sigmoid", "tanh", "exp"}, steps, "all that the outer one saves is there before")
}

// TestVersions: from which version on checkpoints are stacked.
func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{"1.13.1": false, "2.0.1": false, "2.1.0+cpu": true, "2.10.0": true,
		"3.0": true, "": true, "nightly": true, "1.9": false} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch", producer_version: "`+
			version+`"> `+layers, "m")
		require.NoError(t, err)
		types, err := op.InferAsIs(m)
		require.NoError(t, err)
		tree, err := modules.Read(m, nil)
		require.NoError(t, err)
		p, err := torchsim.Build(m, types, torchsim.Options{Tree: tree, Wrt: []string{"w1", "w2"}, Loss: "loss"})
		require.NoError(t, err)
		require.Equal(t, want, p.Stacked, version)
		require.Equal(t, want, p.Early, version)
	}
}

// TestTwoReaders: gradients of what two operators read are added up in place; a parameter that is used twice has
// one gradient.
func TestTwoReaders(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Gemm_1"] b = Gemm (a, w1)
	["/a/Mul"] c = Mul (b, a)
	["/Sum"] loss = ReduceSum <keepdims = 0> (c)
}`)
	require.NoError(t, err)
	sums := 0
	for _, s := range p.Steps {
		if s.Op == "add_" {
			sums++
		}
		require.NotEqual(t, "add", s.Op)
	}
	require.Equal(t, 2, sums)
	var kept int64
	for _, s := range p.Storages {
		if s.Kept {
			kept += s.Bytes
		}
	}
	require.Equal(t, int64(256), kept)
}

// ops lists what runs in the backward half.
func ops(p *torchsim.Program) (list []string) {
	for _, s := range p.Steps[p.Backward:] {
		list = append(list, s.Op)
	}
	return list
}

// makes are the bytes that the first step of a name makes.
func makes(t *testing.T, p *torchsim.Program, op string) (bytes, work int64) {
	t.Helper()
	for _, s := range p.Steps {
		if s.Op != op {
			continue
		}
		for _, id := range s.Makes {
			bytes += p.Storages[id].Bytes
		}
		return bytes, s.Work
	}
	t.Fatal(op)
	return 0, 0
}

// TestSharedGradients: a sum hands one gradient to both summands. What is added to it while the other one still has
// it goes elsewhere, and a parameter takes a copy.
func TestSharedGradients(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8, 8] w2) => (float loss) {
	["/a/Gemm"] p = Gemm (x, w1)
	["/a/Gemm_1"] q = Gemm (x, w2)
	["/a/Tanh"] r = Tanh (p)
	["/a/Add"] s = Add (p, q)
	["/a/Mul"] m = Mul (s, r)
	["/Sum"] loss = ReduceSum <keepdims = 0> (m)
}`)
	require.NoError(t, err)
	require.Contains(t, ops(p), "add")
	require.NotContains(t, ops(p), "add_")

	p, err = build(t, `m (float[8, 8] x, float[8, 8] w1, float[8, 8] w2) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Add"] b = Add (a, w2)
	["/a/Tanh"] c = Tanh (b)
	["/Sum"] loss = ReduceSum <keepdims = 0> (c)
}`)
	require.NoError(t, err)
	require.Contains(t, ops(p), "clone")
}

// TestBroadcast: the gradient of what was broadcast is a sum of its own size; that of a difference's second operand
// is made anew.
func TestBroadcast(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8] w2, float[32, 8] w3) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Add"] b = Add (a, w2)
	["/a/Sub"] c = Sub (b, w3)
	["/Sum"] loss = ReduceSum <keepdims = 0> (c)
}`)
	require.NoError(t, err)
	bytes, _ := makes(t, p, "add_backward")
	require.Equal(t, int64(8*4), bytes)
	bytes, _ = makes(t, p, "sub_backward")
	require.Equal(t, int64(32*8*4), bytes)
}

// TestCopies: a view that strides do not allow is a copy, which reads what it copies; a transposed convolution computes
// by columns.
func TestCopies(t *testing.T) {
	p, err := build(t, `m (float[4, 8] x, float[8, 8] w1) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Transpose"] b = Transpose <perm = [1, 0]> (a)
	["/a/Flatten"] c = Flatten <axis = 0> (b)
	["/Sum"] loss = ReduceSum <keepdims = 0> (c)
}`)
	require.NoError(t, err)
	for _, s := range p.Steps {
		if s.Op == "reshape" {
			require.Len(t, s.Makes, 1)
			require.Len(t, s.Reads, 1)
		}
	}
	bytes, _ := makes(t, p, "reshape")
	require.Equal(t, int64(4*8*4), bytes)

	p, err = build(t, `m (float[2, 3, 5, 5] x, float[3, 4, 2, 2] w1) => (float loss) {
	["/a/ConvTranspose"] a = ConvTranspose (x, w1)
	["/Sum"] loss = ReduceSum <keepdims = 0> (a)
}`)
	require.NoError(t, err)
	_, work := makes(t, p, "convolution")
	require.Equal(t, int64(4*2*2*5*5*4), work)
}

// TestResultsOfReruns: what a module returns lives until all of it has run again.
func TestResultsOfReruns(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8, 64] w2, float[64, 8] w3) => (float loss) {
	["/Gemm"] h = Gemm (x, w1)
	["/a/Add"] out = Add (h, h)
	["/a/up/Gemm"] b = Gemm (h, w2)
	["/a/act/Tanh"] c = Tanh (b)
	["/a/down/Gemm"] d = Gemm (c, w3)
	["/Add"] e = Add (out, d)
	["/Sum"] loss = ReduceSum <keepdims = 0> (e)
}`)
	require.NoError(t, err)
	p.Early = false
	s := p.Simulator()
	s.Run([]int32{0})
	var live []int64 // at the product with w3
	s.Live(func(step int, bytes int64) {
		if node := p.Steps[step].Node; step < p.Backward && node == 4 && len(p.Steps[step].Makes) > 0 {
			live = append(live, bytes)
		}
	})
	require.Len(t, live, 2, "once, and again")
	// h, the gradient of e, which is one number for all; out, tanh's result, the product itself.
	require.Equal(t, p.Held+1024+4+1024+8192+1024, live[1])
}

// TestHandWritten: before ONNX had an operator for it, exporters wrote a norm in many nodes; later only programs do,
// in which the difference c and the deviation g are saved.
func TestHandWritten(t *testing.T) {
	const norm = `m (float[32, 8] x, float[8, 8] w1, float eps) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/ReduceMean"] b = ReduceMean <axes = [-1]> (a)
	["/a/Sub"] c = Sub (a, b)
	["/a/two"] two = Constant <value_float = 2.0> ()
	["/a/Pow"] d = Pow (c, two)
	["/a/ReduceMean_1"] e = ReduceMean <axes = [-1]> (d)
	["/a/little"] little = Constant <value_float = 1e-5> ()
	["/a/Add"] f = Add (e, little)
	["/a/Sqrt"] g = Sqrt (f)
	["/a/Div"] h = Div (c, g)
	["/Sum"] loss = ReduceSum <keepdims = 0> (h)
}`
	old, err := buildAt(t, 13, strings.ReplaceAll(norm, "axes = [-1]", "axes = [-1], keepdims = 1"))
	require.NoError(t, err)
	require.Equal(t, int64(1024+2*32*4), old.Saved())
	now, err := build(t, strings.ReplaceAll(norm, "axes = [-1]", "axes = [-1], keepdims = 1"))
	require.NoError(t, err)
	require.Equal(t, int64(1024+32*4), now.Saved())
}

// TestMasks: a mask is a tensor, however small; a list of few sizes is none.
func TestMasks(t *testing.T) {
	p, err := build(t, `m (float[4, 8] x, float[8, 8] w1) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Greater"] c = Greater (a, x)
	["/a/Where"] b = Where (c, a, x)
	["/Sum"] loss = ReduceSum <keepdims = 0> (b)
}`)
	require.NoError(t, err)
	require.Equal(t, int64(4*8), p.Saved())
}

// TestErrors: what is not known is named.
func TestErrors(t *testing.T) {
	_, err := build(t, `m (float[4] w1) => (float loss) {
	["/a/Det"] b = LpNormalization (w1)
	["/Sum"] loss = ReduceSum <keepdims = 0> (b)
}`)
	var row *torchsim.NoRow
	require.ErrorAs(t, err, &row)
	require.Equal(t, &torchsim.NoRow{Node: "/a/Det", Op: "LpNormalization"}, row)
	require.ErrorContains(t, err, "LpNormalization")
	_, err = build(t, `m (float[n] w1) => (float loss) {
	["/a/Relu"] b = Relu (w1)
	["/Sum"] loss = ReduceSum <keepdims = 0> (b)
}`)
	require.ErrorContains(t, err, "n")
}

// TestOneNumber: a parameter of one element is a tensor with a gradient, not a number that the host knows.
func TestOneNumber(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
m (float[32, 8] x, float[8, 8] w1) => (float loss) <float[1] slope = {0.25}> {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/PRelu"] b = PRelu (a, slope)
	["/Sum"] loss = ReduceSum <keepdims = 0> (b)
}`, "m")
	require.NoError(t, err)
	types, err := op.InferAsIs(m)
	require.NoError(t, err)
	tree, err := modules.Read(m, nil)
	require.NoError(t, err)
	p, err := torchsim.Build(m, types, torchsim.Options{Tree: tree, Wrt: []string{"w1", "slope"}, Loss: "loss"})
	require.NoError(t, err)
	require.Equal(t, int64(1024+256+4), p.Held)
}

// TestWeightNorm: one operator on the CPU, which saves its parameters and the norms.
func TestWeightNorm(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8, 1] w2) => (float loss) {
	["/a/ReduceL2"] n = ReduceL2 <axes = [1], keepdims = 1> (w1)
	["/a/Div"] d = Div (w1, n)
	["/a/Mul"] w = Mul (d, w2)
	["/a/Gemm"] y = Gemm (x, w)
	["/a/Tanh"] z = Tanh (y)
	["/Sum"] loss = ReduceSum <keepdims = 0> (z)
}`)
	require.NoError(t, err)
	require.Contains(t, ops(p), "_weight_norm_interface_backward")
	require.Equal(t, int64(8*4+32*8*4), p.Saved(), "norms and tanh's result")
}

// TestQuotient: four temporaries are there at the same time in a quotient's gradient.
func TestQuotient(t *testing.T) {
	for _, x := range []string{"a", "x"} {
		p, err := build(t, `m (float[32, 8] x, float[8, 8] w1) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/ReduceL2"] n = ReduceL2 <axes = [1], keepdims = 1> (a)
	["/a/Div"] y = Div (`+x+`, n)
	["/a/Exp"] z = Exp (y)
	["/Sum"] loss = ReduceSum <keepdims = 0> (z)
}`)
		require.NoError(t, err)
		bytes, work := makes(t, p, "div_backward")
		require.Equal(t, int64(4*1024+32*4), bytes+work, x)
	}
}

// TestGenerator: checkpoints keep the state of the generator where a step draws random numbers, and only there.
func TestGenerator(t *testing.T) {
	text := `m (float[32, 8] x, float[8, 8] w1) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/ratio"] ratio = Constant <value_float = 0.1> ()
	["/a/training"] training = Constant <value = bool {1}> ()
	["/a/Dropout"] b = Dropout (a, ratio, training)
	["/Sum"] loss = ReduceSum <keepdims = 0> (b)
}`
	p, err := build(t, text)
	require.NoError(t, err)
	require.Equal(t, int64(torchsim.GeneratorState), p.Simulate([]int32{0}).Saved)
	p, err = build(t, strings.Replace(text, "Dropout (a, ratio, training)", "Tanh (a)", 1))
	require.NoError(t, err)
	require.Equal(t, int64(0), p.Simulate([]int32{0}).Saved)
}

// TestAttention: scaled_dot_product_attention, whose queries and keys torch.onnx scales both, is one operator that
// saves no probabilities; one that a program writes, and one whose mask is trained, save them.
func TestAttention(t *testing.T) {
	const text = `m (float[2, 3, 8, 4] x, float[4, 4] w1, bool[2, 1, 8, 8] on, float[1, 3, 8, 8] w2) => (float loss) {
	["/a/q"] q = MatMul (x, w1)
	["/a/kt"] kt = Transpose <perm = [0, 1, 3, 2]> (q)
	["/a/root"] root = Constant <value_float = 0.7> ()
	["/a/zero"] zero = Constant <value_float = 0.0> ()
	["/a/low"] low = Constant <value_float = -1e9> ()
	["/a/Mul"] qs = Mul (q, root)
	["/a/Mul_1"] ks = Mul (kt, root)
	["/a/MatMul"] s = MatMul (qs, ks)
	["/a/Where"] mask = Where (on, zero, low)
	["/a/Add"] m = Add (s, mask)
	["/a/Softmax"] p = Softmax <axis = -1> (m)
	["/a/IsNaN"] nan = IsNaN (p)
	["/a/Where_1"] sure = Where (nan, zero, p)
	["/a/MatMul_1"] o = MatMul (sure, q)
	["/Sum"] loss = ReduceSum <keepdims = 0> (o)
}`
	const rows, mask, sums = 2 * 3 * 8 * 4 * 4, 2 * 8 * 8 * 4, 2 * 3 * 8 * 4
	const probabilities = 2 * 3 * 8 * 8 * 4
	p, err := build(t, text)
	require.NoError(t, err)
	require.Contains(t, ops(p), "_scaled_dot_product_flash_attention_for_cpu_backward")
	require.Equal(t, int64(rows+rows+mask+sums), p.Saved(), "q, the result, the mask, and the sums of rows")
	made, _ := makes(t, p, "_scaled_dot_product_flash_attention_for_cpu")
	require.Equal(t, int64(rows+sums), made)

	threeDims := strings.Replace(text, `["/a/kt"] kt = Transpose <perm = [0, 1, 3, 2]> (q)`, `
	["/a/flat"] flat = Constant <value_ints = [6, 8, 4]> ()
	["/a/full"] full = Constant <value_ints = [2, 3, 4, 8]> ()
	["/a/kr"] kr = Reshape (q, flat)
	["/a/kf"] kf = Transpose <perm = [0, 2, 1]> (kr)
	["/a/kt"] kt = Reshape (kf, full)`, 1)
	p, err = build(t, threeDims)
	require.NoError(t, err)
	require.Equal(t, int64(rows+rows+mask+sums), p.Saved(), "as the exporter on torch.export transposes keys")

	plain := strings.NewReplacer("sure, q", "p, q", `["/a/IsNaN"] nan = IsNaN (p)`, "",
		`["/a/Where_1"] sure = Where (nan, zero, p)`, "", `["/a/Add"] m = Add (s, mask)`, "").Replace(text)
	p, err = build(t, strings.Replace(plain, "= Softmax <axis = -1> (m)", "= Softmax <axis = -1> (s)", 1))
	require.NoError(t, err)
	require.Contains(t, ops(p), "_scaled_dot_product_flash_attention_for_cpu_backward", "without a mask")

	for old, by := range map[string]string{
		"Mul (kt, root)": "Identity (kt)", // a program scales one of them
		"Add (s, mask)":  "Add (s, w2)",   // the mask has a gradient
	} {
		p, err = build(t, strings.Replace(text, old, by, 1))
		require.NoError(t, err)
		require.NotContains(t, ops(p), "_scaled_dot_product_flash_attention_for_cpu_backward", by)
		require.Greater(t, p.Saved(), int64(probabilities))
	}
}

// TestSumsOfViews: autograd adds in place, but not to a gradient that is a view, which holds the tensor that it is of
// (can_accumulate_inplace in torch/csrc/autograd/input_buffer.cpp); PyTorch 2.15's profiler shows aten::add and
// aten::add_ in the same places.
func TestSumsOfViews(t *testing.T) {
	const text = `m (float[2, 4, 8] x, float[8, 8] w1, float[8, 8] w2, float[8, 8] w3, float[8, 8] w4) => (float loss) {
	["/a/h"] h = MatMul (x, w1)
	["/a/q"] q = MatMul (h, w2)
	["/a/k"] k = MatMul (h, w3)
	["/a/v"] v = MatMul (h, w4)
	["/a/qk"] qk = Mul (q, k)
	["/a/s"] s = Mul (qk, v)
	["/Sum"] loss = ReduceSum <keepdims = 0> (s)
}`
	sums := func(p *torchsim.Program) (list []string) {
		for i := range p.Steps {
			if op := p.Steps[i].Op; op == "add" || op == "add_" {
				list = append(list, op)
			}
		}
		return list
	}
	p, err := build(t, text)
	require.NoError(t, err)
	require.Equal(t, []string{"add", "add_"}, sums(p), "a matrix under three dims, then a sum")
	p, err = build(t, strings.Replace(text, "[2, 4, 8] x", "[8, 8] x", 1))
	require.NoError(t, err)
	require.Equal(t, []string{"add_", "add_"}, sums(p))

	// Words and a head share w1, whose gradient by the head is a transposed view: both and their sum are there at once.
	const tied = `m (int64[2, 4] x, float[50, 8] w1) => (float loss) {
	["/a/emb"] h = Gather (w1, x)
	["/a/t"] t = Transpose <perm = [1, 0]> (w1)
	["/a/head"] y = MatMul (h, t)
	["/Sum"] loss = ReduceSum <keepdims = 0> (y)
}`
	p, err = build(t, tied)
	require.NoError(t, err)
	require.Equal(t, []string{"add"}, sums(p))
	require.Equal(t, torchsim.Gradients{Bytes: 1600, Largest: 1600, Count: 1}, p.Gradients())
	require.Equal(t, p.Held+3*1600, p.Simulate(nil).Peak)
}

// TestKeeping: peaks and the order of steps with results that checkpoints keep, worked out by hand.
func TestKeeping(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8, 8] w2) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Tanh"] b = Tanh (a)
	["/a/Gemm_1"] c = Gemm (b, w2)
	["/a/Exp"] d = Exp (c)
	["/Sum"] loss = ReduceSum <keepdims = 0> (d)
}`)
	require.NoError(t, err)
	const size, one = 1024, 4
	s, call := p.Simulator(), callOf(t, p, "a")
	run := func(kept ...int) (again []string, live []int64, u torchsim.Usage) {
		list := make([]bool, len(p.Steps))
		for _, i := range kept {
			list[i] = true
		}
		u = s.RunKeeping([]int32{call}, list)
		backward := false
		s.Live(func(step int, bytes int64) {
			if backward && step < p.Backward {
				again, live = append(again, p.Steps[step].Op), append(live, bytes-p.Held)
			}
			backward = backward || step == p.Backward-1
		})
		return again, live, u
	}
	again, live, u := run()
	require.Equal(t, []string{"addmm", "tanh", "addmm", "exp"}, again)
	require.Equal(t, []int64{size + one, 2*size + one, 2*size + one, 3*size + one}, live)
	require.Zero(t, u.Saved)

	again, live, u = run(0)
	require.Equal(t, []string{"tanh", "addmm", "exp"}, again)
	require.Equal(t, int64(size), u.Saved)
	require.Equal(t, []int64{2*size + one, 2*size + one, 3*size + one}, live,
		"the product is gone once tanh has read it")
	require.Equal(t, p.Steps[1].Seconds+p.Steps[2].Seconds+p.Steps[3].Seconds, u.Seconds)

	again, live, u = run(1, 2)
	require.Equal(t, []string{"addmm", "exp"}, again)
	require.Equal(t, int64(2*size), u.Saved)
	require.Equal(t, []int64{3*size + one, 3*size + one}, live, "the first product has no reader")
	require.Equal(t, p.Held+3*size+256, u.Peak, "tanh's result stays for the backward of the second product")

	// All kept, also results that autograd would not save: they go when the recomputation, of no step, takes them.
	again, _, u = run(0, 1, 2, 3)
	require.Empty(t, again)
	require.Equal(t, int64(4*size), u.Saved)
	require.Equal(t, p.Held+4*size+one, u.Peak, "beside the gradient of the sum")
	require.Zero(t, u.Seconds)

	// A recomputation that stops before a step never takes that one's kept results, which stay to the end.
	p.Early, p.Steps[2].Keeps, p.Steps[3].Keeps = true, torchsim.KeepsInputs, torchsim.KeepsNothing
	again, _, u = run(3)
	require.Equal(t, []string{"addmm", "tanh"}, again)
	early := u.Peak
	p.Storages[p.Steps[3].Makes[0]].Bytes += 100
	_, _, u = run(3)
	require.Equal(t, early+100, u.Peak, "in the backward half, where it is of no more use")
	require.True(t, u.At >= p.Backward)

	// Results that steps outside of the checkpoint read stay for these; without checkpoints no result is kept.
	plain := p.Simulate(nil)
	require.Equal(t, plain, s.RunKeeping(nil, slices.Repeat([]bool{true}, len(p.Steps))))
	require.Equal(t, p.Simulate([]int32{call}), s.Run([]int32{call}), "an earlier run leaves no mark")
}

// TestKeepingOutputs: a kept result that steps outside read is a result of the checkpoint's function, which ends with
// its recomputation.
func TestKeepingOutputs(t *testing.T) {
	p, err := build(t, `m (float[32, 8] x, float[8, 8] w1, float[8, 8] w2) => (float loss) {
	["/a/Gemm"] a = Gemm (x, w1)
	["/a/Tanh"] b = Tanh (a)
	["/a/Gemm_1"] c = Gemm (b, w2)
	["/a/Exp"] d = Exp (c)
	["/Add"] e = Add (a, d)
	["/Sum"] loss = ReduceSum <keepdims = 0> (e)
}`)
	require.NoError(t, err)
	s, kept := p.Simulator(), make([]bool, len(p.Steps))
	kept[0] = true
	s.RunKeeping([]int32{callOf(t, p, "a")}, kept)
	var live []int64
	s.Live(func(step int, bytes int64) {
		if step < p.Backward {
			live = append(live, bytes-p.Held)
		}
	})
	again := live[p.Backward:]
	require.Len(t, again, 3)
	require.Equal(t, again[0]+2*1024, again[2], "all of a, b, c and d")
}

// TestKeepable: which results a checkpoint may keep.
func TestKeepable(t *testing.T) {
	p := readStep(t, torchsim.KeepsResults)
	require.NotContains(t, p.Keepable(), true, "no operator of PyTorch's, by its name")
	for i, name := range []string{"aten.mm.default", "aten.mul.Tensor", "aten.sum.default"} {
		p.Steps[i].Op = name
	}
	require.Equal(t, []bool{true, true, true, false, false, false}, p.Keepable())
	p.Steps[1].Op = "aten.mul_.Tensor"
	require.Equal(t, []bool{false, false, true, false, false, false}, p.Keepable(), "mul_ writes over mm's result")
	p.Steps[1].Reads = []torchsim.StorageID{0, 1}
	require.Equal(t, []bool{true, false, true, false, false, false}, p.Keepable(), "the first operand is written")
	p.Steps[1].Op = "aten._foreach_mul_.Tensor"
	require.Equal(t, []bool{false, false, true, false, false, false}, p.Keepable(), "all are")
	p.Steps[1].Op = "aten.mul.out"
	require.Equal(t, []bool{false, false, true, false, false, false}, p.Keepable())
	p.Steps[1].Op, p.Steps[1].Random = "aten.native_dropout.default", true
	require.Equal(t, []bool{true, false, true, false, false, false}, p.Keepable())
	p.Storages[1].Cached = true
	require.Equal(t, []bool{false, false, true, false, false, false}, p.Keepable())
	p.Steps[2].Makes = nil
	require.NotContains(t, p.Keepable(), true)
}
