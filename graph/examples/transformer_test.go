package examples_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
)

func buildTransformer(t *testing.T, o examples.TransformerOptions) *graph.Graph {
	m, err := examples.Transformer(o)
	require.NoError(t, err)
	return m.Graph
}

// find returns the nodes with the given operator.
func find(g *graph.Graph, op string) (found []*graph.Node) {
	for _, n := range g.Nodes {
		if n.Op == op {
			found = append(found, n)
		}
	}
	return found
}

// readers returns the forward nodes that read a value.
func readers(g *graph.Graph, uses *graph.Uses, v graph.ValueID, yield graph.NodeID) (found []*graph.Node) {
	for _, u := range uses.Of(v) {
		if u.Node < yield {
			found = append(found, g.Nodes[u.Node])
		}
	}
	return found
}

// meetsSoftmax walks downstream from a node through nodes before the limit.
func meetsSoftmax(g *graph.Graph, uses *graph.Uses, from *graph.Node, limit graph.NodeID) bool {
	seen := map[graph.NodeID]bool{}
	queue := []*graph.Node{from}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if n.Op == "Softmax" {
			return true
		}
		for _, out := range n.Outputs {
			for _, r := range readers(g, uses, out, limit) {
				if !seen[r.ID] {
					seen[r.ID] = true
					queue = append(queue, r)
				}
			}
		}
	}
	return false
}

// TestLayerBoundaries states the pattern by which ONNX Runtime's memory optimizer
// finds the layers of a transformer: a norm whose input is also read by an Add,
// with a softmax between the two.
func TestLayerBoundaries(t *testing.T) {
	for _, half := range []bool{false, true} {
		o := smallTransformer
		o.Layers, o.Half = 3, half
		g := buildTransformer(t, o)
		uses := graph.NewUses(g)
		yield := find(g, "YieldOp")[0].ID
		var boundaries []string
		for _, norm := range find(g, "LayerNormalization") {
			for _, r := range readers(g, uses, norm.Inputs[0], yield) {
				if r.Op == "Add" && meetsSoftmax(g, uses, norm, r.ID) {
					boundaries = append(boundaries, norm.Name)
				}
			}
		}
		assert.Equal(t, []string{
			"/transformer/h.0/ln_1/LayerNormalization",
			"/transformer/h.1/ln_1/LayerNormalization",
			"/transformer/h.2/ln_1/LayerNormalization",
		}, boundaries, "half: %v", half)
	}
}

// TestForwardDoesNotReadBackward: what stands before the YieldOp needs nothing behind it, and
// all gradient operators stand behind it.
func TestForwardDoesNotReadBackward(t *testing.T) {
	g := buildTransformer(t, smallTransformer)
	yields := find(g, "YieldOp")
	require.Len(t, yields, 1)
	assert.Equal(t, []int64{0}, yields[0].IntList("full_shape_outputs", nil))
	behind := make([]bool, len(g.Values))
	for _, out := range yields[0].Outputs {
		behind[out] = true
	}
	for _, n := range g.Nodes[yields[0].ID+1:] {
		for _, out := range n.Outputs {
			if out != graph.NoValue {
				behind[out] = true
			}
		}
	}
	for _, n := range g.Nodes[:yields[0].ID] {
		assert.NotContains(t, n.Name, "_Grad/")
		assert.False(t,
			slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return v != graph.NoValue && behind[v] }),
			n.Name)
	}
}

func TestOneDropoutHasNoSeed(t *testing.T) {
	g := buildTransformer(t, smallTransformer)
	seen := map[int64]bool{}
	var unseeded []string
	for _, n := range find(g, "Dropout") {
		if n.Attr("seed") == nil {
			unseeded = append(unseeded, n.Name)
			continue
		}
		seed := n.Int("seed", 0)
		assert.False(t, seen[seed], "seed %d occurs twice", seed)
		seen[seed] = true
	}
	assert.Equal(t, []string{"/transformer/h.0/attn/attn_dropout/Dropout"}, unseeded)
	assert.Len(t, seen, 1+3*smallTransformer.Layers-1)
}

// TestDropoutGradReadsItsOwnMask pairs each gradient with its forward node.
func TestDropoutGradReadsItsOwnMask(t *testing.T) {
	g := buildTransformer(t, smallTransformer)
	for _, n := range find(g, "DropoutGrad") {
		forward := g.Nodes[g.Values[n.Inputs[1]].Def]
		assert.Equal(t, "Dropout", forward.Op)
		assert.Equal(t, forward.Name+"_Grad/DropoutGrad_0", n.Name)
		assert.Equal(t, forward.Inputs[1:], n.Inputs[2:])
	}
	assert.Len(t, find(g, "DropoutGrad"), len(find(g, "Dropout")))
}

// TestHalfCasts: norms and softmax see float32, products float16.
func TestHalfCasts(t *testing.T) {
	g := buildTransformer(t, smallHalf)
	types := dtypes(g)
	for op, want := range map[string]graph.DType{
		"LayerNormalization": graph.Float32, "Softmax": graph.Float32, "MatMul": graph.Float16,
		"FastGelu":                        graph.Float16,
		"SoftmaxCrossEntropyLossInternal": graph.Float32, "SoftmaxGrad_13": graph.Float32, "FusedMatMul": graph.Float16,
		"Gemm": graph.Float16, "LayerNormalizationGrad": graph.Float32,
	} {
		nodes := find(g, op)
		assert.NotEmpty(t, nodes, op)
		for _, n := range nodes {
			assert.Equal(t, want, types[n.Inputs[0]], n.Name)
		}
	}
	for _, d := range g.Outputs {
		assert.Equal(t, d.Type.DType, types[d.Value], g.ValueName(d.Value))
	}
	assert.Empty(t, find(buildTransformer(t, smallTransformer), "Cast"), "no casts in float32")
}

// dtypes follows float types through the graph by the rules of the operators that occur: a Cast
// states its result, all others have one float type. It is a second opinion besides package op.
func dtypes(g *graph.Graph) []graph.DType {
	types := make([]graph.DType, len(g.Values))
	for i := range g.Values {
		types[i] = g.Values[i].Type.DType
	}
	for _, n := range g.Nodes {
		d := graph.Undefined
		for _, in := range n.Inputs {
			if in != graph.NoValue && types[in].IsFloat() {
				d = types[in]
				break
			}
		}
		if n.Op == "Cast" {
			d = graph.DType(n.Int("to", 0))
		}
		for _, out := range n.Outputs {
			if out != graph.NoValue {
				types[out] = d
			}
		}
	}
	return types
}

// TestHalfInputsAgree: no node of the half-precision graph mixes float types, but for
// Dropout's ratio, which is float32 throughout.
func TestHalfInputsAgree(t *testing.T) {
	g := buildTransformer(t, smallHalf)
	types := dtypes(g)
	ratio, ok := g.Lookup("dropout_ratio")
	require.True(t, ok)
	for _, n := range g.Nodes {
		first := graph.Undefined
		for _, in := range n.Inputs {
			if in == graph.NoValue || in == ratio || !types[in].IsFloat() {
				continue
			}
			if first == graph.Undefined {
				first = types[in]
			}
			assert.Equal(t, first, types[in], "%s reads %s", n.Name, g.ValueName(in))
		}
	}
}
