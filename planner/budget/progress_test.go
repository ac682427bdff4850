package budget

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
)

// TestProgress: what a search tells only gets better, and the last is no better than the answer.
func TestProgress(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	p := problemOf(t, m, ex.Dims, nil)
	var told []Progress
	answer, err := Fit(t.Context(), p, &Options{Bytes: p.Base.Peak.Bytes / 2, Effort: 0.5,
		Progress: func(p Progress) { told = append(told, p) }})
	require.NoError(t, err)
	require.Greater(t, len(told), 2)
	require.False(t, told[0].Fits, "the graph as it is comes first")
	for i := 1; i < len(told); i++ {
		require.LessOrEqual(t, told[i].LowestArena, told[i-1].LowestArena)
		if told[i-1].Fits {
			require.True(t, told[i].Fits)
			require.LessOrEqual(t, told[i].Overhead, told[i-1].Overhead)
		}
	}
	last := told[len(told)-1]
	require.True(t, last.Fits)
	cost := int64(0)
	for _, pl := range answer.Placements {
		for _, id := range pl.Nodes {
			cost += answer.tasks.graph.Tasks[p.Evaluator.Pos[id]].Cost
		}
	}
	require.InDelta(t, float64(cost)/answer.tasks.stepCost(), last.Overhead, 0.01)
	require.GreaterOrEqual(t, answer.Layout.Bytes, last.LowestArena)
}
