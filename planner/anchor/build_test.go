package anchor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
	"memopt/planner/place"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// withCopies adds nodes that copy values to graph outputs, most of them what backward nodes make,
// each right behind its maker, at the end, or somewhere in between, and some of them twice.
func withCopies(m *graph.Model, rng *rand.Rand) {
	g := m.Graph
	made := slices.Clone(g.Nodes)
	nodes := slices.Clone(made)
	for i, n := range made {
		v := n.Output(0)
		if rng.IntN(3) > 0 || i < len(made)/3 || v == graph.NoValue || g.Values[v].Type.Form != graph.FormTensor {
			continue
		}
		for range 1 + rng.IntN(2) {
			out := g.Value(fmt.Sprintf("result_%d", len(nodes)))
			c := &graph.Node{Op: "Identity", Kind: op.Identity,
				Inputs: []graph.ValueID{v}, Outputs: []graph.ValueID{out}}
			at := slices.Index(nodes, n) + 1
			nodes = slices.Insert(nodes, at+rng.IntN(len(nodes)-at+1), c)
			g.Outputs = append(g.Outputs, graph.Decl{Value: out, Type: g.Values[v].Type})
			g.Values[out].Output = true
		}
	}
	g.SetNodes(nodes)
}

// shuffled draws an order of a graph.
func shuffled(g *graph.Graph, rng *rand.Rand) graph.Order {
	wants, readers := make([]int, len(g.Nodes)), make([][]graph.NodeID, len(g.Nodes))
	var ready []graph.NodeID
	for i := range g.Nodes {
		id := graph.NodeID(i)
		g.EachProducer(id, func(p graph.NodeID) {
			wants[id]++
			readers[p] = append(readers[p], id)
		})
		if wants[id] == 0 {
			ready = append(ready, id)
		}
	}
	order := make(graph.Order, 0, len(g.Nodes))
	for len(ready) > 0 {
		i := rng.IntN(len(ready))
		id := ready[i]
		ready = slices.Delete(ready, i, i+1)
		order = append(order, id)
		for _, next := range readers[id] {
			if wants[next]--; wants[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	return order
}

// drawPlan draws a training graph with copies, and some of its nodes to run again.
func drawPlan(t *rapid.T, rng *rand.Rand) *Plan {
	m := graphtest.Training(rng, graphtest.Options{Nodes: rapid.IntRange(20, 120).Draw(t, "nodes"),
		Layers: rapid.Bool().Draw(t, "layers"), Control: rapid.Bool().Draw(t, "control")})
	_, err := op.Infer(m)
	require.NoError(t, err)
	withCopies(m, rng)
	op.Bind(m)
	_, err = op.Infer(m)
	require.NoError(t, err)
	order := graph.FileOrder(m.Graph)
	if rapid.Bool().Draw(t, "shuffled") { // so that halves take turns, as parts of both do
		order = shuffled(m.Graph, rng)
	}
	require.NoError(t, order.Check(m.Graph))
	boundary, err := live.FindBoundary(m)
	require.NoError(t, err)
	analysis := recompute.Find(m, boundary, order, recompute.Probe{Level: 1})
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	var chosen []int
	for i := range analysis.Candidates {
		if rng.IntN(2) == 0 {
			chosen = append(chosen, i)
		}
	}
	trial, err := place.NewEvaluator(analysis, sizes, place.Memory{}).Candidates(chosen)
	require.NoError(t, err)
	return &Plan{Analysis: analysis, Facts: ortsim.NewFacts(m, nil), Sizes: sizes, Trial: trial}
}

// TestBuildAsApply places anchors anywhere and holds the program by which they are judged to the
// graph that recompute.Apply writes: the same nodes in the same sequence, each reading and each
// output made at the same place. So what is emitted, and which copies fold, is one rule.
func TestBuildAsApply(t *testing.T) {
	anchors, folded, valleys := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		p := drawPlan(t, rng)
		a := newSearch(p)
		a.small = 1
		valleys += len(a.valleys(a.p.Trial.Peak / maxDepth))
		places := slices.DeleteFunc(union(union(a.clonePlaces(), a.sinkPlaces()), a.valleys(a.p.Trial.Peak/maxDepth)),
			func(int32) bool { return rng.IntN(3) == 0 })
		b := a.work
		require.NoError(t, b.build(places))
		r, err := recompute.Apply(p.Analysis.Model, p.Analysis.Boundary, p.Analysis.Order, p.Trial.Placements,
			recompute.Options{Anchors: b.anchors})
		require.NoError(t, err)
		anchors += len(b.anchors)
		folded += len(a.program.Steps) + r.AnchorNodes - len(b.out.Steps)

		g := r.Model.Graph
		require.Len(t, b.out.Steps, len(g.Nodes))
		maker := make([]int, len(b.out.Bytes))
		for v := range maker {
			maker[v] = -1
		}
		for i, n := range g.Nodes {
			s := &b.out.Steps[i]
			require.Equal(t, n.Kind, s.Kind, "step %d, node %s", i, g.NodeLabel(graph.NodeID(i)))
			var got, want []int
			for _, v := range s.In {
				if v != graph.NoValue && maker[v] >= 0 {
					got = append(got, maker[v])
				}
			}
			for _, v := range slices.Concat(n.Inputs, n.Captures()) {
				if v != graph.NoValue && g.Values[v].Def != graph.NoNode {
					want = append(want, int(g.Values[v].Def))
				}
			}
			require.Equal(t, want, got, "step %d, node %s", i, g.NodeLabel(graph.NodeID(i)))
			for _, v := range s.Out {
				if v != graph.NoValue {
					maker[v] = i
				}
			}
		}
		for i, d := range g.Outputs {
			require.Equal(t, int(g.Values[d.Value].Def), maker[b.out.Outputs[i]], "output %d", i)
		}
	})
	require.Positive(t, anchors)
	require.Positive(t, folded)
	require.Positive(t, valleys)
}
