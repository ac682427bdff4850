package autograd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
)

// annotatedMLP has its two layers in two stages; the first weight is cut into columns.
const annotatedMLP = `<ir_version: 11, opset_import: ["": 17], configuration: ["grid" : 4 []]>
g (float[batch, 8] x, int64[batch] labels, float[8, 16] w1, float[16, 4] w2) => (float loss) {
  <device_configurations: ["grid" @ 0 ["w1" [0, 1] {} [1: [16 : 2]], "h" [0, 1] {} [1: [16 : 2]]]]>
  [one] h = MatMul (x, w1)
  <device_configurations: ["grid" @ 0 []]> [act] a = Relu (h)
  <device_configurations: ["grid" @ 1 []]> [two] y = MatMul (a, w2)
  <device_configurations: ["grid" @ 1 []]> [loss] loss = SoftmaxCrossEntropyLoss (y, labels)
}`

func annotated(t *testing.T) *graph.Model {
	t.Helper()
	m, err := graph.Parse(annotatedMLP, "test")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	return m
}

// TestGradientsInheritStages: what a rule emits runs where its forward node does, the sum of
// gradients where the gradient is made, the update where the parameter is read.
func TestGradientsInheritStages(t *testing.T) {
	for _, accumulate := range []bool{false, true} {
		j, err := autograd.Differentiate(annotated(t), autograd.Options{Accumulate: accumulate})
		require.NoError(t, err)
		if !accumulate {
			require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", LR: 1, MaxNorm: 1}))
		}
		require.NoError(t, graph.CheckDevices(j.Model))
		staged := 0
		for _, n := range j.Model.Graph.Nodes {
			want := graph.NoStage
			switch {
			case strings.HasPrefix(n.Name, "one"), strings.HasPrefix(n.Name, "act"), strings.HasPrefix(n.Name, "w1/"):
				want = 0
			case strings.HasPrefix(n.Name, "two"), strings.HasPrefix(n.Name, "loss"), strings.HasPrefix(n.Name, "w2/"):
				want = 1
			default:
				continue
			}
			staged++
			assert.Equal(t, want, n.Stage("grid"), n.Name)
		}
		assert.Greater(t, staged, 8)
		for _, d := range j.Model.Graph.Outputs { // the gradients, or their sums
			name := j.Model.Graph.ValueName(d.Value)
			if strings.HasPrefix(name, "w1_grad") {
				assert.EqualValues(t, 0, j.Model.Graph.Nodes[j.Model.Graph.Values[d.Value].Def].Stage(""), name)
			}
		}
	}
}

// TestGradientsInheritShardings: the gradient of a weight that is cut into columns is cut like it,
// and so are the operands of the node that makes it.
func TestGradientsInheritShardings(t *testing.T) {
	j, err := autograd.Differentiate(annotated(t), autograd.Options{})
	require.NoError(t, err)
	g := j.Model.Graph
	out, ok := g.Lookup("w1" + autograd.GradSuffix)
	require.True(t, ok)
	maker := g.Nodes[g.Values[g.Nodes[g.Values[out].Def].Input(0)].Def]
	require.Equal(t, "Gemm", maker.Op)
	var sharded []int32
	for _, s := range maker.Devices()[0].Sharding {
		assert.EqualValues(t, 1, s.Axes[0].Axis)
		assert.EqualValues(t, 2, s.Axes[0].Shards())
		sharded = append(sharded, s.Operand)
	}
	assert.ElementsMatch(t, []int32{1, graph.OutputOperand(0)}, sharded, "the gradient of h, and of w1")
	for _, n := range g.Nodes {
		if strings.HasPrefix(n.Name, "two") && n.Name != "two" {
			assert.Empty(t, n.Devices()[0].Sharding, n.Name)
		}
	}
}

// TestConvertedStages: nodes that raising the operator set adds run where the node does.
func TestConvertedStages(t *testing.T) {
	text := strings.Replace(annotatedMLP, `"": 17`, `"": 9`, 1)
	text = strings.Replace(text, "[loss] loss = SoftmaxCrossEntropyLoss (y, labels)",
		"[soft] s = Softmax <axis = 1> (y)\n[sum] loss = ReduceSum <keepdims = 0> (s)", 1)
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	_, err = autograd.Convert(m, 13)
	require.NoError(t, err)
	require.Greater(t, len(m.Graph.Nodes), 4)
	for _, n := range m.Graph.Nodes {
		if strings.HasPrefix(n.Name, "soft") {
			assert.EqualValues(t, 1, n.Stage(""), n.Name)
		}
	}
}
