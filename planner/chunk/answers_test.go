package chunk_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph"
	"memopt/internal/test/answers"
	"memopt/internal/test/graphtest"
	"memopt/planner/chunk"
)

// TestAnswers holds the cuts that are proposed, the graphs in parts that they make and the floors to
// testdata/answers.txt. Whether graphs in parts compute the same has tests of its own.
func TestAnswers(t *testing.T) {
	var have strings.Builder
	line := func(name string, m *memopt.Model) {
		p, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
		require.NoError(t, err)
		bound, err := chunk.Bind(m.Model, m.Dims)
		require.NoError(t, err)
		order, need := p.Analysis.Order, worstStep(t, bound.Graph)
		for _, mode := range []chunk.Mode{chunk.Exact, chunk.Fast} {
			floor, err := chunk.Floor(m.Model, order, m.Dims, mode)
			require.NoError(t, err)
			lists, err := chunk.Propose(t.Context(), m.Model, order, m.Dims, need/2, mode)
			require.NoError(t, err)
			fmt.Fprintf(&have, "%s, %s: need %d, floor %d, %d lists\n", name, mode, need, floor, len(lists))
			for _, cuts := range lists[:min(len(lists), 2)] {
				a, err := chunk.Apply(t.Context(), m.Model, order, p.Analysis.Boundary, m.Dims, cuts)
				require.NoError(t, err)
				fmt.Fprintf(&have, "  %d cuts %s: %d nodes, need %d, %s %s\n", len(cuts), answers.Sum(cuts),
					len(a.Model.Graph.Nodes), worstStep(t, a.Model.Graph),
					answers.Sum(a.Origin), answers.Sum(texts(a.Model.Graph)))
			}
		}
	}
	for _, name := range []string{"mlp", "transformer-small"} {
		m, err := memopt.Example(name, memopt.Options{})
		require.NoError(t, err)
		line(name, m)
	}
	for seed := range uint64(10) {
		o := graphtest.Options{Nodes: 20 + 6*int(seed), Parts: seed%2 == 0, Layers: seed%3 == 0, Rows: 64 << seed % 4}
		m, err := memopt.New(graphtest.Training(rand.New(rand.NewPCG(seed, 23)), o), memopt.Options{})
		require.NoError(t, err)
		line(fmt.Sprintf("drawn %d", seed), m)
	}
	answers.Hold(t, "testdata/answers.txt", have.String())
}

// texts are the nodes of a graph in a line each.
func texts(g *graph.Graph) (list []string) {
	for _, n := range g.Nodes {
		list = append(list, fmt.Sprint(n.Name, n.Op, n.Inputs, n.Outputs))
	}
	return list
}
