package ort

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestClasses: nodes are of one class where operator and attributes are equal, whatever the order
// of the attributes and wherever the contents of their tensors lie in memory.
func TestClasses(t *testing.T) {
	fill := func(elems ...int64) *graph.Node {
		data := graph.Int64Tensor("", []int64{int64(len(elems))}, elems...)
		return &graph.Node{Kind: op.ConstantOfShape, Attrs: []graph.Attr{{Name: "value", Value: data}}}
	}
	require.Equal(t, classOf(fill(7)), classOf(fill(7)))
	require.NotEqual(t, classOf(fill(7)), classOf(fill(8)))
	require.NotEqual(t, classOf(fill(7)), classOf(fill(7, 7)))

	node := func(kind graph.Kind, attrs ...graph.Attr) classKey {
		return classOf(&graph.Node{Kind: kind, Attrs: attrs})
	}
	axis, keep := graph.Attr{Name: "axis", Value: int64(1)}, graph.Attr{Name: "keepdims", Value: int64(0)}
	require.Equal(t, node(op.ArgMax, axis, keep), node(op.ArgMax, keep, axis))
	require.NotEqual(t, node(op.ArgMax, axis, keep), node(op.ArgMin, axis, keep))
	require.NotEqual(t, node(op.ArgMax, axis), node(op.ArgMax, graph.Attr{Name: "axis", Value: float32(1)}))
	require.NotEqual(t, node(op.Einsum, graph.Attr{Name: "equation", Value: "a,b"}),
		node(op.Einsum, graph.Attr{Name: "equation", Value: []string{"a,b"}}))
	outside := func(offset int64) classKey {
		data := &graph.TensorData{
			DType: graph.Int64, Dims: []int64{1}, External: &graph.External{Location: "w", Offset: offset},
		}
		return node(op.Constant, graph.Attr{Name: "value", Value: data})
	}
	require.Equal(t, outside(8), outside(8))
	require.NotEqual(t, outside(8), outside(16))
}
