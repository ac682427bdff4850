package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
)

// decoder describes the forward half of a language model like LLaMA's: norms before attention and
// before the gated MLP, no biases, a head of its own. Its weights are graph inputs.
type decoder struct{ layers, hidden, heads, ffn, vocab int }

// text is the model in ONNX's textual syntax, of symbols batch and seq.
func (d decoder) text() string {
	var in, nodes strings.Builder
	weight := func(name string, rows, cols int) { fmt.Fprintf(&in, ", float[%d, %d] %s", rows, cols, name) }
	node := func(format string, args ...any) { fmt.Fprintf(&nodes, format+"\n", args...) }
	weight("embedding", d.vocab, d.hidden)
	node("x0 = Gather <axis = 0> (embedding, tokens)")
	node("shape = Shape (tokens)")
	node("split = Concat <axis = 0> (shape, split_heads)")
	for i := range d.layers {
		x, l := fmt.Sprintf("x%d", i), fmt.Sprintf("l%d_", i)
		fmt.Fprintf(&in, ", float[%d] %snorm1, float[%d] %snorm2", d.hidden, l, d.hidden, l)
		node("%sn1 = LayerNormalization <axis = -1> (%s, %snorm1)", l, x, l)
		for _, part := range []string{"q", "k", "v"} {
			weight(l+part+"_weight", d.hidden, d.hidden)
			perm := "0, 2, 1, 3"
			if part == "k" {
				perm = "0, 2, 3, 1"
			}
			node("%s%s0 = MatMul (%sn1, %s%s_weight)", l, part, l, l, part)
			node("%s%s1 = Reshape (%s%s0, split)", l, part, l, part)
			node("%s%s = Transpose <perm = [%s]> (%s%s1)", l, part, perm, l, part)
		}
		weight(l+"o_weight", d.hidden, d.hidden)
		node("%sscores0 = MatMul (%sq, %sk)", l, l, l)
		node("%sscores1 = Mul (%sscores0, scale)", l, l)
		node("%sscores = Add (%sscores1, mask)", l, l)
		node("%sprobs = Softmax <axis = -1> (%sscores)", l, l)
		node("%smixed0 = MatMul (%sprobs, %sv)", l, l, l)
		node("%smixed1 = Transpose <perm = [0, 2, 1, 3]> (%smixed0)", l, l)
		node("%smixed = Reshape (%smixed1, join_heads)", l, l)
		node("%so = MatMul (%smixed, %so_weight)", l, l, l)
		node("%sx = Add (%s, %so)", l, x, l)
		node("%sn2 = LayerNormalization <axis = -1> (%sx, %snorm2)", l, l, l)
		weight(l+"gate_weight", d.hidden, d.ffn)
		weight(l+"up_weight", d.hidden, d.ffn)
		weight(l+"down_weight", d.ffn, d.hidden)
		node("%sgate0 = MatMul (%sn2, %sgate_weight)", l, l, l)
		node("%ssigmoid = Sigmoid (%sgate0)", l, l)
		node("%sgate = Mul (%sgate0, %ssigmoid)", l, l, l)
		node("%sup = MatMul (%sn2, %sup_weight)", l, l, l)
		node("%sunits = Mul (%sgate, %sup)", l, l, l)
		node("%sdown = MatMul (%sunits, %sdown_weight)", l, l, l)
		node("x%d = Add (%sx, %sdown)", i+1, l, l)
	}
	fmt.Fprintf(&in, ", float[%d] norm", d.hidden)
	weight("head_weight", d.hidden, d.vocab)
	node("n = LayerNormalization <axis = -1> (x%d, norm)", d.layers)
	node("logits = MatMul (n, head_weight)")
	node("rows = Reshape (logits, flat)")
	node("labels_flat = Reshape (labels, flat_labels)")
	node(`loss = SoftmaxCrossEntropyLoss <reduction = "mean", ignore_index = -100> (rows, labels_flat)`)
	head := d.hidden / d.heads
	return fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]>
decoder (int64[batch, seq] tokens, int64[batch, seq] labels, float[seq, seq] mask%s) => (float loss)
<int64[2] split_heads = {%d, %d}, int64[3] join_heads = {0, 0, %d}, int64[2] flat = {-1, %d}, int64[1] flat_labels = {-1},
 float scale = {0.125}>
{
%s}`, in.String(), d.heads, head, d.hidden, d.vocab, nodes.String())
}

// step is a training step of the model with plain SGD, which uses gradients up as they come.
func (d decoder) step(t *testing.T, dims map[string]int64) *memopt.Model {
	g, err := graph.Parse(d.text(), "decoder")
	require.NoError(t, err)
	m, err := memopt.New(g, memopt.Options{Dims: dims})
	require.NoError(t, err)
	m, _, err = m.Differentiate(autograd.Options{}, &autograd.Optimizer{Kind: "sgd", LR: 1e-3})
	require.NoError(t, err)
	return m
}
