package ort

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
)

// plainDefaultOrder is the walk as a recursion over sets: from the last leaf to the first, a node's
// producers with the highest number first, each when all of its own are done.
func plainDefaultOrder(g *graph.Graph) graph.Order {
	constant := func(id graph.NodeID) bool { return op.Of(g.Nodes[id].Kind).Has(op.ConstantRole) }
	read := map[graph.NodeID]bool{}
	producers := func(id graph.NodeID) []graph.NodeID {
		var out []graph.NodeID
		g.EachProducer(id, func(p graph.NodeID) {
			if !constant(p) {
				out = append(out, p)
			}
		})
		slices.Sort(out)
		return slices.Compact(out)
	}
	var order graph.Order
	for id := range g.Nodes {
		if constant(graph.NodeID(id)) {
			order = append(order, graph.NodeID(id))
			continue
		}
		for _, p := range producers(graph.NodeID(id)) {
			read[p] = true
		}
	}
	done := map[graph.NodeID]bool{}
	var visit func(graph.NodeID)
	visit = func(id graph.NodeID) {
		if done[id] {
			return
		}
		done[id] = true
		for _, p := range slices.Backward(producers(id)) {
			visit(p)
		}
		order = append(order, id)
	}
	for id := len(g.Nodes) - 1; id >= 0; id-- {
		if !read[graph.NodeID(id)] && !constant(graph.NodeID(id)) {
			visit(graph.NodeID(id))
		}
	}
	return order
}

func TestDefaultOrderIsTheRecursiveWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 1)),
			graphtest.Options{Nodes: rapid.IntRange(5, 120).Draw(t, "nodes"),
				Yield: rapid.Bool().Draw(t, "yield"), Layers: rapid.Bool().Draw(t, "layers")})
		order := DefaultOrder(m.Graph)
		require.NoError(t, order.Check(m.Graph))
		require.Equal(t, plainDefaultOrder(m.Graph), order)
	})
}

// TestDefaultOrderByHand holds the order to what ONNX Runtime 1.30 does with a small graph: weight
// gradients last, except the last one in the file; no Identity nodes from the basic level on; the
// loss's function body before everything else.
func TestDefaultOrderByHand(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
step (float[4, 8] x, float[8, 8] w1, float[8, 8] w2, int64[4] t) => (float loss, float[8, 8] g2, float[8, 8] g1)
{
  [f1] a = MatMul (x, w1)
  [f2] b = MatMul (a, w2)
  [loss] loss = SoftmaxCrossEntropyLoss (b, t)
  [d] d = Softmax (b)
  [dw2] dw2 = Gemm <transA = 1> (a, d)
  [da] da = Gemm <transB = 1> (d, w2)
  [dw1] dw1 = Gemm <transA = 1> (x, da)
  [out1] g1 = Identity (dw1)
  [out2] g2 = Identity (dw2)
}`, "step")
	require.NoError(t, err)
	op.Bind(m)
	names := func(order graph.Order) []string {
		var out []string
		for _, id := range order {
			out = append(out, m.Graph.Nodes[id].Name)
		}
		return out
	}
	require.Equal(t, []string{"f1", "f2", "loss", "d", "dw2", "out2", "da", "dw1", "out1"},
		names(DefaultOrder(m.Graph)))
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	basic := &orderer{basic: true}
	var order graph.Order
	for _, i := range basic.run(live.NewProgram(m.Graph, graph.FileOrder(m.Graph), sizes)) {
		order = append(order, graph.NodeID(i))
	}
	require.NoError(t, order.Check(m.Graph))
	require.Equal(t, []string{"f1", "f2", "loss", "d", "da", "dw1", "out1", "dw2", "out2"}, names(order))
}

func BenchmarkDefaultOrder(b *testing.B) {
	m := graphtest.Training(rand.New(rand.NewPCG(1, 1)), graphtest.Options{Nodes: 10000, Layers: true})
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(b, err)
	p := live.NewProgram(m.Graph, graph.FileOrder(m.Graph), sizes)
	o := &orderer{basic: true}
	for b.Loop() {
		o.run(p)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(p.Steps)), "ns/node")
}
