package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/planner/budget"
	"memopt/symbolic"
)

// TestLeastStep: the least step of all cuts is told where each of them has a step beyond the budget.
func TestLeastStep(t *testing.T) {
	e, ok := examples.Lookup("transformer-small")
	require.True(t, ok)
	m, err := e.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	c := &chunker{infeasible: &InfeasibleError{}}
	var needs []int64
	for _, seq := range []int64{256, 128, 512} {
		p, err := Make(m, types, Options{Dims: symbolic.Env{"batch": 8, "seq": seq}})
		require.NoError(t, err)
		c.lists = append(c.lists, &chunked{asIs: p})
		needs = append(needs, budget.Need(p.problem()))
		require.GreaterOrEqual(t, needs[len(needs)-1], p.Base.LowerBound)
	}
	require.Less(t, needs[1], needs[0])
	require.Less(t, needs[0], needs[2])
	c.infeasible.Budget = needs[1] - 1
	require.Equal(t, needs[1], c.leastStep())
	c.infeasible.Budget = needs[1]
	require.Zero(t, c.leastStep())
}
