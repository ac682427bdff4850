package graph

import (
	"maps"
	"slices"
)

// Clone returns a deep copy of the graph inside the given enclosing graph. Tensors, wire forms and
// shapes are shared, because they are never edited in place.
func (g *Graph) Clone(outer *Graph) *Graph {
	c := *g
	c.Outer = outer
	c.names = maps.Clone(g.names)
	c.Values = slices.Clone(g.Values)
	c.Inputs, c.Outputs, c.ValueInfo = slices.Clone(g.Inputs), slices.Clone(g.Outputs), slices.Clone(g.ValueInfo)
	c.Initializers, c.Sparse = slices.Clone(g.Initializers), slices.Clone(g.Sparse)
	c.Metadata = slices.Clone(g.Metadata)
	c.Nodes = make([]*Node, len(g.Nodes))
	for i, n := range g.Nodes {
		c.Nodes[i] = n.clone(&c)
	}
	return &c
}

// clone copies a node and its subgraphs into the graph that will hold it.
func (n *Node) clone(holder *Graph) *Node {
	c := *n
	c.Inputs, c.Outputs, c.Attrs = slices.Clone(n.Inputs), slices.Clone(n.Outputs), slices.Clone(n.Attrs)
	if n.rare != nil {
		rare := *n.rare
		rare.Captures, rare.Metadata = slices.Clone(rare.Captures), slices.Clone(rare.Metadata)
		c.rare = &rare
	}
	for i := range c.Attrs {
		switch v := c.Attrs[i].Value.(type) {
		case *Graph:
			c.Attrs[i].Value = v.Clone(holder)
		case []*Graph:
			subs := make([]*Graph, len(v))
			for k, sub := range v {
				subs[k] = sub.Clone(holder)
			}
			c.Attrs[i].Value = subs
		}
	}
	return &c
}

// Clone returns a copy of the model whose main graph may be edited. Functions are shared, because
// they are never edited in place.
func (m *Model) Clone() *Model {
	c := *m
	c.Opsets, c.Metadata = slices.Clone(m.Opsets), slices.Clone(m.Metadata)
	c.Functions = slices.Clone(m.Functions)
	c.Configurations = slices.Clone(m.Configurations)
	c.Graph = m.Graph.Clone(m.Graph.Outer)
	return &c
}

// SetNodes replaces the list of nodes: IDs follow the new places, and every
// value is told its producer. The outputs of nodes that are gone lose theirs.
func (g *Graph) SetNodes(nodes []*Node) {
	for i := range g.Values {
		g.Values[i].Def, g.Values[i].DefSlot = NoNode, 0
	}
	g.Nodes = nodes
	for i, n := range nodes {
		n.ID = NodeID(i)
		for slot, v := range n.Outputs {
			if v != NoValue {
				g.Values[v].Def, g.Values[v].DefSlot = n.ID, int32(slot)
			}
		}
	}
}
