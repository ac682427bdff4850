package stages

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
	"memopt/symbolic"
)

// network has what the conversion must take care of: constants of all forms, casts, shapes, a mask
// with the lowest float32, a subgraph, and an operator set in which Where takes no bfloat16.
const network = `<ir_version: 8, opset_import: ["" : 15]>
	network (int64[batch, seq] ids, int64[batch] labels, float[16, 8] table, float[8, 5] head, bool c) => (float loss) <float eps = {0.001}> {
		x = Gather(table, ids)
		half = Constant<value_float = 0.5>()
		lowest = Constant<value = float {-3.4028235e38}>()
		shape = Shape(x)
		zeros = ConstantOfShape(shape)
		ones = ConstantOfShape<value = float[1] {1}>(shape)
		size = Size(x)
		count = Cast<to = 1>(size)
		y = Mul(x, half)
		z = Div(y, ones)
		u = Add(z, zeros)
		pos = Greater(u, eps)
		w = Where(pos, u, lowest)
		s = Softmax<axis = -1>(w)
		m = ReduceMean<axes = [1], keepdims = 0>(s)
		k = If(c) <then_branch = a () => (float[batch, 8] p) { one = Constant<value_floats = [1.0]>()  p = Mul(m, one) }, else_branch = b () => (float[batch, 8] q) { q = Identity(m) }>
		d = Div(k, count)
		scores = MatMul(d, head)
		loss = SoftmaxCrossEntropyLoss(scores, labels)
	}`

// loss runs a model's training step on made-up inputs and returns the loss, which is the first
// output.
func loss(t *testing.T, m *graph.Model, env symbolic.Env) float64 {
	t.Helper()
	j, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	s, err := executor.Open(context.Background(), j.Model, j.Types, cpu.Device{}, executor.Options{Dims: env})
	require.NoError(t, err)
	defer s.Close()
	filler := dataset.NewFiller(j.Model.Graph, env, 1)
	for _, d := range j.Model.Graph.Inputs {
		x, err := filler.Fill(d.Value)
		require.NoError(t, err)
		require.NoError(t, s.SetInput(j.Model.Graph.ValueName(d.Value), x))
	}
	require.NoError(t, s.Run(context.Background()))
	for i := range j.Model.Graph.Outputs {
		if o := s.Output(i); o.DType == graph.Float32 {
			return float64(executor.Of[float32](o)[0])
		}
	}
	return float64(half.BFloat16(executor.Of[uint16](s.Output(0))[0]).Float32())
}

// TestToBFloat16: no float32 is left in the converted model, and it computes nearly the same.
func TestToBFloat16(t *testing.T) {
	m, err := graph.Parse(network, "network")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	env := symbolic.Env{"batch": 3, "seq": 4}
	want := loss(t, m.Clone(), env)
	require.NoError(t, toBFloat16(m))
	var look func(g *graph.Graph)
	look = func(g *graph.Graph) {
		for i := range g.Values {
			require.NotEqual(t, graph.Float32, g.Values[i].Type.DType, g.Values[i].Name)
		}
		for _, n := range g.Nodes {
			n.Subgraphs(func(_ string, body *graph.Graph) { look(body) })
		}
	}
	look(m.Graph)
	require.InEpsilon(t, want, loss(t, m, env), 0.01)
}

// TestFinite: rounding keeps finite numbers finite, and leaves others as they are.
func TestFinite(t *testing.T) {
	for _, f := range []float32{0, 1, -1.5, math.MaxFloat32, -math.MaxFloat32, 0x1.fffp127,
		math.SmallestNonzeroFloat32} {
		h := float64(finite(f).Float32())
		require.False(t, math.IsInf(h, 0), f)
		require.InDelta(t, float64(f), h, math.Abs(float64(f))/256+1e-38)
	}
	require.True(t, math.IsInf(float64(finite(float32(math.Inf(-1))).Float32()), -1))
	require.True(t, math.IsNaN(float64(finite(float32(math.NaN())).Float32())))
}
