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

// anchorGraph is a step of two layers whose activations have a view between them; opset and IR
// version are to be filled in.
const anchorGraph = `<ir_version: %d, opset_import: ["" : %d]>
step (float[N, 8] x, float[8, 8] w1, float[8, 8] w2, float s) => (float loss, float[8, 8] g2, float[8, 8] g1)
<int64[2] flat = {-1, 8}>
{
  [f1] a = MatMul (x, w1)
  [act] r = Tanh (a)
  [view] v = Reshape (r, flat)
  [f2] b = MatMul (v, w2)
  [loss] loss = ReduceMean <keepdims = 0> (b)
  [d] d = Mul (b, s)
  [dw2] g2 = Gemm <transA = 1> (v, d)
  [dv] dv = Gemm <transB = 1> (d, w2)
  [dr] dr = Mul (dv, r)
  [dw1] g1 = Gemm <transA = 1> (x, dr)
}`

// anchorCase rewrites the graph with given anchors: act runs again before dr, behind the gradient
// of w2.
func anchorCase(
	t *testing.T, ir, opset int, edit func(*recompute.Anchor, map[string]graph.ValueID),
) (*recompute.Rewritten, error) {
	t.Helper()
	m, err := graph.Parse(fmt.Sprintf(anchorGraph, ir, opset), "step")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	node := map[string]graph.NodeID{}
	for i, n := range m.Graph.Nodes {
		node[n.Name] = graph.NodeID(i)
	}
	named := map[string]graph.ValueID{}
	for i := range m.Graph.Values {
		named[m.Graph.Values[i].Name] = graph.ValueID(i)
	}
	b := live.Boundary{Kind: live.RecordedBoundary, Node: node["loss"], Backward: node["d"]}
	anchor := recompute.Anchor{
		Before: node["dr"], Sinks: []graph.ValueID{named["g2"], named["dv"]}, Values: []graph.ValueID{named["a"]},
	}
	if edit != nil {
		edit(&anchor, named)
	}
	return recompute.Apply(m, b, graph.FileOrder(m.Graph),
		[]recompute.Placement{{Value: named["r"], Nodes: []graph.NodeID{node["act"]}, Before: node["dr"], Copy: 1}},
		recompute.Options{Anchors: []recompute.Anchor{anchor}})
}

func TestAnchorNodes(t *testing.T) {
	common := "f1: a = MatMul(x, w1)\nact: r = Tanh(a)\nview: v = Reshape(r, flat)\nf2: b = MatMul(v, w2)\nloss: " +
		"loss = ReduceMean(b)\nd: d = Mul(b, s)\n" +
		"dw2: g2 = Gemm(v, d)\ndv: dv = Gemm(d, w2)\n" +
		"g2_anchor_size: g2_anchor_size = Size(g2)\ndv_anchor_size: dv_anchor_size = Size(dv)\n"
	clone := "act_recompute: r_recompute = Tanh(a_anchor)\ndr: dr = Mul(dv, r_recompute)\ndw1: g1 = Gemm(x, dr)\n"
	ending := "dr_anchor_zero: dr_anchor_zero = Mul(dr_anchor_min, memopt_anchor_axis)\n" +
		"a_anchor_wide: a_anchor_wide = Unsqueeze(a, dr_anchor_zero)\n" +
		"a_anchor: a_anchor = Squeeze(a_anchor_wide, memopt_anchor_axis)\n" + clone
	old := "dr_anchor_shape_2: dr_anchor_shape_2 = Add(dr_anchor_zero, memopt_anchor_shape_2)\n" +
		"a_anchor_wide: a_anchor_wide = Reshape(a, dr_anchor_shape_2)\n" +
		"a_anchor: a_anchor = Squeeze(a_anchor_wide)\n" + clone
	for _, c := range []struct {
		ir, opset int
		want      string
	}{
		{8, 17, common + "dr_anchor_min: dr_anchor_min = Min(g2_anchor_size, dv_anchor_size)\n" + ending},
		{8, 13, common + "dr_anchor_min: dr_anchor_min = Min(g2_anchor_size, dv_anchor_size)\n" + ending},
		{8, 12, common + "dr_anchor_min: dr_anchor_min = Min(g2_anchor_size, dv_anchor_size)\n" +
			"dr_anchor_zero: dr_anchor_zero = Mul(dr_anchor_min, memopt_anchor_axis)\n" + old},
		{6, 11, common + "dr_anchor_min_0: dr_anchor_min_0 = Mul(memopt_anchor_axis, g2_anchor_size)\n" +
			"dr_anchor_min_1: dr_anchor_min_1 = Mul(dr_anchor_min_0, dv_anchor_size)\n" +
			"dr_anchor_zero: dr_anchor_zero = Mul(dr_anchor_min_1, memopt_anchor_axis)\n" + old},
		{3, 13, common + "dr_anchor_min: dr_anchor_min = Min(g2_anchor_size, dv_anchor_size)\n" +
			"memopt_anchor_axis: memopt_anchor_axis = Constant()\n" + ending},
	} {
		r, err := anchorCase(t, c.ir, c.opset, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, printNodes(r.Model.Graph), "IR version %d, operator set %d", c.ir, c.opset)
		require.Equal(t, len(r.Model.Graph.Nodes)-11, r.AnchorNodes)
	}
}

// TestAnchorTypes holds the file to what it says of new values: all are listed, and of those behind
// an anchor one dim is left open.
func TestAnchorTypes(t *testing.T) {
	r, err := anchorCase(t, 8, 17, nil)
	require.NoError(t, err)
	g := r.Model.Graph
	stated := map[string]string{}
	for _, d := range g.ValueInfo {
		stated[g.Values[d.Value].Name] = d.Type.String()
	}
	require.Equal(t, map[string]string{"g2_anchor_size": "int64", "dv_anchor_size": "int64", "dr_anchor_min": "int64",
		"dr_anchor_zero": "int64[1]", "a_anchor": "float[?, 8]", "r_recompute": "float[?, 8]"}, stated)
}

// TestLateAnchor reads a value that is made behind the anchor through a view of its own.
func TestLateAnchor(t *testing.T) {
	r, err := anchorCase(t, 8, 17, func(a *recompute.Anchor, named map[string]graph.ValueID) {
		a.Late = []graph.ValueID{named["dr"]}
	})
	require.NoError(t, err)
	require.Contains(t, printNodes(r.Model.Graph), "dr: dr = Mul(dv, r_recompute)\n"+
		"dr_anchor_wide: dr_anchor_wide = Unsqueeze(dr, dr_anchor_zero)\n"+
		"dr_anchor: dr_anchor = Squeeze(dr_anchor_wide, memopt_anchor_axis)\ndw1: g1 = Gemm(x, dr_anchor)\n")
}

func TestAnchorErrors(t *testing.T) {
	for _, c := range []struct {
		opset int
		edit  func(*recompute.Anchor, map[string]graph.ValueID)
		want  string
	}{
		{6, nil, "anchors need operator set 7 or later, the model imports 6"},
		{17, func(a *recompute.Anchor, named map[string]graph.ValueID) { a.Sinks = nil },
			"an anchor without sinks has no effect"},
		{17, func(a *recompute.Anchor, named map[string]graph.ValueID) { a.Values = []graph.ValueID{named["s"]} },
			`value "s" cannot be read through an anchor: it is a scalar`},
		{17, func(a *recompute.Anchor, named map[string]graph.ValueID) { a.Before = 0 },
			`an anchor stands before a value that it waits for`},
	} {
		_, err := anchorCase(t, 8, c.opset, c.edit)
		require.ErrorContains(t, err, c.want)
	}
}
