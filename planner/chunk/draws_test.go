package chunk_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/chunk"
	"memopt/recompute"
)

// TestDropoutInParts cuts a decoder with dropout around every Dropout, along batch, heads, queries
// and hidden units: the Dropout with its gradient alone, which gives every output of the graph bit
// for bit, and with what is around it, whose sums may be rounded otherwise. The file has seeds, or
// none.
func TestDropoutInParts(t *testing.T) {
	for _, seeded := range []bool{true, false} {
		m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 3, "seq": 6}})
		require.NoError(t, err)
		if !seeded {
			m = withoutSeeds(t, m)
		}
		b := newBaseline(t, m)
		inner, outer := 0, 0
		for i, dim := range []string{"0", "1", "2", "0-1"} {
			var alone []chunk.Cut // all are held at once
			for id, n := range b.bound.Graph.Nodes {
				if n.Kind != op.Dropout {
					continue
				}
				around, err := chunk.Around(b.bound, b.order, b.bound.Graph.ValueName(n.Output(0)), dim, 2+i%2, 0.5,
					chunk.Fast)
				if err == nil && seeded && id%4 == i {
					b.hold(t, *around)
				}
				alone = append(alone, chunk.Cut{Region: b.bound.Graph.ValueName(n.Output(1)), Dim: dim,
					Parts: 2 + i%2, Nodes: b.withGradient(n)})
			}
			in, out := countParts(t, b.holdBits(t, alone...))
			inner, outer = inner+in, outer+out
		}
		t.Logf("%d parts of outer dims, %d of inner ones", outer, inner)
		require.Greater(t, outer, 20)
		require.Greater(t, inner, 20)
	}
}

// withGradient are the labels of a Dropout and of what reads its mask.
func (b *baseline) withGradient(n *graph.Node) (labels []string) {
	for id, l := range recompute.Labels(b.bound.Graph) {
		if other := b.bound.Graph.Nodes[id]; other == n || slices.Contains(other.Inputs, n.Output(1)) {
			labels = append(labels, l)
		}
	}
	return labels
}

// holdBits applies cuts, executes both graphs for several steps and compares what they give bit
// for bit.
func (b *baseline) holdBits(t *testing.T, cuts ...chunk.Cut) *graph.Graph {
	a, err := chunk.Apply(t.Context(), b.m.Model, b.order, b.plan.Analysis.Boundary, b.m.Dims, cuts)
	require.NoError(t, err, "%v", cuts)
	parts, err := memopt.New(a.Model, memopt.Options{})
	require.NoError(t, err)
	side := parts.Execution().Baseline
	side.Order, side.Dims = graph.FileOrder(parts.Graph), b.m.Dims
	v, err := verify.Verify(t.Context(), b.x.Baseline, side, b.x.Inputs,
		verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 2}, verify.Tolerance{Bitwise: true})
	require.NoError(t, err, "%v", cuts)
	require.Nil(t, v.First, "%v", cuts)
	return parts.Graph
}

// countParts counts the parts of random nodes: those of inner dims, and the others.
func countParts(t *testing.T, g *graph.Graph) (inner, outer int) {
	for _, n := range g.Nodes {
		d, part, err := op.DrawsOf(n)
		require.NoError(t, err)
		if part && d.Run > 0 {
			inner++
		} else if part {
			outer++
		}
	}
	return inner, outer
}

// withoutSeeds takes the seeds out of a model's random nodes.
func withoutSeeds(t *testing.T, m *memopt.Model) *memopt.Model {
	bare := m.Model.Clone()
	for _, n := range bare.Graph.Nodes {
		if info := op.Of(n.Kind); info.Random {
			n.Attrs = slices.DeleteFunc(n.Attrs, func(a graph.Attr) bool { return a.Name == info.SeedAttr })
		}
	}
	out, err := memopt.New(bare, memopt.Options{})
	require.NoError(t, err)
	out.Dims = m.Dims
	return out
}
