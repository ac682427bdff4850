package ort

import (
	"cmp"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// edge is one end of a connection between two nodes, seen from the other end.
type edge struct {
	node    graph.NodeID // the node at the far end
	outSlot int32        // output of the producer
	inSlot  int32        // input of the consumer; captured values count on after the inputs
}

// edges holds the connections between the nodes of a graph as ONNX
// Runtime keeps them: a node's in-edges sorted by producer, output and own input,
// its out-edges by consumer, own output and the consumer's input. Constant nodes
// count as initializers and make no edges.
type edges struct {
	inStart, outStart []int32
	ins, outs         []edge
	constant          []bool // by node
}

func newEdges(g *graph.Graph) *edges {
	e := &edges{
		inStart: make([]int32, len(g.Nodes)+1), outStart: make([]int32, len(g.Nodes)+1),
		constant: make([]bool, len(g.Nodes)),
	}
	for i, n := range g.Nodes {
		e.constant[i] = op.Of(n.Kind).Has(op.ConstantRole)
	}
	e.each(g, func(p, c graph.NodeID, _, _ int32) {
		e.outStart[p+1]++
		e.inStart[c+1]++
	})
	for i := range g.Nodes {
		e.outStart[i+1] += e.outStart[i]
		e.inStart[i+1] += e.inStart[i]
	}
	e.ins = make([]edge, e.inStart[len(g.Nodes)])
	e.outs = make([]edge, e.outStart[len(g.Nodes)])
	inNext, outNext := slices.Clone(e.inStart), slices.Clone(e.outStart)
	e.each(g, func(p, c graph.NodeID, outSlot, inSlot int32) {
		e.ins[inNext[c]] = edge{p, outSlot, inSlot}
		e.outs[outNext[p]] = edge{c, outSlot, inSlot}
		inNext[c]++
		outNext[p]++
	})
	for i := range g.Nodes {
		slices.SortFunc(e.in(graph.NodeID(i)), compareEdges)
		slices.SortFunc(e.out(graph.NodeID(i)), compareEdges)
	}
	return e
}

func compareEdges(a, b edge) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.outSlot, b.outSlot), cmp.Compare(a.inSlot, b.inSlot))
}

func (e *edges) each(g *graph.Graph, f func(producer, consumer graph.NodeID, outSlot, inSlot int32)) {
	for _, n := range g.Nodes {
		read := func(id graph.ValueID, inSlot int) {
			if id == graph.NoValue {
				return
			}
			if v := &g.Values[id]; v.Def != graph.NoNode && !e.constant[v.Def] {
				f(v.Def, n.ID, v.DefSlot, int32(inSlot))
			}
		}
		for slot, id := range n.Inputs {
			read(id, slot)
		}
		for i, id := range n.Captures() {
			read(id, len(n.Inputs)+i)
		}
	}
}

func (e *edges) in(n graph.NodeID) []edge  { return e.ins[e.inStart[n]:e.inStart[n+1]] }
func (e *edges) out(n graph.NodeID) []edge { return e.outs[e.outStart[n]:e.outStart[n+1]] }

// Edges gives other packages the sorted in-edges of nodes: the search for recomputable subgraphs
// walks them in this order.
type Edges struct{ e *edges }

// NewEdges indexes the edges of a graph.
func NewEdges(g *graph.Graph) Edges { return Edges{newEdges(g)} }

// EachIn calls f for every in-edge of a node, sorted by producer, the producer's
// output and the node's input slot. It stops when f returns false.
func (e Edges) EachIn(n graph.NodeID, f func(producer graph.NodeID, outSlot, inSlot int) bool) {
	for _, x := range e.e.in(n) {
		if !f(x.node, int(x.outSlot), int(x.inSlot)) {
			return
		}
	}
}
