package order

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// buffers is the memory model that list scheduling goes by: every value that is no view has a
// buffer, which lives from its maker to its last reader, those of views included. Sizes are by
// buffer, which is a value.
type buffers struct {
	size    []int64
	pinned  []bool            // a graph output, directly or as a view
	makes   [][]graph.ValueID // by node: buffers that it makes
	reads   [][]graph.ValueID // by node: buffers that it reads or makes, each once
	readers []int32           // by buffer: the nodes that have it among reads
	maker   []graph.NodeID    // by buffer; NoNode for a persistent one
	inPlace [][]graph.ValueID // by node: buffers that its first output may take over
	stamp   []graph.NodeID    // by buffer: one past the last node that reads it, while they are gathered
}

func newBuffers(g *graph.Graph, p *live.Program, order graph.Order) *buffers {
	values, nodes := len(g.Values), len(g.Nodes)
	b := &buffers{size: make([]int64, values), pinned: make([]bool, values), readers: make([]int32, values),
		maker: make([]graph.NodeID, values), stamp: make([]graph.NodeID, values),
		makes: make([][]graph.ValueID, nodes), reads: make([][]graph.ValueID, nodes),
		inPlace: make([][]graph.ValueID, nodes)}
	root := viewRoots(g, order)
	for v := range b.maker {
		b.maker[v] = graph.NoNode
		if !p.Persistent[root[v]] {
			b.size[v] = max(p.Bytes[root[v]], 0)
		}
	}
	for _, d := range g.Outputs {
		b.pinned[root[d.Value]] = true
	}
	for _, id := range order {
		b.node(g.Nodes[id], p, root)
	}
	b.stamp = nil
	return b
}

// node records the outputs and operands of a node.
func (b *buffers) node(n *graph.Node, p *live.Program, root []graph.ValueID) {
	read := func(v graph.ValueID) {
		if r := root[v]; !p.Persistent[r] && b.stamp[r] != n.ID+1 {
			b.stamp[r] = n.ID + 1
			b.reads[n.ID] = append(b.reads[n.ID], r)
			b.readers[r]++
		}
	}
	eachRead(n, read)
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if root[v] == v && !p.Persistent[v] {
			b.makes[n.ID] = append(b.makes[n.ID], v)
			b.maker[v] = n.ID
		}
		read(v)
	}
	out := n.Output(0)
	if out == graph.NoValue || root[out] != out || b.size[out] == 0 {
		return
	}
	for _, slot := range op.Of(n.Kind).InPlace {
		if v := n.Input(slot); v != graph.NoValue && !p.Persistent[root[v]] && !b.pinned[root[v]] &&
			b.size[root[v]] == b.size[out] {
			b.inPlace[n.ID] = append(b.inPlace[n.ID], root[v])
		}
	}
}

// grows reports whether a node makes more bytes than all that it reads could free.
func (b *buffers) grows(id graph.NodeID) bool {
	var bytes int64
	for _, v := range b.makes[id] {
		bytes += b.size[v]
	}
	for _, v := range b.reads[id] {
		if b.maker[v] != id && !b.pinned[v] && b.readers[v] == 1 {
			bytes -= b.size[v]
		}
	}
	return bytes >= 0
}
