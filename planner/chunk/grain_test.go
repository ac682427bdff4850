package chunk_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/op"
	"memopt/planner/chunk"
)

// TestGrainOfRows: where a row of a cut is several rows of a product, parts begin at rows that are
// multiples of the product's grain together; where that is none of them, the product stays whole.
func TestGrainOfRows(t *testing.T) {
	const rows = 8
	for inside := int64(60); inside <= 200; inside += 4 {
		m := trained(t, fmt.Sprintf(`m (float[%[2]d, 4] x, float[4, 6] w) => (float loss) 
			<int64[3] split = {%[1]d, %[3]d, 6}> { a = MatMul(x, w)  b = Reshape(a, split)  c = Tanh(b)  d = Exp(c)  loss = ReduceMean<keepdims = 0>(d) }`,
			rows, rows*inside, inside), nil, "w")
		b := newBaseline(t, m)
		cut, err := chunk.Around(b.bound, b.order, "b", "0", rows, 0, chunk.Exact)
		require.NoError(t, err, "%d inside", inside)
		require.True(t, cut.Exact)
		unit := int64(1) // rows of the cut
		for unit*inside%op.ProductGrain != 0 {
			unit++
		}
		require.Equal(t, unit < rows, slices.Contains(cut.Nodes, "MatMul#0"), "%d inside", inside)
		if unit >= rows {
			unit = 1 // without the product
		}
		require.Equal(t, int((rows+unit-1)/unit), cut.Parts, "%d inside", inside)
		b.hold(t, *cut)
	}
}
