package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner"
	"memopt/view/report"
)

// TestInfeasibleInCuts: the message has the step that rules out all cuts, and only where there is one.
func TestInfeasibleInCuts(t *testing.T) {
	e := planner.InfeasibleError{Budget: 1 << 20, LowerBound: 1 << 10}
	require.Equal(t, "no plan fits an arena of 1.00 MiB: no plan in this order has an arena of less than 1.00 KiB; "+
		"allow more, or use smaller dims", report.InfeasibleBudgetText(&e))
	e.InCuts = 1 << 21
	require.Equal(t, "no plan fits an arena of 1.00 MiB: no plan in this order has an arena of less than 1.00 KiB, "+
		"and with regions in the parts that were tried a step takes at least 2.00 MiB; allow more, or use smaller dims",
		report.InfeasibleBudgetText(&e))
}
