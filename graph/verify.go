package graph

import (
	"fmt"
	"slices"
)

// Verify checks that a model fulfils the assumptions of the rest of memopt and returns the first
// violation. It states the invariants of the IR:
//
//   - IDs are dense and agree with their place; names are unique in a graph.
//   - Every value that is read has exactly one producer, and Def and DefSlot
//     point back at it.
//   - Captures lists exactly the values that subgraphs take from outside.
//   - The nodes can be put in an order; functions do not call themselves.
func Verify(m *Model) error {
	if m.Graph == nil {
		return fmt.Errorf("%s: the model has no graph", m.Path)
	}
	if err := VerifyGraph(m.Graph); err != nil {
		return err
	}
	for _, f := range m.Functions {
		if f.Body == nil {
			return fmt.Errorf("function %q: has no body", f.Name)
		}
		if err := VerifyGraph(f.Body); err != nil {
			return fmt.Errorf("function %q: %w", f.Name, err)
		}
	}
	return CheckFunctions(m)
}

// VerifyGraph is Verify for one graph and its subgraphs.
func VerifyGraph(g *Graph) error {
	if err := verifyValues(g); err != nil {
		return err
	}
	for i, n := range g.Nodes {
		if err := verifyNode(g, NodeID(i), n); err != nil {
			return err
		}
	}
	for i, d := range g.Outputs {
		if d.Value < 0 || int(d.Value) >= len(g.Values) || !g.made(d.Value) {
			return fmt.Errorf("graph %q: output %d: value %q has no producer", g.Name, i, g.labelOf(d.Value))
		}
	}
	_, err := Topological(g)
	return err
}

// made reports whether a value has a producer, without looking for one as bound does.
func (g *Graph) made(id ValueID) bool {
	v := &g.Values[id]
	return v.Def != NoNode || v.Input || v.IsInitializer() || v.Outer != NoValue
}

// labelOf names a value that may not exist.
func (g *Graph) labelOf(id ValueID) string {
	if id < 0 || int(id) >= len(g.Values) {
		return fmt.Sprint(id)
	}
	return g.Values[id].Name
}

func verifyValues(g *Graph) error {
	if len(g.names) != len(g.Values) {
		return fmt.Errorf("graph %q: %d values share %d names", g.Name, len(g.Values), len(g.names))
	}
	for i := range g.Values {
		v, id := &g.Values[i], ValueID(i)
		if named, ok := g.names[v.Name]; !ok || named != id {
			return fmt.Errorf("graph %q: value %d is named %q, which is the name of value %d",
				g.Name, id, v.Name, named)
		}
		if v.Def == NoNode {
			continue
		}
		if v.Def < 0 || int(v.Def) >= len(g.Nodes) || v.DefSlot < 0 || g.Nodes[v.Def].Output(int(v.DefSlot)) != id {
			return fmt.Errorf("graph %q: value %q says that output %d of node %d makes it, which does not",
				g.Name, v.Name, v.DefSlot, v.Def)
		}
		if v.Input || v.IsInitializer() || v.Outer != NoValue {
			return fmt.Errorf("graph %q: value %q has two producers: node %q and the graph's inputs or initializers",
				g.Name, v.Name, g.NodeLabel(v.Def))
		}
	}
	return nil
}

func verifyNode(g *Graph, id NodeID, n *Node) error {
	if n.ID != id {
		return fmt.Errorf("graph %q: node %d says that its ID is %d", g.Name, id, n.ID)
	}
	for slot, v := range n.Inputs {
		if v == NoValue {
			continue
		}
		if v < 0 || int(v) >= len(g.Values) {
			return fmt.Errorf("node %q: input %d is value %d, which does not exist", g.NodeLabel(id), slot, v)
		}
		if !g.made(v) {
			return fmt.Errorf("node %q (%s): input %d: value %q has no producer", g.NodeLabel(id), n.Op, slot,
				g.Values[v].Name)
		}
	}
	for slot, v := range n.Outputs {
		if v == NoValue {
			continue
		}
		if v < 0 || int(v) >= len(g.Values) || g.Values[v].Def != id || int(g.Values[v].DefSlot) != slot {
			return fmt.Errorf("node %q (%s): output %d: the value does not point back at it",
				g.NodeLabel(id), n.Op, slot)
		}
	}
	return verifySubgraphs(g, n)
}

func verifySubgraphs(g *Graph, n *Node) error {
	var err error
	var captures []ValueID
	n.Subgraphs(func(attr string, sub *Graph) {
		if err != nil {
			return
		}
		if sub.Outer != g {
			err = fmt.Errorf("node %q: subgraph %q does not point at its enclosing graph", g.NodeLabel(n.ID), attr)
			return
		}
		for i := range sub.Values {
			o := sub.Values[i].Outer
			if o == NoValue {
				continue
			}
			if o < 0 || int(o) >= len(g.Values) || !g.made(o) {
				err = fmt.Errorf("node %q: subgraph %q: value %q is value %q of the enclosing graph, which has no "+
					"producer",
					g.NodeLabel(n.ID), attr, sub.Values[i].Name, g.labelOf(o))
				return
			}
			captures = append(captures, o)
		}
		err = VerifyGraph(sub)
	})
	if err != nil {
		return err
	}
	slices.Sort(captures)
	if !slices.Equal(slices.Compact(captures), n.Captures()) {
		return fmt.Errorf("node %q (%s): its list of captured values is stale", g.NodeLabel(n.ID), n.Op)
	}
	return nil
}
