package report

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/view/timeline"
)

// chartPlan plans a drawn training graph.
func chartPlan(t *testing.T, seed uint64) *planner.Plan {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 31))
	m := graphtest.Training(rng, graphtest.Options{Nodes: 5 + rng.IntN(80), Parts: seed%2 == 0, Rows: 64, Width: 256})
	types, err := op.InferAsIs(m)
	require.NoError(t, err)
	p, err := planner.MakeContext(context.Background(), m, types, planner.Options{Strategy: planner.Level(seed % 3)})
	require.NoError(t, err)
	return p
}

// drawnHeights reads the heights of the columns of a chart back, in eighths of a line.
func drawnHeights(t *testing.T, rows []string, left, width int) (planned, base []int) {
	t.Helper()
	planned, base = make([]int, width), make([]int, width)
	for at, row := range rows {
		cells := []rune(row)[left:]
		require.LessOrEqual(t, len(cells), width)
		for i, c := range cells {
			up := (chartLines - 1 - at) * levels
			switch h := slices.Index(filled, c); {
			case c == beyond:
				base[i] = max(base[i], up+levels)
			case h > 0:
				planned[i] = max(planned[i], up+h)
			}
		}
	}
	return planned, base
}

// highest is what is live at most in a span of time, by looking at every step.
func highest(t *timeline.Timeline, from, to float64) (most int64) {
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Start < to && (s.Start+s.Seconds > from || s.Start >= from) {
			most = max(most, t.Persistent.Sum()+t.Simulated.Live[i])
		}
	}
	return most
}

// TestTimeChart: the columns are as high as what is live at most in their spans of time, to half an
// eighth of a line, nothing is wider than the screen, and a narrow screen has no chart.
func TestTimeChart(t *testing.T) {
	baseline := 0
	for seed := range uint64(20) {
		p := chartPlan(t, seed)
		planned, err := timeline.Of(p)
		require.NoError(t, err)
		base, err := timeline.Baseline(p)
		require.NoError(t, err)
		for _, columns := range []int{60, 75, 200} {
			var b bytes.Buffer
			require.NoError(t, timeChart(&Screen{&b, columns}, p, columns))
			lines := strings.Split(b.String(), "\n")
			for _, line := range lines {
				require.LessOrEqual(t, utf8.RuneCountInString(line), min(columns, mostChart))
			}
			seconds := max(planned.Seconds(), base.Seconds())
			most := max(highest(planned, 0, seconds), highest(base, 0, seconds))
			left := utf8.RuneCountInString(Bytes(most)) + 2
			require.True(t, strings.HasPrefix(lines[2], Bytes(most)+" ┤"), lines[2])
			width := min(columns, mostChart) - left
			got, shaded := drawnHeights(t, lines[2:2+chartLines], left, width)
			full := 0
			for i := range got {
				from, to := seconds*float64(i)/float64(width), seconds*float64(i+1)/float64(width)
				height := func(t *timeline.Timeline, wider float64) float64 { // a step may begin at an edge
					n := float64(highest(t, from-wider, to+wider)) / float64(most) * chartLines * levels
					return max(n, min(n*1e9, 1))
				}
				edge := seconds * 1e-9
				require.GreaterOrEqual(t, float64(got[i]), height(planned, -edge)-0.5001, "column %d", i)
				require.LessOrEqual(t, float64(got[i]), height(planned, edge)+0.5001, "column %d", i)
				if shaded[i] > 0 {
					baseline++
					require.Greater(t, height(base, edge), float64(got[i]))
					require.GreaterOrEqual(t, float64(shaded[i]), height(base, -edge)-levels/2)
					require.LessOrEqual(t, float64(shaded[i]), height(base, edge)+levels/2+0.5)
				}
				full = max(full, got[i], shaded[i])
			}
			require.Equal(t, chartLines*levels, full, "the peak is seen")
		}
		tiny := chart{width: 10, seconds: planned.Seconds(), most: 1 << 62}
		require.Equal(t, slices.Repeat([]int{1}, 10), tiny.heights(planned), "what is there is seen")
		var none bytes.Buffer
		require.NoError(t, timeChart(&none, p, leastChart-1))
		require.NoError(t, timeChart(&none, p, 0))
		require.Empty(t, none.String())
	}
	require.Greater(t, baseline, 50)
}
