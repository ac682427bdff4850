package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// parseGraph parses a graph that must be valid.
func parseGraph(t testing.TB, text string) *graph.Graph {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	return m.Graph
}

// randomDAG makes a graph whose nodes stand in random order in the file. With cycle it
// may have cycles.
func randomDAG(rng *rand.Rand, nodes int, cycle bool) *graph.Graph {
	g := graph.New("dag", nil)
	place := rng.Perm(nodes) // by depth
	made := make([]*graph.Node, nodes)
	for depth, at := range place {
		n := &graph.Node{Op: "Op", Outputs: []graph.ValueID{g.Value(fmt.Sprintf("v%d", at))}}
		for range rng.IntN(4) {
			from := rng.IntN(nodes)
			if !cycle {
				if depth == 0 {
					continue
				}
				from = place[rng.IntN(depth)]
			}
			n.Inputs = append(n.Inputs, g.Value(fmt.Sprintf("v%d", from)))
		}
		made[at] = n
	}
	for _, n := range made {
		if err := g.AddNode(n); err != nil {
			panic(err)
		}
	}
	if err := g.Seal(); err != nil {
		panic(err)
	}
	return g
}

// greedyOrder is Topological as its comment defines it, in quadratic time: of the nodes whose
// producers are done, always the first in the file. ok is false where nodes wait for each other.
func greedyOrder(g *graph.Graph) (order graph.Order, ok bool) {
	done := make([]bool, len(g.Nodes))
	for range g.Nodes {
		next := graph.NoNode
		for i := len(g.Nodes) - 1; i >= 0; i-- {
			ready := !done[i]
			g.EachProducer(graph.NodeID(i), func(p graph.NodeID) { ready = ready && done[p] })
			if ready {
				next = graph.NodeID(i)
			}
		}
		if next == graph.NoNode {
			return nil, false
		}
		done[next] = true
		order = append(order, next)
	}
	return order, true
}

func TestTopological(t *testing.T) {
	cycles := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 23))
		g := randomDAG(rng, 1+rng.IntN(12), seed%4 == 0)
		want, ok := greedyOrder(g)
		got, err := graph.Topological(g)
		if !ok {
			cycles++
			checkCycle(t, g, err)
			continue
		}
		require.NoError(t, err, "seed %d", seed)
		require.NoError(t, got.Check(g), "seed %d", seed)
		// A valid file is kept; the greedy order then is the file as well.
		require.Equal(t, want, got, "seed %d", seed)
		for i, p := range got.Positions() {
			require.EqualValues(t, i, got[p])
		}
	}
	require.Greater(t, cycles, 20)
}

// checkCycle requires that each node of a reported cycle reads from the one before it.
func checkCycle(t *testing.T, g *graph.Graph, err error) {
	t.Helper()
	var cycle *graph.CycleError
	require.ErrorAs(t, err, &cycle)
	ids := map[string]graph.NodeID{}
	for i := range g.Nodes {
		ids[g.NodeLabel(graph.NodeID(i))] = graph.NodeID(i)
	}
	for i, name := range cycle.Nodes {
		before := cycle.Nodes[(i+len(cycle.Nodes)-1)%len(cycle.Nodes)]
		reads := false
		g.EachProducer(ids[name], func(p graph.NodeID) { reads = reads || p == ids[before] })
		require.True(t, reads, "%v: %s does not read from %s", cycle.Nodes, name, before)
	}
}

func TestCycleErrorText(t *testing.T) {
	ring := func(n int) string {
		g := graph.New("ring", nil)
		for i := range n {
			err := g.AddNode(&graph.Node{Name: fmt.Sprintf("n%d", i), Op: "Op",
				Inputs:  []graph.ValueID{g.Value(fmt.Sprintf("v%d", (i+n-1)%n))},
				Outputs: []graph.ValueID{g.Value(fmt.Sprintf("v%d", i))}})
			require.NoError(t, err)
		}
		_, err := graph.Topological(g)
		return err.Error()
	}
	require.Equal(t, `graph "ring": its nodes form a cycle: n0 → n0`, ring(1))
	require.Equal(t, `graph "ring": its nodes form a cycle: n1 → n2 → n0 → n1`, ring(3))
	require.Equal(t, `graph "ring": its nodes form a cycle: n1 → n2 → n3 → n4 → n5 → n6 → n7 → n8 → … (20 nodes) → n1`,
		ring(20))
}

func TestOrderCheck(t *testing.T) {
	g := parseGraph(t, "g (x) => (c) { [a] a = Neg (x)\n [b] b = Neg (a)\n [c] c = If <then_branch = t () => (b) "+
		"{}> (x) }")
	for _, c := range []struct {
		order graph.Order
		want  string
	}{
		{graph.Order{0, 1, 2}, ""},
		{graph.Order{0, 1}, `graph "g": the order lists 2 nodes, the graph has 3`},
		{graph.Order{0, 0, 1}, `graph "g": node 0 is listed twice or does not exist`},
		{graph.Order{0, 1, 7}, `graph "g": node 7 is listed twice or does not exist`},
		{graph.Order{0, 1, -1}, `graph "g": node -1 is listed twice or does not exist`},
		{graph.Order{1, 0, 2}, `graph "g": node "b" stands before its producer "a"`},
		{graph.Order{0, 2, 1}, `graph "g": node "c" stands before its producer "b"`},
	} {
		err := c.order.Check(g)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.want)
	}
}

// TestTopologicalSize holds that a long chain in reverse order needs neither recursion nor
// quadratic time.
func TestTopologicalSize(t *testing.T) {
	const n = 200_000
	var b strings.Builder
	b.WriteString("g (v0) => () {\n")
	for i := n; i > 0; i-- {
		fmt.Fprintf(&b, "v%d = Neg (v%d)\n", i, i-1)
	}
	b.WriteString("}")
	g := parseGraph(t, b.String())
	order, err := graph.Topological(g)
	require.NoError(t, err)
	require.EqualValues(t, n-1, order[0])
	require.EqualValues(t, 0, order[n-1])
}
