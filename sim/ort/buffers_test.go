package ort

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// arenaCase simulates a graph in file order as ONNX Runtime uses memory.
func arenaCase(t *testing.T, text string) int64 {
	t.Helper()
	m, err := graph.Parse(text, "case")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	order := make([]int32, len(m.Graph.Nodes))
	for i := range order {
		order[i] = int32(i)
	}
	f, p := NewFacts(m, nil), live.NewProgram(m.Graph, graph.FileOrder(m.Graph), sizes)
	return new(bufferPlanner).plan(p, order, f.shape, f.shapes, true).peak(p, order, f.space)
}

// TestArenaPeaks compares with what ONNX Runtime 1.30 takes, measured by an allocator that logs, in
// units of 4096 bytes: the size of an activation; y takes 4 bytes.
func TestArenaPeaks(t *testing.T) {
	const unit = 32 * 32 * 4
	for _, c := range []struct {
		name, nodes string
		units       int64
	}{
		{"an activation writes in place", "b = Relu (a)", 1},
		{"arithmetic does not", "b = Add (a, x)", 2},
		{"nor does Exp", "b = Exp (a)", 2},
		{"the last axis needs no copies", "b = Softmax (a)", 1},
		{"another axis needs two", "b = Softmax <axis = 0> (a)", 3},
		{"a view takes nothing", "b = Flatten (a)", 1},
		{"a chain alternates between two buffers", "c = Exp (a)\n d = Exp (c)\n b = Exp (d)", 2},
		// The buffer of a, which is dead once c is made, waits for b while c and d, of another
		// shape, are live.
		{"a dead buffer waits",
			"c = Concat <axis = 0> (a, a)\n d = Exp (c)\n b, e = Split <axis = 0, num_outputs = 2> (d)", 5},
	} {
		peak := arenaCase(t, `<ir_version: 8, opset_import: ["" : 18]>
g (float[32, 32] x) => (float y)
{
  a = Exp (x)
  `+c.nodes+`
  y = ReduceSum <keepdims = 0> (b)
}`)
		require.Equal(t, c.units, (peak+unit/2)/unit, c.name)
	}
}

// TestLossPeaks compares with the runtime's own figures for 1024 labels and as many classes, in
// units of all scores: the loss writes over scores that nothing else reads from then on.
func TestLossPeaks(t *testing.T) {
	const unit = 1024 * 1024 * 4
	for _, c := range []struct {
		name, nodes string
		units       int64
	}{
		{"the scores are used up", "u = Neg (loss)", 3},
		{"they are read again", "v = Mul (s, loss)\n u = ReduceSum <keepdims = 0> (v)", 4},
	} {
		peak := arenaCase(t, `<ir_version: 8, opset_import: ["" : 17]>
g (float[1024, 1024] x, int64[1024] labels) => (float u)
{
  s = Exp (x)
  loss = SoftmaxCrossEntropyLoss (s, labels)
  `+c.nodes+`
}`)
		require.Equal(t, c.units, peak/unit, c.name)
	}
}

func TestKernelWorkspaces(t *testing.T) {
	for _, c := range []struct {
		name, text string
		bytes      int64
	}{
		{"Where keeps what it chooses from either side",
			"(bool[4, 8] c, float[4, 8] x, float s) => (float[4, 8] y) { y = Where (c, x, s) }", 2 * 4 * 8 * 4},
		{"a convolution with more filters than places spreads an image out",
			"(float[4, 256, 14, 14] x, float[256, 256, 3, 3] w) => (float[4, 256, 14, 14] y) { y = Conv <pads = [1, " +
				"1, 1, 1]> (x, w) }", 256 * 9 * 14 * 14 * 4},
		{"one with fewer does not",
			"(float[4, 64, 56, 56] x, float[64, 64, 3, 3] w) => (float[4, 64, 56, 56] y) { y = Conv <pads = [1, 1, " +
				"1, 1]> (x, w) }", 0},
		{"a transposed convolution always does",
			"(float[4, 64, 56, 56] x, float[64, 64, 3, 3] w) => (float[4, 64, 56, 56] y) { y = ConvTranspose <pads " +
				"= [1, 1, 1, 1]> (x, w) }", 64 * 9 * 56 * 56 * 4},
		{"GRU keeps the gates",
			"(float[50, 64, 12] x, float[1, 48, 12] w, float[1, 48, 16] r) => (float[50, 1, 64, 16] y) { y = GRU " +
				"<hidden_size = 16> (x, w, r) }",
			16 * (3*50*64 + 7*64) * 4},
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g `+c.text, "case")
		require.NoError(t, err, c.name)
		_, err = op.Infer(m)
		require.NoError(t, err, c.name)
		k := kernels{g: m.Graph, opset: 17}
		total := int64(0)
		for _, bytes := range k.workspaces()[0] {
			total += bytes
		}
		require.Equal(t, c.bytes, total, c.name)
	}
}
