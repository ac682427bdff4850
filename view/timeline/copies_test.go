package timeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph/op"
	"memopt/planner/offload"
	"memopt/view/timeline"
)

// movedPlan is a plan whose values move over a link.
func movedPlan(t *testing.T, batch, seq int64, share, rate float64) *memopt.Moving {
	t.Helper()
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": batch, "seq": seq}})
	require.NoError(t, err)
	p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: share, Effort: 0.02}, memopt.PlanOptions{},
		memopt.MoveOptions{Link: offload.Link{BytesPerSecond: rate, Latency: 1000}, HostBudget: 1 << 30})
	require.NoError(t, err)
	require.NotEmpty(t, p.Moves)
	return p
}

// TestCopies: a step over a link takes and waits as long as the planner's copies say, also over a slower one; copies of
// one direction follow each other, begin behind their steps and end before those that wait for them; the bytes of
// values that move are live where they were stashed before; and clones of the plan's graph repeat their originals.
func TestCopies(t *testing.T) {
	for _, p := range []*memopt.Moving{movedPlan(t, 4, 64, 0.6, 2e10), movedPlan(t, 16, 128, 0.3, 4e10)} {
		slow := p.Options.Link
		slow.BytesPerSecond /= 50
		for _, link := range []offload.Link{p.Options.Link, slow, {}} {
			tl, err := timeline.Of(p.Laid)
			require.NoError(t, err)
			tl.Over(link)
			want, err := p.Laid.Copies(t.Context(), link)
			require.NoError(t, err)
			require.InDelta(t, want.Seconds, tl.Seconds(), 1e-9*want.Seconds)
			require.Len(t, tl.Copies, want.Out+want.In)
			waited, now := 0.0, 0.0
			last, bytes := map[bool]float64{}, map[bool]int64{}
			for i := range tl.Steps {
				s := &tl.Steps[i]
				require.InDelta(t, now, s.Start, 1e-12)
				now = s.Start + s.Seconds
				at := tl.CopyOf(i)
				require.Equal(t, at >= 0, op.Of(tl.Graph.Nodes[s.Node].Kind).Transfer != op.NoTransfer)
				switch {
				case at < 0:
				case tl.Waits(i):
					waited += s.Seconds
					require.GreaterOrEqual(t, now, tl.Copies[at].End)
				default:
					c := &tl.Copies[at]
					require.GreaterOrEqual(t, c.Start, max(s.Start, last[c.Out]))
					require.NotEqual(t, int32(-1), c.Wait)
					last[c.Out] = c.End
					bytes[c.Out] += c.Bytes
				}
			}
			require.InDelta(t, want.Waited, waited, 1e-9*want.Seconds)
			require.Equal(t, []int64{want.OutBytes, want.InBytes}, []int64{bytes[true], bytes[false]})
			if link == slow {
				require.Positive(t, waited)
			}
		}
		tl, err := timeline.Of(p.Laid)
		require.NoError(t, err)
		require.Equal(t, p.Laid.Planned.Host.Live, tl.Host())
		moved, again := int64(0), 0
		for i := range tl.Steps {
			s := &tl.Steps[i]
			require.Equal(t, p.Laid.Planned.Live[i], s.Live.Sum())
			moved = max(moved, s.Live[timeline.Moved])
			if s.Clone() && !op.Of(tl.Graph.Nodes[s.Node].Kind).View {
				again++
				require.Equal(t, s.Op, tl.Steps[s.Repeats].Op)
			}
		}
		require.Positive(t, moved)
		views := 0
		for _, run := range p.Plan.Sequence() {
			if run.Again && op.Of(p.Plan.Analysis.Graph.Nodes[run.Node].Kind).View {
				views++
			}
		}
		require.Equal(t, p.Plan.Recompute.Nodes-views, again)
	}
}
