package verify_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
	"memopt/symbolic"
)

// stays lists, by value, the gaps between its readers, views of it included, as places in an order: after a
// reader, and before the next one.
func stays(m *graph.Model, order graph.Order) map[graph.ValueID][][2]int {
	g := m.Graph
	root := make([]graph.ValueID, len(g.Values))
	for v := range root {
		root[v] = graph.ValueID(v)
	}
	used := map[graph.ValueID][]int{}
	for at, id := range order {
		n := g.Nodes[id]
		if info := op.Of(n.Kind); info.View {
			root[n.Outputs[0]] = root[n.Inputs[0]]
			continue
		}
		for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
			if v == graph.NoValue || live.Persistent(g, root[v]) {
				continue
			}
			if list := used[root[v]]; len(list) == 0 || list[len(list)-1] != at {
				used[root[v]] = append(list, at)
			}
		}
	}
	for _, d := range g.Outputs {
		delete(used, root[d.Value])
	}
	gaps := map[graph.ValueID][][2]int{}
	for v, list := range used {
		for i := range len(list) - 1 {
			if list[i+1]-list[i] >= 2 {
				gaps[v] = append(gaps[v], [2]int{list[i], list[i+1]})
			}
		}
	}
	return gaps
}

// TestMovesKeepGradients: values that go to the host's memory and back, at random, leave the gradients of the
// built-in training graphs as they are, bit by bit, and the memory on both sides is as predicted.
func TestMovesKeepGradients(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(small)) {
		t.Run(name, func(t *testing.T) {
			m, err := small[name]()
			require.NoError(t, err)
			types, env := infer(t, m), symbolic.Env{"batch": 6, "seq": 5}
			inputs := made(t, m, env, 1)
			order, err := graph.Topological(m.Graph)
			require.NoError(t, err)
			gaps := stays(m, order)
			values := slices.Sorted(maps.Keys(gaps))
			require.NotEmpty(t, values)
			moved := int64(0)
			for seed := range uint64(6) {
				rng := rand.New(rand.NewPCG(seed, 1))
				moves := drawMoves(rng, order, values, gaps)
				out, err := recompute.MoveValues(m, order, moves)
				require.NoError(t, err)
				planned := verify.Side{Model: out.Model, Types: infer(t, out.Model), Dims: env,
					Order: graph.FileOrder(out.Model.Graph)}
				link := executor.Link{BytesPerSecond: []float64{0, 1e9, 1e7}[seed%3]}
				o := verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 2, Session: executor.Options{Threads: 2,
					Guard: seed == 1, OnDemand: seed%3 == 0, Link: link}}
				plain := verify.Side{Model: m, Types: types, Dims: env, Order: order}
				v, err := verify.Verify(context.Background(), plain, planned, inputs, o,
					verify.Tolerance{Bitwise: true})
				require.NoError(t, err)
				require.True(t, v.Equal, "seed %d: %+v", seed, v.First)
				p, got := v.Planned.Predicted, v.Planned.Measured
				require.Equal(t, []int64{p.Live, p.Arena, p.HostLive, p.Host},
					[]int64{got.Live, got.Arena, got.HostLive, got.Host}, "seed %d", seed)
				require.Equal(t, 2*count(out.Model, "Offload"), got.Moved.Out)
				require.Equal(t, 2*len(moves), got.Moved.In)
				moved += got.Moved.OutBytes
			}
			require.Positive(t, moved)
		})
	}
}

// drawMoves lets values stay on the host for some of their gaps.
func drawMoves(rng *rand.Rand, order graph.Order, values []graph.ValueID, gaps map[graph.ValueID][][2]int,
) (moves []recompute.Move) {
	for _, v := range values {
		begun := false
		for _, gap := range gaps[v] {
			if rng.IntN(3) > 0 {
				continue
			}
			at := []int{0, 0, 0, gap[1]}
			for k := range 3 {
				at[k] = gap[0] + 1 + rng.IntN(gap[1]-gap[0])
			}
			slices.Sort(at)
			move := recompute.Move{Value: v, Offload: order[at[0]], Free: order[at[1]], Reload: order[at[2]],
				Wait: order[at[3]]}
			if begun {
				move.Offload = graph.NoNode
			}
			begun = true
			moves = append(moves, move)
		}
	}
	return moves
}

func count(m *graph.Model, name string) (n int) {
	for _, node := range m.Graph.Nodes {
		if node.Op == name {
			n++
		}
	}
	return n
}
