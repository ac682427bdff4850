package torchsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/modules"
	"memopt/graph/op"
	"memopt/graph/torchsim"
)

// build builds the step of a model in the textual syntax, whose parameters begin with w.
func build(t *testing.T, text string) (*torchsim.Program, error) {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "m")
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
	require.Equal(t, int64(2*1024+4), u.Saved, "the loss lives, too")
	require.Equal(t, int64(2<<20), u.Blocks)
	require.False(t, u.Again)

	call := func(name string) int32 {
		for i, c := range p.Tree.Calls {
			if p.Tree.Modules[c.Module].Name == name {
				return int32(i)
			}
		}
		t.Fatal(name)
		return -1
	}
	// Under a checkpoint the first module keeps x, which is there anyway; tanh's result is kept by the second one.
	u = p.Simulate([]int32{call("a")})
	require.Equal(t, int64(2*1024+4+torchsim.GeneratorState), u.Saved)
	u = p.Simulate([]int32{call("a"), call("b")})
	require.Equal(t, int64(1024+4+2*torchsim.GeneratorState), u.Saved, "what b reads")
	require.Equal(t, u, p.Simulate([]int32{call("a"), call("b"), call("b.fc")}), "in a module that runs again anyway")
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
