package check_test

import (
	"container/heap"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// state is the values that are live and the nodes that were computed, as bits.
type state struct{ live, done uint32 }

type entry struct {
	state
	cost float64
}

type queue []entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].cost < q[j].cost }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(entry)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// cheapest is the least cost of any schedule within a budget, by the rules alone: a search over all states (Dijkstra
// 1959). It is +Inf where there is none.
func cheapest(s *shape, budget float64, given bool) float64 {
	bit := map[any]uint32{}
	var values []any
	for _, id := range s.order {
		for _, u := range s.outputs[id] {
			bit[u] = 1 << len(values)
			values = append(values, u)
		}
	}
	bytes := func(live uint32) float64 {
		sum := s.resident
		for _, u := range values {
			if live&bit[u] != 0 {
				sum += s.size[u]
			}
		}
		return sum
	}
	all := uint32(1)<<len(s.order) - 1
	best := map[state]float64{{}: 0}
	q := &queue{{}}
	visit := func(to state, cost float64) {
		if old, ok := best[to]; !ok || cost < old {
			best[to] = cost
			heap.Push(q, entry{to, cost})
		}
	}
	for q.Len() > 0 {
		e := heap.Pop(q).(entry)
		if e.cost > best[e.state] {
			continue
		}
		if e.done == all {
			return e.cost
		}
		for _, u := range values {
			shared := slices.ContainsFunc(s.views[u], func(w any) bool { return e.live&bit[w] != 0 })
			if e.live&bit[u] != 0 && !s.keep[u] && !shared {
				visit(state{e.live &^ bit[u], e.done}, e.cost)
			}
		}
		for v, id := range s.order {
			n := s.node[id]
			_, view := n["alias"]
			again := e.done>>v&1 != 0
			if again && n["recompute"] == false || given && !again && !view && behindDone(s, e.done, v) {
				continue
			}
			if slices.ContainsFunc(s.inputs[id], func(u any) bool { return e.live&bit[u] == 0 }) {
				continue
			}
			extra, fresh, clash := s.work[id], false, false
			live := e.live
			for _, u := range s.outputs[id] {
				if e.live&bit[u] != 0 {
					extra += s.size[u]
					clash = clash || !s.keep[u]
				} else {
					fresh = true
				}
				live |= bit[u]
			}
			if !clash && fresh && bytes(live)+extra <= budget {
				visit(state{live, e.done | 1<<v}, e.cost+s.cost[id])
			}
		}
	}
	return math.Inf(1)
}

// behindDone tells whether a node behind v, views aside, was computed.
func behindDone(s *shape, done uint32, v int) bool {
	for w := v + 1; w < len(s.order); w++ {
		if _, view := s.node[s.order[w]]["alias"]; done>>w&1 != 0 && !view {
			return true
		}
	}
	return false
}

// TestCut: no certificate, whatever its moment and price, proves more than the cheapest schedule costs; and some prove
// that extra runs are needed.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	helped, tried := 0, 0
	for tried < 60 {
		in := randomInstance(rng, 4+rng.IntN(4))
		if tried%2 == 0 {
			in = trainingInstance(rng, 3)
		}
		given := in["order"] == "given"
		once := solved(t, "once", in, 1)
		p := solved(t, "tight", in, 0.65+0.3*rng.Float64())
		if once == nil || p == nil || len(shapeOf(p.instance).maker) > 10 {
			continue
		}
		tried++
		s, budget := shapeOf(p.instance), p.answer["peak"].(float64)
		want := cheapest(s, budget, given)
		require.False(t, math.IsInf(want, 0))
		for _, id := range s.order {
			for range 4 {
				p.answer["certificate"] = object{"moment": id, "price": 0.5 * rng.Float64() * rng.Float64(),
					"budget_bytes": budget, "order": map[bool]string{true: "given", false: "any"}[given], "bound": 0}
				r := p.check()
				require.NotNil(t, r.BoundProved)
				base := p.answer["base_cost"].(float64)
				require.LessOrEqual(t, *r.BoundProved, (want-base)/base+1e-9, "%s\n%s", text(p.instance),
					text(p.answer))
				if *r.BoundProved > 0 {
					helped++
				}
			}
		}
	}
	require.Greater(t, helped, 20)
}

// TestCertificates: the certificates of solve prove the bounds that they state, and no other ones.
func TestCertificates(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	with, whole := 0, 0
	for range 150 {
		in := trainingInstance(rng, 3+rng.IntN(6))
		if rng.IntN(2) == 0 {
			in["order"] = "given"
		}
		if rng.IntN(4) == 0 {
			in = firstVersion(in)
		}
		p := solved(t, "training", in, 0.5+0.4*rng.Float64())
		if p == nil || p.answer["certificate"] == nil {
			continue
		}
		with++
		r := p.check()
		require.Empty(t, r.Faults, "%s\n%s", text(p.instance), text(p.answer))
		require.Positive(t, *r.BoundProved)
		if slices.Contains(r.Proved, "bound") {
			whole++
		}
		c := p.answer["certificate"].(object)
		bound, budget := c["bound"].(float64), c["budget_bytes"].(float64)
		c["bound"] = bound * 1.01
		r = p.check()
		require.Equal(t, "wrong-bound", r.Faults[0].Kind)
		require.NotContains(t, r.Proved, "numbers")
		c["bound"], c["budget_bytes"] = bound, p.answer["peak"].(float64)-1
		require.Equal(t, "over-budget", p.check().Faults[0].Kind)
		c["budget_bytes"], c["moment"] = budget, "no such node"
		require.Equal(t, "wrong-bound", p.check().Faults[0].Kind)
	}
	t.Logf("%d certificates, %d prove the whole bound", with, whole)
	require.Greater(t, with, 30)
	require.Greater(t, whole, 10)
}

// firstVersion is an instance of version 1 with the nodes of one of version 2 that have no lists of outputs.
func firstVersion(in object) object {
	var nodes []object
	for _, n := range in["nodes"].([]object) {
		c := object{"id": n["id"], "cost": n["cost"], "size": n["size"], "inputs": []any{}}
		if inputs := n["inputs"].([]string); inputs[0] != "w" {
			c["inputs"] = inputs
		}
		nodes = append(nodes, c)
	}
	return object{"nodes": json.RawMessage(text(nodes))}
}
