package memopt_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner"
)

// TestTradeOffs: each lower peak that is offered is had by planning for it, at that price.
func TestTradeOffs(t *testing.T) {
	m, err := memopt.Example("transformer", memopt.Options{})
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	offers, err := p.TradeOffs(t.Context())
	require.NoError(t, err)
	require.Len(t, offers, 3)
	budget, every, level1 := offers[0], offers[1], offers[2]
	require.Equal(t, "Budget 46%", budget.String())
	require.Equal(t, planner.EveryLayer, every.Kind)
	require.Equal(t, planner.LayerLevel1, level1.Kind)
	require.LessOrEqual(t, float64(budget.Live), 0.46*float64(p.Base.Peak.Bytes))
	require.LessOrEqual(t, float64(every.Live), 0.46*float64(p.Base.Peak.Bytes))
	require.Less(t, budget.Overhead, every.Overhead, "a plan is cheaper than checkpoints of as many bytes")

	wanted, err := m.Plan(t.Context(), memopt.Level(1), memopt.PlanOptions{})
	require.NoError(t, err)
	require.Equal(t, planner.Alternative{Kind: planner.LayerLevel1, Live: wanted.Planned.Peak.Bytes,
		Overhead: wanted.Overhead, Fits: true}, level1)
	found, err := m.Plan(t.Context(), memopt.Budget{Share: 0.46, Effort: 1}, memopt.PlanOptions{})
	require.NoError(t, err)
	require.LessOrEqual(t, found.Overhead, budget.Overhead)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	offers, err = p.TradeOffs(ended)
	require.NoError(t, err)
	require.Empty(t, offers)
}
