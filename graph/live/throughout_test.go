package live

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestProductOverSum: a product lies over the sum that it goes on with, but not where a factor of it
// lies, too: as itself, as a view, or in the buffer of a state.
func TestProductOverSum(t *testing.T) {
	type ids = []graph.ValueID
	roots := func(in ids) ids {
		p := units(1, 1, 1, 1, 1, 1)
		p.Steps = []Step{
			step(op.MatMul, ids{0, 0}, nil, 1),
			step(op.MatMul, ids{0, 0}, nil, 2),
			step(op.Identity, ids{2}, nil, 3),
			step(op.Gemm, in, nil, 4),
			step(op.MatMul, ids{4, 4}, nil, 5),
		}
		tl, err := p.Simulate()
		require.NoError(t, err)
		return tl.Root
	}
	require.Equal(t, ids{-1, 1, 2, 2, 2, 5}, roots(ids{1, 1, 2}))
	require.Equal(t, ids{-1, 1, 2, 2, 4, 5}, roots(ids{2, 1, 2}))
	require.Equal(t, ids{-1, 1, 2, 2, 4, 5}, roots(ids{1, 3, 2}))
	require.Equal(t, ids{-1, 1, 2, 2, 4, 5}, roots(ids{1, 2, 3}))

	copied := func(in ids) []State {
		p := units(1, 1, 1)
		p.Persistent[1], p.States, p.Outputs = true, []State{{0, 2}}, ids{2}
		p.Steps = []Step{step(op.Gemm, in, nil, 2)}
		tl, err := p.Simulate()
		require.NoError(t, err)
		return tl.Copied
	}
	require.Empty(t, copied(ids{1, 1, 0}))
	require.Equal(t, []State{{0, 2}}, copied(ids{1, 0, 0}))
}
