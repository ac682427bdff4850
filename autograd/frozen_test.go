package autograd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// frozenNet has a prefix, body_*, of K channels, and a head.
const frozenNet = `<ir_version: 8, opset_import: ["" : 17]>
	g (float[batch, 3, 8, 8] x, int64[batch] labels, float[K, 3, 3, 3] body_conv, float[K] body_bias, float[K] body_scale,
		float[K] body_shift, float[K] body_mean, float[K] body_var, float[K, 16] body_fc,
		float[16, 4] head_weight, float[4] head_bias) => (float loss) {
	c = Conv<pads = [1, 1, 1, 1]>(x, body_conv, body_bias)
	n = BatchNormalization(c, body_scale, body_shift, body_mean, body_var)
	r = Relu(n)  p = GlobalAveragePool(r)  f = Flatten(p)  m = MatMul(f, body_fc)  t = Tanh(m)
	h = Gemm(t, head_weight, head_bias)  loss = SoftmaxCrossEntropyLoss(h, labels) }`

// TestFrozen: a frozen prefix has no gradient, no state and no backward node, and nothing of it is
// stashed: what is, and the peak, are those of a net whose prefix is data. There the number of channels
// is a symbol, and inputs with a symbol among their dims are no parameters.
func TestFrozen(t *testing.T) {
	env := symbolic.Env{"batch": 4, "k": 6}
	var stashed [2][]string
	var peaks [2]int64
	for i, c := range []struct {
		channels string
		opts     autograd.Options
	}{{"6", autograd.Options{NoGrad: []string{"body_*"}}}, {"k", autograd.Options{}}} {
		m := frozenModel(t, c.channels)
		j, err := autograd.Differentiate(m, c.opts)
		require.NoError(t, err)
		require.Equal(t, []string{"head_weight", "head_bias"}, j.Wrt)
		require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", MaxNorm: 1, Guard: true}))
		pairs, err := live.Pairs(j.Model)
		require.NoError(t, err)
		require.Len(t, pairs, 2*3+1)
		for _, p := range pairs {
			require.NotContains(t, p.Input, "body")
		}
		for _, d := range j.Model.Graph.Outputs {
			require.NotContains(t, j.Model.Graph.ValueName(d.Value), "body")
		}
		at := simulated(t, j.Model, env)
		require.Empty(t, at.Copied)
		stashed[i], peaks[i] = stashedOf(t, j.Model), at.Peak.Bytes
	}
	require.Equal(t, stashed[1], stashed[0])
	require.Equal(t, peaks[1], peaks[0])
	require.Contains(t, stashed[0], "t")
	for _, name := range []string{"c", "n", "r", "p", "f", "m"} {
		require.NotContains(t, stashed[0], name)
	}
	whole, err := autograd.Differentiate(frozenModel(t, "6"), autograd.Options{})
	require.NoError(t, err)
	require.Len(t, whole.Wrt, 7)
	require.Greater(t, simulated(t, whole.Model, env).Peak.Bytes, peaks[0])
	require.Subset(t, stashedOf(t, whole.Model), []string{"c", "t"})
}

func frozenModel(t *testing.T, channels string) *graph.Model {
	m, err := graph.Parse(strings.ReplaceAll(frozenNet, "[K", "["+channels), "net")
	require.NoError(t, err)
	inferred(t, m)
	return m
}

// stashedOf lists the values that a backward half reads of the forward one.
func stashedOf(t *testing.T, m *graph.Model) (names []string) {
	b, err := live.FindBoundary(m)
	require.NoError(t, err)
	order := graph.FileOrder(m.Graph)
	none := func(graph.NodeID) bool { return false }
	for _, s := range live.Stashed(m.Graph, order, live.Split(m.Graph, b, order), none) {
		names = append(names, m.Graph.ValueName(s.Value))
	}
	return names
}
