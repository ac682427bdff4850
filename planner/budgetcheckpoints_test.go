package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/remat"
)

// TestCheckpointsOfHugeGraphs: the plans that huge graphs get without a search are what the
// simulator and the costs of a step say, and the first that fits ends the list.
func TestCheckpointsOfHugeGraphs(t *testing.T) {
	var text strings.Builder
	text.WriteString("<ir_version: 8, opset_import: [\"\": 18]> g (float[64, 64] x) => (float loss) <float w = {1}> {\nv0 = Mul (x, w)\n")
	const nodes = 400
	for i := range nodes {
		fmt.Fprintf(&text, "v%d = Relu (v%d)\n", i+1, i)
	}
	fmt.Fprintf(&text, "loss = ReduceMean <keepdims = 0> (v%d)\n}", nodes)
	m, err := graph.Parse(text.String(), "chain")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	joint, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	p, err := Make(joint.Model, joint.Types, Options{})
	require.NoError(t, err)
	for _, c := range []struct {
		share float64
		plans int // the graph as it is included
	}{{0.9, 2}, {0.001, 1 + len(fewSpacings)}} {
		found := 0
		p.Options.Budget = &Budget{Share: c.share, Found: func() { found++ }}
		b := p.newBudgeter(t.Context())
		require.NoError(t, b.add(&remat.Answer{Method: "order"}))
		require.NoError(t, b.checkpoints())
		require.Equal(t, c.plans, len(b.points))
		best := b.cheapest(b.budget)
		require.Equal(t, c.share > 0.5, best != nil)
		if best == nil {
			require.Zero(t, found)
			continue
		}
		require.Equal(t, 1, found)
		require.NotEmpty(t, best.placements[0].Reason)
		_, err = p.takePlacements(best.placements)
		require.NoError(t, err)
		require.Equal(t, p.Planned.Peak.Bytes, best.live)
		require.Equal(t, p.Arena.Bytes, best.arena)
		require.Less(t, best.arena, p.Base.Peak.Bytes)
		require.InEpsilon(t, p.Overhead, float64(best.cost)/b.stepCost(), 1e-3)
	}
}
