package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// headed is a classifier with a second head that no loss depends on, and a node that nothing reads.
const headed = `<ir_version: 8, opset_import: ["" : 17]>
	g (float[N, 8] x, int64[N] labels, float[8, 5] w, float[5] b) => (float[N, 5] scores, float loss, float[N, 5] side) {
		h = MatMul(x, w)  scores = Add(h, b)  loss = SoftmaxCrossEntropyLoss(scores, labels)
		t = Tanh(h)  side = Sin(t)  idle = Cos(t) }`

// TestKeptOutputs: outputs that are left out are no outputs, nodes that only they need are gone, and
// all else has the bits that it has with them.
func TestKeptOutputs(t *testing.T) {
	m, err := graph.Parse(headed, "headed")
	require.NoError(t, err)
	inferred(t, m)
	env := symbolic.Env{"N": 3}
	filler, inputs := dataset.NewFiller(m.Graph, env, 1), map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		inputs[m.Graph.ValueName(d.Value)], err = filler.Fill(d.Value)
		require.NoError(t, err)
	}
	results := func(globs ...string) (map[string]*executor.Tensor, []string, *autograd.Joint) {
		j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "loss"}}, Outputs: globs})
		require.NoError(t, err)
		_, err = live.FindBoundary(j.Model)
		require.NoError(t, err)
		byName, names := map[string]*executor.Tensor{}, []string{}
		for i, x := range newRunner(t, j.Model, env)(inputs) {
			names = append(names, j.Model.Graph.ValueName(j.Model.Graph.Outputs[i].Value))
			byName[names[i]] = x
		}
		return byName, names, j
	}
	all, names, j := results()
	require.Equal(t, []string{"scores", "loss", "side", "w_grad", "b_grad"}, names)
	require.Equal(t, []string{"MatMul", "Add", "SoftmaxCrossEntropyLoss", "Tanh", "Sin", "Cos"}, forwardOps(j))
	for _, c := range []struct {
		globs, outputs, ops []string
	}{
		{globs: []string{"loss"}, outputs: []string{"loss"},
			ops: []string{"MatMul", "Add", "SoftmaxCrossEntropyLoss"}},
		{globs: []string{"s*"}, outputs: []string{"scores", "side"},
			ops: []string{"MatMul", "Add", "SoftmaxCrossEntropyLoss", "Tanh", "Sin"}},
	} {
		some, names, j := results(c.globs...)
		require.Equal(t, append(c.outputs, "w_grad", "b_grad"), names)
		require.Equal(t, c.ops, forwardOps(j))
		for name, x := range some {
			require.Equal(t, all[name].Data, x.Data, name)
		}
	}
	for _, glob := range []string{"los", "t", "w_grad"} {
		_, err = autograd.Differentiate(m, autograd.Options{
			Losses: []autograd.Loss{{Name: "loss"}}, Outputs: []string{"loss", glob}})
		require.EqualError(t, err, `outputs "`+glob+`" matches no output of the model; they are scores, loss, side`)
	}
	require.Len(t, m.Graph.Outputs, 3)
}

// forwardOps lists the operators of the forward half.
func forwardOps(j *autograd.Joint) []string {
	var ops []string
	for _, n := range j.Model.Graph.Nodes[:j.Backward] {
		if n.Op != "Shape" { // those of forward values run in the forward half
			ops = append(ops, n.Op)
		}
	}
	return ops
}
