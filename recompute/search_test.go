package recompute_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

func parsed(t *testing.T, text string) *graph.Model {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> `+text, "test")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	return m
}

// TestSmallValues: as in ONNX Runtime, a value of fewer than 1024*1024 elements is taken to be at
// hand, one of as many is not.
func TestSmallValues(t *testing.T) {
	for elements, want := range map[int]int{1<<20 - 1: 1, 1 << 20: 2, 1<<20 + 1: 2} {
		a, err := analyse(parsed(t, fmt.Sprintf(`g (float[%d] x) => (float[%d] g) {
			[first] e = Add (x, x)  [act] a = Add (e, e)  [out] o = com.microsoft.FusedMatMul (a, x)
			[yield] og = com.microsoft.YieldOp <full_shape_outputs = [0]> (a)  [grad] g = Mul (og, a) }`, elements, elements)), "1:0", "file")
		require.NoError(t, err)
		require.Len(t, a.Candidates, 1)
		require.Len(t, a.Candidates[0].Nodes, want, "%d elements", elements)
	}
}

// TestCompromiseRatio: strategy 2 stashes the narrow input of a Cast in place of what comes behind;
// how much that frees is the share of the bits. A Cast that does not widen is no place to stop at.
func TestCompromiseRatio(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     recompute.Ratio // zero: no strategy 2
	}{
		{"uint8", "1", recompute.Ratio{Num: 3, Den: 4}}, {"float16", "1", recompute.Ratio{Num: 1, Den: 2}},
		{"float16", "11", recompute.Ratio{Num: 3, Den: 4}},
		{"uint8", "11", recompute.Ratio{Num: 7, Den: 8}}, {"int32", "1", recompute.Ratio{}},
		{"double", "1", recompute.Ratio{}},
	} {
		a, err := analyse(parsed(t, fmt.Sprintf(`g (%s[n, 4096] x) => (? g) {
			[same] s = Identity (x)  [wide] w = Cast <to = %s> (s)  [act] a = Add (w, w)
			[yield] ag = com.microsoft.YieldOp <full_shape_outputs = [0]> (a)  [grad] g = Mul (ag, a) }`, c.from, c.to)), "1:0", "file")
		require.NoError(t, err)
		got := recompute.Ratio{}
		for _, k := range a.Candidates {
			if k.Strategy == recompute.Compromise {
				got = k.Ratio
			} else {
				require.Equal(t, recompute.Ratio{Num: 1, Den: 1}, k.Ratio)
			}
		}
		require.Equal(t, c.want, got, "%s to %s", c.from, c.to)
	}
}

// TestRewrittenBoundary: the recorded boundary of a rewritten graph is its first backward node or
// clone, and stays away where there is none to record.
func TestRewrittenBoundary(t *testing.T) {
	m := parsed(t, `g (float[n, 8] x) => (float loss, float[n, 8] g) {
		[e] e = Exp (x)  [a] a = Tanh (e)  [loss] loss = ReduceMean <keepdims = 0> (a)  [d] d = Mul (a, a)  [g] g = Mul (d, e) }`)
	b, err := live.FindBoundary(m)
	require.NoError(t, err)
	order := graph.FileOrder(m.Graph)
	again := []recompute.Placement{{Value: m.Graph.Nodes[1].Outputs[0], Nodes: []graph.NodeID{1}, Before: 3, Copy: 1}}
	later := []recompute.Placement{{Value: m.Graph.Nodes[1].Outputs[0], Nodes: []graph.NodeID{1}, Before: 4, Copy: 1}}
	for _, c := range []struct {
		placements []recompute.Placement
		backward   graph.NodeID // the given boundary's
		want       graph.NodeID
	}{{nil, 3, 3}, {again, 3, 3}, {later, 3, 3}, {again, graph.NoNode, graph.NoNode}} {
		given := b
		given.Backward = c.backward
		r, err := recompute.Apply(m, given, order, c.placements, recompute.Options{})
		require.NoError(t, err)
		require.Equal(t, c.want, r.Boundary.Backward)
		require.Equal(t, b.Node, r.Boundary.Node)
	}
	r, err := recompute.Apply(m, b, order, again, recompute.Options{})
	require.NoError(t, err)
	require.Equal(t, graph.NodeID(1), r.Origin[3], "the clone stands before the first backward node")
}
