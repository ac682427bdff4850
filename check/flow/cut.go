// Package flow finds minimum cuts of graphs of computations, which prove lower bounds of costs.
package flow

import (
	"math"

	"memopt/internal/maxflow"
)

// Graph is a graph of computations, in an order that their inputs allow.
type Graph struct {
	Nodes    []Node
	Values   []Value
	Resident float64 // bytes that live throughout
}

// Node is a computation.
type Node struct {
	Cost, Workspace float64
	Once            bool  // it is computed once
	View            bool  // it shows the memory of an input, and may be computed at any time
	In              []int // values
}

// Value is made by a node.
type Value struct {
	Size       float64
	Keep       bool // it, or a view of it, lives to the end
	Node, Root int  // its maker; the value with its memory
}

// Cut is the least cost of second runs in any schedule within the budget, as far as one moment and a price of a byte
// prove it. When t is computed for the first time, each value that was made before and that a first compute behind t
// reads is held, which takes its bytes, or is computed again, which costs its node and needs that node's inputs in
// the same way. With a price on each byte the cheapest choice is a minimum cut; less the price of all bytes that are
// free beside t it is a lower bound of the cost (Lagrangian relaxation: Fisher 1981). In any order, nodes that t does
// not depend on and that do not depend on t are free of cost, since they may be computed behind t for the first time.
//
// Over a link of so many bytes in a unit of cost, held values may lie on the host: no more than the link carries in
// the time before t. That is the cost of all first computes before t, and of any delay of t, which costs at least the
// worth of the bytes that it moves where a byte's price is no higher than the time that the link takes for it.
func (g *Graph) Cut(t int, price, budget, rate float64, anyOrder bool) float64 {
	before, behind, held := make([]bool, len(g.Nodes)), make([]bool, len(g.Nodes)), make([]bool, len(g.Values))
	before[t], behind[t] = true, true
	for v := t; v >= 0; v-- {
		before[v] = before[v] || !anyOrder
		for _, u := range g.Nodes[v].In {
			before[g.Values[u].Node] = before[g.Values[u].Node] || before[v]
		}
	}
	total, earlier := 0.0, 0.0
	for v := range g.Nodes {
		behind[v] = behind[v] || v > t && !anyOrder && !g.Nodes[v].View
		for _, u := range g.Nodes[v].In {
			behind[v] = behind[v] || behind[g.Values[u].Node]
		}
		if total += g.Nodes[v].Cost; !behind[v] {
			earlier += g.Nodes[v].Cost
		}
	}
	for _, u := range g.Nodes[t].In {
		held[g.Values[u].Root] = true
	}
	left := budget + rate*earlier - g.Resident - g.Nodes[t].Workspace
	for u := range g.Values {
		x := &g.Values[u]
		total += price * x.Size
		if held[u] = held[u] || x.Node == t || x.Keep && before[x.Node]; held[u] {
			left -= x.Size
		}
	}
	if left < 0 || total == 0 || math.IsInf(total, 0) || g.Nodes[t].View {
		return 0
	}
	// Capacities are whole numbers, rounded down, so that no flow is worth more than exact ones allow.
	_, exponent := math.Frexp(total)
	unit, sink := math.Ldexp(1, 59-exponent), len(g.Values)+len(g.Nodes)
	n := maxflow.New(sink + 2)
	seen, wanted := make([]bool, len(g.Values)), []int{}
	want := func(from, v int) {
		for _, u := range g.Nodes[v].In {
			if u = g.Values[u].Root; !held[u] && !behind[g.Values[u].Node] {
				if n.Arc(from, u, maxflow.Endless); !seen[u] {
					seen[u], wanted = true, append(wanted, u)
				}
			}
		}
	}
	for v := range g.Nodes {
		if v != t && behind[v] && !g.Nodes[v].View {
			want(sink+1, v)
		}
	}
	for i, joined := 0, make([]bool, len(g.Nodes)); i < len(wanted); i++ {
		v := g.Values[wanted[i]].Node
		at, cost := len(g.Values)+v, int64(g.Nodes[v].Cost*unit)
		n.Arc(wanted[i], at, int64(price*g.Values[wanted[i]].Size*unit))
		if joined[v] {
			continue
		}
		joined[v] = true
		if !before[v] {
			cost = 0
		} else if g.Nodes[v].Once {
			cost = maxflow.Endless
		}
		n.Arc(at, sink, cost)
		want(at, v)
	}
	return max(0, float64(n.Maximum(sink+1, sink))/unit-price*left)
}
