package budget

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
)

// TestLayers: the layers of the built-in transformer are found, and a plan to a budget is cheaper
// than running them again.
func TestLayers(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	p := problemOf(t, m, ex.Dims, nil)
	answer, err := Fit(t.Context(), p, &Options{Bytes: p.Base.Peak.Bytes / 2, Effort: 0.1})
	require.NoError(t, err)
	layers := answer.tasks.layers()
	require.Len(t, layers, 4)
	for i, l := range layers {
		require.Less(t, l.from, l.to)
		if i > 0 {
			require.Equal(t, layers[i-1].to, l.from)
			first := m.Graph.NodeLabel(p.Evaluator.Analysis.Order[l.from])
			require.True(t, strings.HasSuffix(first, "/ln_2/LayerNormalization"), first)
		}
	}
	cost := int64(0)
	for _, pl := range answer.Placements {
		for _, id := range pl.Nodes {
			cost += answer.tasks.graph.Tasks[p.Evaluator.Pos[id]].Cost
		}
	}
	overhead := float64(cost) / answer.tasks.stepCost()
	others := answer.Alternatives(t.Context())
	require.NotEmpty(t, others)
	for _, o := range others {
		require.True(t, o.Fits, o.String())
		require.Less(t, overhead, o.Overhead)
		require.Less(t, o.Live, p.Base.Peak.Bytes)
	}
}

// TestNoLayers: where the graph fits as it is, no layer needs to run again.
func TestNoLayers(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	p := problemOf(t, m, ex.Dims, nil)
	answer, err := Fit(t.Context(), p, &Options{Bytes: 2 * p.Base.Peak.Bytes})
	require.NoError(t, err)
	others := answer.Alternatives(t.Context())
	require.Len(t, others, 2)
	none := others[1]
	require.GreaterOrEqual(t, none.Live, p.Base.Peak.Bytes)
	require.Less(t, float64(none.Live), 1.001*float64(p.Base.Peak.Bytes), "sizes are rounded")
	none.Live = 0
	require.Equal(t, Alternative{Kind: FewLayers, Fits: true}, none)
	require.Positive(t, others[0].Overhead)
}

func TestLongestRepeat(t *testing.T) {
	for _, c := range []struct {
		text            string
		period, from, n int
	}{
		{"xabababy", 2, 1, 6}, {"abab", 2, 0, 4}, {"xaaay", 1, 1, 3}, {"abc", 1, 0, 0}, {"ababx", 2, 0, 4},
		{"xababa", 2, 1, 4}, {"", 1, 0, 0},
	} {
		var h []uint64
		for _, r := range c.text {
			h = append(h, uint64(r))
		}
		from, n := longestRepeat(h, c.period)
		require.Equal(t, c.n, n, c.text)
		if n > 0 {
			require.Equal(t, c.from, from, c.text)
		}
	}
}
