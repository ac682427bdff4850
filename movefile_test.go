package memopt_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/check/planfile"
	"memopt/configs"
	"memopt/graph/onnx"
	"memopt/planner/chunk"
	"memopt/planner/offload"
)

// TestMovingFile: a plan file with moves makes the graph of the plan byte for byte, says the same numbers, and has no
// fault.
func TestMovingFile(t *testing.T) {
	moved, proved, parts := 0, 0, 0
	for _, c := range []struct {
		name       string
		batch, seq int64
		share      float64
		rate       float64
		chunk      chunk.Mode
	}{
		{"transformer-small", 4, 64, 0.6, 1e12, chunk.Off}, {"transformer-small", 8, 64, 0.3, 1e11, chunk.Off},
		{"mlp", 4096, 0, 0.3, 1e11, chunk.Fast}, {"mlp", 4096, 0, 0.4, 3e10, chunk.Off},
		{"cnn", 2, 0, 0.9, 0, chunk.Off},
	} {
		dims := map[string]int64{"batch": c.batch}
		if c.seq > 0 {
			dims["seq"] = c.seq
		}
		m, err := memopt.Example(c.name, memopt.Options{Dims: dims})
		require.NoError(t, err)
		o := memopt.PlanOptions{}
		o.Chunk = c.chunk
		p, err := m.PlanMoves(t.Context(), memopt.Budget{Share: c.share, Effort: 0.002}, o, memopt.MoveOptions{
			Link: offload.Link{BytesPerSecond: c.rate, Latency: 700}, HostBudget: 1 << 34, Seed: 3})
		require.NoError(t, err)
		data, err := p.File()
		require.NoError(t, err)
		r, err := configs.ParsePlan(data, c.name)
		require.NoError(t, err)
		q, err := m.MovingOf(t.Context(), r, memopt.PlanOptions{})
		require.NoError(t, err)
		var a, b bytes.Buffer
		require.NoError(t, onnx.Write(&a, p.Model))
		require.NoError(t, onnx.Write(&b, q.Model))
		require.True(t, bytes.Equal(a.Bytes(), b.Bytes()), c.name)
		require.Equal(t, []any{p.Peak, p.Arena, p.HostPeak, p.Moved, p.Persistent, p.ArenaAsIs},
			[]any{q.Peak, q.Arena, q.HostPeak, q.Moved, q.Persistent, q.ArenaAsIs})
		require.InDelta(t, p.Seconds, q.Seconds, 1e-9*p.Seconds)
		require.InDelta(t, p.Overhead, q.Overhead, 1e-8)
		again, err := q.File()
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))

		got, _, err := planfile.Check(m.Model, m.StructureSHA256, m.Dims, r)
		require.NoError(t, err)
		require.Empty(t, got.Faults, c.name)
		require.Contains(t, got.Proved, "numbers")
		if len(p.Moves) > 0 {
			moved++
		}
		if got.BoundProved != nil {
			proved++
		}
		if p.Plan.Whole != nil {
			parts++
		}
	}
	t.Logf("%d move values, %d certificates, %d with regions in parts", moved, proved, parts)
	require.Greater(t, moved, 1)
	require.Positive(t, proved)
	require.Positive(t, parts)
}
