package weights

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/symbolic"
)

// TestStatic: tensors alone whose dims are all numbers have a static shape.
func TestStatic(t *testing.T) {
	two, n := symbolic.Const(2), symbolic.Sym("N")
	tensor := func(dims ...symbolic.Expr) graph.Type {
		return graph.Type{Form: graph.FormTensor, DType: graph.Float32, Shape: graph.Shape{Ranked: true, Dims: dims}}
	}
	unranked := tensor()
	unranked.Shape.Ranked = false
	sequence := tensor(two)
	sequence.Form = graph.FormSequence
	for _, c := range []struct {
		typ   graph.Type
		shape []int // nil: it is not static
	}{{tensor(), []int{}}, {tensor(two, two), []int{2, 2}}, {tensor(symbolic.Const(0)), []int{0}},
		{tensor(two, n), nil}, {tensor(symbolic.Const(-1)), nil}, {unranked, nil}, {sequence, nil}} {
		shape, ok := static(c.typ)
		require.Equal(t, c.shape != nil, ok, "%v", c.typ)
		if ok {
			require.Equal(t, c.shape, shape)
		}
	}
}
