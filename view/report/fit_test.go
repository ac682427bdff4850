package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner"
)

// TestFitSentence: what is compared is what the budget bounds, and the difference is in bytes.
func TestFitSentence(t *testing.T) {
	for _, c := range []struct {
		fit  planner.Fit
		want string
	}{
		{planner.Fit{Budget: &planner.Budget{Total: 100}, Limit: 60, Arena: 50, Persistent: 40},
			"total 90 B, budget 100 B: 10 B to spare"},
		{planner.Fit{Budget: &planner.Budget{Total: 10}, Limit: -30, Arena: 50, Persistent: 40},
			"total 90 B, budget 10 B: 80 B over"},
		{planner.Fit{Budget: &planner.Budget{Share: 0.5}, Limit: 50, Arena: 50, Persistent: 40},
			"arena 50 B, budget 50 B (50.0 %): 0 B to spare"},
		{planner.Fit{Budget: &planner.Budget{Arena: 49}, Limit: 49, Arena: 50},
			"arena 50 B, budget 49 B: 1 B over"},
		{planner.Fit{Budget: &planner.Budget{Total: 9, Runtime: true}, Limit: 5, Arena: 5, Persistent: 4},
			"total in stock ONNX Runtime 9 B, budget 9 B: 0 B to spare"},
	} {
		require.Equal(t, c.want, FitSentence(&c.fit))
	}
}
