package chunk_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	_ "memopt/internal/test/rapidflags"
	"memopt/planner"
	"memopt/planner/chunk"
)

// head is a forward model whose scores are larger than all else.
const head = `<ir_version: 8, opset_import: ["" : 17]>
head (float[rows, 32] x, int64[rows] labels, float[32, 32] w, float[32, classes] scores) => (float loss)
{ h = MatMul(x, w)  r = Tanh(h)  l = MatMul(r, scores)  loss = SoftmaxCrossEntropyLoss(l, labels) }`

// TestAnchorsBetweenParts cuts heads into parts, and holds their simulated peaks in stock ONNX
// Runtime's own order to those in the planned one, within 10 %. Without anchors, parts may run side by
// side, and do in some.
func TestAnchorsBetweenParts(t *testing.T) {
	beside := 0
	rapid.Check(t, func(t *rapid.T) {
		dims := map[string]int64{"rows": rapid.Int64Range(200, 2000).Draw(t, "rows"),
			"classes": rapid.Int64Range(1000, 4000).Draw(t, "classes")}
		parts := rapid.IntRange(4, 12).Draw(t, "parts")
		read, err := graph.Parse(head, "head")
		require.NoError(t, err)
		forward, err := memopt.New(read, memopt.Options{Dims: dims})
		require.NoError(t, err)
		m, _, err := forward.Differentiate(autograd.Options{Params: []string{"w", "scores"}}, nil)
		require.NoError(t, err)
		whole, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
		require.NoError(t, err)
		bound, err := chunk.Bind(m.Model, m.Dims)
		require.NoError(t, err)
		cut, err := chunk.Around(bound, whole.Analysis.Order, "l", "0", parts, 0, chunk.Fast)
		require.NoError(t, err)
		a, err := chunk.Apply(t.Context(), m.Model, whole.Analysis.Order, whole.Analysis.Boundary, m.Dims,
			[]chunk.Cut{*cut})
		require.NoError(t, err)
		inParts, err := memopt.New(a.Model, memopt.Options{})
		require.NoError(t, err)
		p, err := inParts.Plan(t.Context(), nil,
			memopt.PlanOptions{Options: planner.Options{Order: planner.OrderFile}})
		require.NoError(t, err)
		got, err := p.Anchor()
		require.NoError(t, err)
		require.LessOrEqual(t, got.Anchored, got.Planned+got.Planned/10, "%d parts", parts)
		if got.Bare > got.Planned+got.Planned/10 {
			beside++
		}
	})
	require.Positive(t, beside)
}
