package budget_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner/budget"
)

// TestRuledOut: only bounds beyond the budget rule it out, and the error has them.
func TestRuledOut(t *testing.T) {
	for _, c := range []struct {
		err  budget.InfeasibleError
		want bool
		text string
	}{
		{budget.InfeasibleError{Budget: 10, LowerBound: 11}, true, "of less than 11 bytes; allow more"},
		{budget.InfeasibleError{Budget: 10, LowerBound: 10}, false, "of less than 10 bytes; allow more"},
		{budget.InfeasibleError{Budget: 10, LowerBound: 5, InCuts: 11}, true, "of less than 5 bytes, and with " +
			"regions in the parts that were tried a step takes at least 11; allow more"},
		{budget.InfeasibleError{Budget: 10, LowerBound: 11, LowestArena: 12}, false, "reached is 12 bytes"},
	} {
		require.Equal(t, c.want, c.err.RuledOut(), "%+v", c.err)
		require.ErrorContains(t, &c.err, c.text)
	}
}
