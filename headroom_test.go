package memopt_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner"
)

// TestHeadroom: the batch that is said to fit does, at the price that is said, and one more does not.
func TestHeadroom(t *testing.T) {
	m := example(t, 32)
	require.Equal(t, "batch", m.BatchSymbol())
	b := memopt.Budget{Total: 10 << 20}
	_, err := m.Plan(t.Context(), b, memopt.PlanOptions{})
	var infeasible *planner.InfeasibleError
	require.ErrorAs(t, err, &infeasible)
	room, err := m.Headroom(t.Context(), "batch", b, infeasible, memopt.PlanOptions{})
	require.NoError(t, err)
	require.True(t, room.Complete)
	require.Positive(t, room.Size)
	p, err := example(t, room.Size).Plan(t.Context(), b, memopt.PlanOptions{})
	require.NoError(t, err)
	require.LessOrEqual(t, p.PeakRecord().TotalBytes, b.Total)
	require.Equal(t, p.PeakRecord().TotalBytes, room.Total)
	require.Equal(t, p.Overhead, room.Overhead)
	_, err = example(t, room.Size+1).Plan(t.Context(), b, memopt.PlanOptions{})
	require.True(t, errors.Is(err, planner.ErrInfeasible), "%v", err)

	require.Empty(t, example(t, 1).BatchSymbol(), "there is no smaller one")
}

// example is the built-in convolutional network at a batch's size.
func example(t *testing.T, batch int64) *memopt.Model {
	m, err := memopt.Example("cnn", memopt.Options{Dims: map[string]int64{"batch": batch}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}
