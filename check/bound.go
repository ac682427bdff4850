package check

import (
	"math"

	"memopt/check/flow"
)

// cut is the least cost of second runs in any schedule within the budget, as far as one moment and a price of a byte
// prove it. When t is computed for the first time, each value that was made before and that a first compute behind t
// reads is held, which takes its bytes, or is computed again, which costs its node and needs that node's inputs in
// the same way. With a price on each byte the cheapest choice is a minimum cut; less the price of all bytes that are
// free beside t it is a lower bound of the cost (Lagrangian relaxation: Fisher 1981). In any order, nodes that t does
// not depend on and that do not depend on t cost nothing, since they may be computed behind t for the first time.
//
// Over a link of so many bytes in a unit of cost, held values may lie on the host: no more than the link carries in
// the time before t. That is the cost of all first computes before t, and of what delays t, which costs at least the
// worth of the bytes that it moves where a byte's price is no higher than the time that the link takes for it.
func (in *instance) cut(t int, price, budget, rate float64, anyOrder bool) float64 {
	before, behind, held := make([]bool, len(in.Nodes)), make([]bool, len(in.Nodes)), make([]bool, len(in.values))
	before[t], behind[t] = true, true
	for v := t; v >= 0; v-- {
		before[v] = before[v] || !anyOrder
		for _, u := range in.Nodes[v].in {
			before[in.values[u].node] = before[in.values[u].node] || before[v]
		}
	}
	total, earlier := 0.0, 0.0
	for v := range in.Nodes {
		behind[v] = behind[v] || v > t && !anyOrder
		for _, u := range in.Nodes[v].in {
			behind[v] = behind[v] || behind[in.values[u].node]
		}
		if total += in.Nodes[v].Cost; !behind[v] {
			earlier += in.Nodes[v].Cost
		}
	}
	for _, u := range in.Nodes[t].in {
		held[in.values[u].root] = true
	}
	left := budget + rate*earlier - in.resident - in.Nodes[t].Workspace
	for u := range in.values {
		x := &in.values[u]
		total += price * x.Size
		if held[u] = held[u] || x.node == t || x.Keep && before[x.node]; held[u] {
			left -= x.Size
		}
	}
	if left < 0 || total == 0 || math.IsInf(total, 0) || in.Nodes[t].view {
		return 0
	}
	// Capacities are whole numbers, rounded down, so that no flow is worth more than exact ones allow.
	_, exponent := math.Frexp(total)
	unit, sink := math.Ldexp(1, 59-exponent), len(in.values)+len(in.Nodes)
	n := flow.New(sink + 2)
	seen, wanted := make([]bool, len(in.values)), []int{}
	want := func(from, v int) {
		for _, u := range in.Nodes[v].in {
			if u = in.values[u].root; !held[u] && !behind[in.values[u].node] {
				if n.Arc(from, u, flow.Endless); !seen[u] {
					seen[u], wanted = true, append(wanted, u)
				}
			}
		}
	}
	for v := range in.Nodes {
		if v != t && behind[v] && !in.Nodes[v].view {
			want(sink+1, v)
		}
	}
	for i, joined := 0, make([]bool, len(in.Nodes)); i < len(wanted); i++ {
		v := in.values[wanted[i]].node
		at, cost := len(in.values)+v, int64(in.Nodes[v].Cost*unit)
		n.Arc(wanted[i], at, int64(price*in.values[wanted[i]].Size*unit))
		if joined[v] {
			continue
		}
		joined[v] = true
		if again := in.Nodes[v].Recompute; !before[v] {
			cost = 0
		} else if again != nil && !*again {
			cost = flow.Endless
		}
		n.Arc(at, sink, cost)
		want(at, v)
	}
	return max(0, float64(n.Maximum(sink+1, sink))/unit-price*left)
}
