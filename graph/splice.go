package graph

import "slices"

// Splice replaces nodes of a graph by the nodes of one of their subgraphs: an If, for example, by
// the branch that is always taken. pick returns that subgraph, which has no inputs, or nil for a
// node that stays. Values of the subgraph keep their names unless another graph of the model has
// them; its outputs take the names of the node's outputs. Nodes that only the replaced ones read
// are dropped. The enclosing graphs must be sealed again.
func (n *Names) Splice(g *Graph, pick func(*Node) *Graph) (changed bool, err error) {
	subs := make([]*Graph, len(g.Nodes))
	for i, node := range g.Nodes {
		subs[i] = pick(node)
		changed = changed || subs[i] != nil
	}
	if !changed {
		return false, nil
	}
	s := &splicer{names: n, g: g, alive: liveNodes(g)}
	for i, node := range g.Nodes {
		if subs[i] == nil {
			s.nodes = append(s.nodes, node)
		} else if err := s.splice(node, subs[i]); err != nil {
			return true, err
		}
	}
	g.SetNodes(s.nodes)
	alive := liveNodes(g)
	g.SetNodes(slices.DeleteFunc(s.nodes, func(node *Node) bool { return s.alive[node] && !alive[node] }))
	g.dropCaptures()
	return true, nil
}

// dropCaptures forgets captures of a subgraph that have no readers.
func (g *Graph) dropCaptures() {
	read := make([]bool, len(g.Values))
	g.eachUse(func(v ValueID, _ Use) { read[v] = true })
	for _, d := range g.Outputs {
		read[d.Value] = true
	}
	for i := range g.Values {
		if !read[i] {
			g.Values[i].Outer = NoValue
		}
	}
}

// liveNodes has the nodes that a graph's outputs depend on.
func liveNodes(g *Graph) map[*Node]bool {
	live := map[*Node]bool{}
	var todo []ValueID
	for _, d := range g.Outputs {
		todo = append(todo, d.Value)
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v == NoValue || g.Values[v].Def == NoNode || live[g.Nodes[g.Values[v].Def]] {
			continue
		}
		n := g.Nodes[g.Values[v].Def]
		live[n] = true
		todo = append(append(todo, n.Inputs...), n.Captures()...)
	}
	return live
}

// splicer builds the new list of nodes of a graph.
type splicer struct {
	names *Names
	g     *Graph
	alive map[*Node]bool // nodes with readers before, and the new nodes
	nodes []*Node
}

// splice appends the nodes of a subgraph in place of the node that holds it.
func (s *splicer) splice(n *Node, sub *Graph) error {
	ids := make([]ValueID, len(sub.Values))
	for i := range ids {
		if ids[i] = unmapped; sub.Values[i].Outer != NoValue {
			ids[i] = sub.Values[i].Outer
		}
	}
	var copies []*Node
	for slot, d := range sub.Outputs {
		out := n.Output(slot)
		switch {
		case out == NoValue:
		case ids[d.Value] == unmapped && sub.Values[d.Value].Def != NoNode:
			ids[d.Value] = out
		default:
			copies = append(copies, &Node{Name: s.names.Node(s.g.NodeLabel(n.ID) + "/Identity"), Op: "Identity",
				Inputs: []ValueID{d.Value}, Outputs: []ValueID{out}})
		}
	}
	for i := range ids {
		if ids[i] == unmapped {
			ids[i] = s.g.Value(s.names.values.kept(sub.Values[i].Name))
		}
	}
	if err := s.data(sub, ids); err != nil {
		return err
	}
	s.declare(sub, ids)
	for _, c := range copies {
		c.Inputs[0] = ids[c.Inputs[0]]
	}
	for _, inner := range sub.Nodes {
		s.take(inner, ids)
	}
	for _, node := range append(slices.Clone(sub.Nodes), copies...) {
		s.alive[node] = true
		node.InheritStages(n)
		s.nodes = append(s.nodes, node)
	}
	return nil
}

// kept returns a name that something has, for the same thing in another graph: itself, but where
// others have it, too.
func (s *nameSet) kept(name string) string {
	if s.twice[name] {
		return s.fresh(name)
	}
	return name
}

// data moves the initializers of a subgraph.
func (s *splicer) data(sub *Graph, ids []ValueID) error {
	for _, id := range sub.Initializers {
		t := *sub.Values[id].Data
		t.Name, t.Wire = s.g.ValueName(ids[id]), nil
		if _, err := s.g.AddInitializer(&t); err != nil {
			return err
		}
	}
	for _, id := range sub.Sparse {
		sparse := *sub.Values[id].SparseData
		values := *sparse.Values
		values.Name, values.Wire = s.g.ValueName(ids[id]), nil
		sparse.Values, sparse.Wire = &values, nil
		if _, err := s.g.AddSparse(&sparse); err != nil {
			return err
		}
	}
	return nil
}

// declare keeps the subgraph's declarations of values that the graph itself does not declare.
func (s *splicer) declare(sub *Graph, ids []ValueID) {
	said := map[ValueID]bool{}
	for _, list := range [][]Decl{s.g.Inputs, s.g.Outputs, s.g.ValueInfo} {
		for _, d := range list {
			said[d.Value] = said[d.Value] || d.Type.Form != FormUnknown
		}
	}
	for _, list := range [][]Decl{sub.ValueInfo, sub.Outputs} {
		for _, d := range list {
			v := ids[d.Value]
			if said[v] || sub.Values[d.Value].Def == NoNode || d.Type.Form == FormUnknown {
				continue
			}
			said[v] = true
			s.g.ValueInfo = append(s.g.ValueInfo, Decl{Value: v, Type: d.Type, Doc: d.Doc})
		}
	}
}

// take makes a node of the subgraph one of the graph.
func (s *splicer) take(n *Node, ids []ValueID) {
	if n.Name != "" {
		n.Name = s.names.nodes.kept(n.Name)
	}
	for _, list := range [][]ValueID{n.Inputs, n.Outputs} {
		for i, v := range list {
			if v != NoValue {
				list[i] = ids[v]
			}
		}
	}
	captures := slices.Clone(n.Captures())
	for i, v := range captures {
		captures[i] = ids[v]
	}
	n.setCaptures(captures)
	n.Subgraphs(func(attr string, inner *Graph) {
		n.Attr(attr).Wire = nil
		inner.Outer = s.g
		for i := range inner.Values {
			if v := &inner.Values[i]; v.Outer != NoValue {
				v.Outer = ids[v.Outer]
			}
		}
		inner.nameCaptures()
	})
}

// nameCaptures gives the captures of a subgraph their names outside, at any depth.
func (g *Graph) nameCaptures() {
	same := true
	for i := range g.Values {
		if v := &g.Values[i]; v.Outer != NoValue && v.Name != g.Outer.Values[v.Outer].Name {
			delete(g.names, v.Name)
			v.Name, same = g.Outer.Values[v.Outer].Name, false
		}
	}
	if same {
		return
	}
	for i := range g.Values {
		g.names[g.Values[i].Name] = ValueID(i)
	}
	for _, n := range g.Nodes {
		n.Subgraphs(func(attr string, sub *Graph) {
			n.Attr(attr).Wire = nil
			sub.nameCaptures()
		})
	}
}
