package op_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// layered builds a model of the given number of nodes: layers as exporters write them,
// with the arithmetic of shapes in the graph.
func layered(nodes int) *graph.Model {
	b := &builder{g: graph.New("layers", nil)}
	b.g.Reserve(nodes, 2*nodes)
	x := b.input("x", graph.Float32, symbolic.Sym("batch"), symbolic.Sym("seq"), symbolic.Const(64))
	b.weight("w", 64, 64)
	for i := 0; len(b.g.Nodes) < nodes; i++ {
		x = b.layer(x, i)
	}
	if err := b.g.AddOutput(graph.Decl{Value: x}); err != nil {
		panic(err)
	}
	return &graph.Model{Graph: b.g, Opsets: []graph.Opset{{Version: 17}}}
}

// builder adds nodes to a graph; a fault of the test's own making panics.
type builder struct{ g *graph.Graph }

func (b *builder) input(name string, d graph.DType, dims ...symbolic.Expr) graph.ValueID {
	id := b.g.Value(name)
	if err := b.g.AddInput(graph.Decl{Value: id, Type: graph.Tensor(d, graph.Dims(dims...))}); err != nil {
		panic(err)
	}
	return id
}

func (b *builder) weight(name string, dims ...int64) graph.ValueID {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	id, err := b.g.AddInitializer(&graph.TensorData{Name: name, DType: graph.Float32, Dims: dims,
		Source: graph.Raw(make([]byte, 4*n))})
	if err != nil {
		panic(err)
	}
	return id
}

func (b *builder) node(op string, inputs []graph.ValueID, attrs ...graph.Attr) graph.ValueID {
	out := b.g.Value(fmt.Sprintf("v%d", len(b.g.Nodes)))
	if err := b.g.AddNode(&graph.Node{Op: op, Inputs: inputs, Outputs: []graph.ValueID{out},
		Attrs: attrs}); err != nil {
		panic(err)
	}
	return out
}

func (b *builder) ints(dims []int64, elems ...int64) graph.ValueID {
	return b.node("Constant", nil, graph.Attr{Name: "value", Value: graph.Int64Tensor("", dims, elems...)})
}

// layer is a product whose operand is reshaped to heads and back by dims that it reads from
// x, a softmax and a residual addition: 20 nodes.
func (b *builder) layer(x graph.ValueID, _ int) graph.ValueID {
	type in = []graph.ValueID
	w, _ := b.g.Lookup("w")
	shape := b.node("Shape", in{x})
	axis := b.ints([]int64{1}, 0)
	batch := b.node("Unsqueeze", in{b.node("Gather", in{shape, b.ints(nil, 0)}), axis})
	seq := b.node("Unsqueeze", in{b.node("Gather", in{shape, b.ints(nil, 1)}), axis})
	heads := b.ints([]int64{2}, 4, 16)
	split := b.node("Concat", in{batch, seq, heads}, graph.Attr{Name: "axis", Value: int64(0)})
	q := b.node("Transpose", in{b.node("Reshape", in{b.node("MatMul", in{x, w}), split})},
		graph.Attr{Name: "perm", Value: []int64{0, 2, 1, 3}})
	k := b.node("Transpose", in{q}, graph.Attr{Name: "perm", Value: []int64{0, 1, 3, 2}})
	att := b.node("MatMul", in{b.node("Softmax", in{b.node("MatMul", in{q, k})}), q})
	back := b.node("Transpose", in{att}, graph.Attr{Name: "perm", Value: []int64{0, 2, 1, 3}})
	join := b.node("Concat", in{batch, seq, b.ints([]int64{1}, -1)}, graph.Attr{Name: "axis", Value: int64(0)})
	return b.node("Add", in{x, b.node("Reshape", in{back, join})})
}

func TestLayeredModel(t *testing.T) {
	m := layered(200)
	res, err := op.Infer(m)
	require.NoError(t, err)
	require.Empty(t, res.NoRow)
	for i := range m.Graph.Values {
		require.True(t, m.Graph.Values[i].Type.Shape.Known(), "%v", m.Graph.Values[i])
	}
	last := m.Graph.Nodes[len(m.Graph.Nodes)-1].Outputs[0]
	require.Equal(t, "float[batch, seq, 64]", m.Graph.Values[last].Type.String())
}

func BenchmarkInfer(b *testing.B) {
	for _, nodes := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m := layered(nodes)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := op.Infer(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
