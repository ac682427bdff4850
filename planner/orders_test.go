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
