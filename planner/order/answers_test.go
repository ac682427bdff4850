package order

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/answers"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// TestAnswers holds the orders that are found of graphs larger than those that brute force can check to
// testdata/answers.txt.
func TestAnswers(t *testing.T) {
	var have strings.Builder
	line := func(name string, m *graph.Model, dims symbolic.Env, work int64) {
		b, err := live.FindBoundary(m)
		require.NoError(t, err)
		sizes, err := live.EvalSizes(m.Graph, dims)
		require.NoError(t, err)
		start := graph.FileOrder(m.Graph)
		before, err := live.Simulate(m.Graph, start, sizes)
		require.NoError(t, err)
		order, err := Lean(context.Background(), m, b, start, sizes, work)
		require.NoError(t, err)
		after, err := live.Simulate(m.Graph, order, sizes)
		require.NoError(t, err)
		fmt.Fprintf(&have, "%s, work %d: peak %d of %d, %s\n", name, work, after.Peak.Bytes, before.Peak.Bytes,
			answers.Sum(order))
	}
	for _, e := range examples.All() {
		m, err := e.Build()
		require.NoError(t, err)
		_, err = op.Infer(m)
		require.NoError(t, err)
		line(e.Name, shuffledModel(t, m, rand.New(rand.NewPCG(1, 77))), e.Dims, 100_000)
	}
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 78))
		nodes := 20 + 10*int(seed)
		m := graphtest.Vectors(nodes, rng.IntN)
		name := fmt.Sprintf("%d nodes of vectors", nodes)
		if seed%2 == 1 {
			m = graphtest.Training(rng, graphtest.Options{Nodes: nodes, Layers: seed%4 == 1, Yield: seed%3 == 0})
			_, err := op.Infer(m)
			require.NoError(t, err)
			m, name = shuffledModel(t, m, rng), fmt.Sprintf("%d nodes of a step", nodes)
		}
		if _, err := live.FindBoundary(m); err != nil {
			continue // no backward node reads activations
		}
		line(name, m, nil, 30_000)
		line(name, m, nil, 300_000)
	}
	answers.Hold(t, "testdata/answers.txt", have.String())
}
