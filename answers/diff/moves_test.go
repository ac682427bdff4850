package diff

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner/offload"
)

// TestOfMoves: the fields of a plan with moves are the figures of its step, and those of its stashes that move say so.
func TestOfMoves(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 4, "seq": 64}})
	require.NoError(t, err)
	o := memopt.PlanOptions{}
	p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: 0.6, Effort: 0.01}, o, memopt.MoveOptions{
		Link: offload.Link{BytesPerSecond: 2.5e9}, HostBudget: 1 << 30})
	require.NoError(t, err)
	require.NotEmpty(t, p.Moves)
	p.Overhead += 0.5                             // as if the step waited
	p.Moved, p.HostPeak = p.Moved+2, p.HostPeak+1 // so that no two figures are equal
	s, err := OfMoves(p, "moved")
	require.NoError(t, err)
	want := map[string]Value{
		"bound.overhead_lower_bound": floatValue(p.Bound),
		"bound.gap":                  floatValue((p.Overhead - p.Bound) / (1 + p.Overhead)),
		"peak.planned_bytes":         intValue(p.Peak),
		"peak.arena_bytes":           intValue(p.Arena),
		"peak.total_bytes":           intValue(p.Arena + p.Persistent),
		"recompute.overhead":         floatValue(p.Overhead),
		stepTime:                     floatValue(1000 * p.Seconds),
		planned["moves"]:             intValue(int64(len(p.Moves))),
		planned["moved"]:             intValue(p.Moved),
		planned["host"]:              intValue(p.HostPeak),
	}
	r, err := p.FileRecord()
	require.NoError(t, err)
	want["solver"] = textValue(r.Solver)
	for _, f := range s.fields {
		if v, ok := want[f.path]; ok {
			require.Equal(t, v, f.value, f.path)
			delete(want, f.path)
		}
		require.False(t, strings.HasPrefix(f.path, "fit.") || strings.HasPrefix(f.path, "next."), f.path)
	}
	require.Empty(t, want)
	require.Len(t, s.moves.items, len(p.Moves))
	moved := 0
	for _, i := range s.stashes.items {
		moves := slices.ContainsFunc(s.moves.items, func(x item) bool { return x.name == i.name })
		if i.facts[0].Value.Text == "moved" {
			require.True(t, moves, i.name)
			moved++
		} else {
			require.False(t, moves && i.facts[0].Value.Text == stateKept, i.name)
		}
	}
	require.Positive(t, moved)
}
