package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/symbolic"
)

// TestMemoryOrderNeedsSizes: an order by bytes cannot be had without bindings.
func TestMemoryOrderNeedsSizes(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	_, err = Make(m, types, Options{Order: OrderMemory})
	var unbound *symbolic.UnboundError
	require.ErrorAs(t, err, &unbound)
	require.Equal(t, []string{"batch", "seq"}, unbound.Symbols)
}

// TestAgain: a graph that is planned again has the orders of least memory that were found; a plan without
// time for a search has fewer of them, and so has the one that is made again.
func TestAgain(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	opts := Options{Order: OrderMemory, Dims: ex.Dims}
	layerwise := opts
	layerwise.Strategy = Layerwise
	first, err := Make(m, types, opts)
	require.NoError(t, err)
	again, err := first.Again(t.Context(), layerwise)
	require.NoError(t, err)
	fresh, err := Make(m, types, layerwise)
	require.NoError(t, err)
	require.Equal(t, fresh.Analysis.Order, again.Analysis.Order)
	require.Equal(t, fresh.Placements, again.Placements)
	require.Equal(t, fresh.Planned.Peak, again.Planned.Peak)

	first.least = first.least[:1]
	again, err = first.Again(t.Context(), layerwise)
	require.NoError(t, err)
	require.Equal(t, first.least, again.least)
	require.Equal(t, first.least[0], again.Analysis.Order)
}
