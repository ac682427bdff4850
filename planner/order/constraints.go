package order

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// constraints define the allowed orders of a graph: those that obey all edges and have the forward
// half before the backward half.
type constraints struct {
	start    graph.Order
	pos      []int32 // by node: its place in start
	backward []bool  // by node
	pin      graph.NodeID
	pred     edgeLists
	succ     edgeLists
}

// edgeLists lists for every node the nodes at the other end of its edges.
type edgeLists struct {
	first []int32
	nodes []graph.NodeID
}

func (e *edgeLists) of(id graph.NodeID) []graph.NodeID { return e.nodes[e.first[id]:e.first[id+1]] }

// newConstraints derives the constraints from the start order. It is nil where a forward node
// reads from a backward one, which a record of the boundary can say of a file that is not in order.
func newConstraints(m *graph.Model, b live.Boundary, start graph.Order) *constraints {
	g := m.Graph
	c := &constraints{start: start, pos: start.Positions(), backward: live.Split(g, b, start), pin: graph.NoNode}
	// Nodes behind the boundary node are backward, unless a record lists the backward nodes.
	if b.Backward == graph.NoNode {
		c.pin = b.Node
	}
	var edges [][2]graph.NodeID
	add := func(from, to graph.NodeID) { edges = append(edges, [2]graph.NodeID{from, to}) }
	for i := range g.Nodes {
		g.EachProducer(graph.NodeID(i), func(p graph.NodeID) { add(p, graph.NodeID(i)) })
	}
	c.mutations(g, c.orderedNodes(m, add), add)
	for _, e := range edges {
		if c.backward[e[0]] && !c.backward[e[1]] {
			return nil
		}
	}
	for i := range g.Nodes {
		if id := graph.NodeID(i); c.pin != graph.NoNode && id != c.pin && !c.backward[i] {
			add(id, c.pin)
		}
	}
	for _, e := range edges {
		if c.pos[e[0]] >= c.pos[e[1]] {
			return nil // the start is no order
		}
	}
	c.pred, c.succ = indexEdges(len(g.Nodes), edges, 1, 0), indexEdges(len(g.Nodes), edges, 0, 1)
	return c
}

// indexEdges groups edges by one end.
func indexEdges(nodes int, edges [][2]graph.NodeID, by, other int) edgeLists {
	e := edgeLists{first: make([]int32, nodes+1), nodes: make([]graph.NodeID, len(edges))}
	for _, x := range edges {
		e.first[x[by]+1]++
	}
	for i := range nodes {
		e.first[i+1] += e.first[i]
	}
	next := append([]int32(nil), e.first[:nodes]...)
	for _, x := range edges {
		e.nodes[next[x[by]]] = x[other]
		next[x[by]]++
	}
	return e
}

// orderedNodes links the nodes that may do or draw something that depends on when they run, in the
// sequence of the start order. It returns which they are.
func (c *constraints) orderedNodes(m *graph.Model, add func(from, to graph.NodeID)) []bool {
	ordered := make([]bool, len(c.start))
	last := graph.NoNode
	for _, id := range c.start {
		if !dependsOnMoment(m, m.Graph.Nodes[id]) {
			continue
		}
		ordered[id] = true
		if last != graph.NoNode {
			add(last, id)
		}
		last = id
	}
	return ordered
}

// dependsOnMoment reports whether the results of a program may change when a node runs before
// another of the kind: it has state or side effects, draws random numbers from a common generator,
// or its effect is unknown.
func dependsOnMoment(m *graph.Model, n *graph.Node) bool {
	info := op.Of(n.Kind)
	if n.Kind == op.Unknown || info.Has(op.PythonRole) || hasState(info) {
		return true
	}
	if info.Random && (!info.CanSeed(info.VersionOf(n, graph.OpsetVersion(m.Opsets, info.Domain))) ||
		n.Attr(info.SeedAttr) == nil) {
		return true
	}
	inside := false
	n.Subgraphs(func(_ string, sub *graph.Graph) {
		for _, inner := range sub.Nodes {
			inside = inside || dependsOnMoment(m, inner)
		}
	})
	return inside
}

// hasState reports whether an operator updates something: the optimizers, accumulators and
// collectives of ONNX Runtime. ONNX's own operators never do.
func hasState(info *op.Info) bool {
	return len(info.Mutates) > 0 || info.Class == op.Never && info.Domain != "" && !info.Has(op.Yield)
}

// stateUpdate is a value that a node may update.
type stateUpdate struct {
	node  graph.NodeID
	value graph.ValueID
}

// stateUpdates lists the states that nodes may update: the inputs that the op table names, and all
// inputs of the graph read by a node with state, since ONNX Runtime lets an optimizer write its
// results into them.
func stateUpdates(g *graph.Graph) []stateUpdate {
	var updates []stateUpdate
	for _, n := range g.Nodes {
		info := op.Of(n.Kind)
		if !hasState(info) {
			continue
		}
		for slot, v := range n.Inputs {
			if v != graph.NoValue && (slices.Contains(info.Mutates, slot) || g.Values[v].Def == graph.NoNode) {
				updates = append(updates, stateUpdate{n.ID, v})
			}
		}
	}
	return updates
}

// mutations keeps the readers of a value that a node updates on their side of that node. Ordered
// nodes are on theirs already.
func (c *constraints) mutations(g *graph.Graph, ordered []bool, add func(from, to graph.NodeID)) {
	updates := stateUpdates(g)
	if len(updates) == 0 {
		return
	}
	root := viewRoots(g, c.start)
	readers := map[graph.ValueID][]graph.NodeID{}
	for _, u := range updates {
		readers[root[u.value]] = nil
	}
	for _, id := range c.start {
		eachRead(g.Nodes[id], func(v graph.ValueID) {
			if list, updated := readers[root[v]]; updated && !ordered[id] {
				readers[root[v]] = append(list, id)
			}
		})
	}
	for _, u := range updates {
		for _, r := range readers[root[u.value]] {
			if c.pos[r] < c.pos[u.node] {
				add(r, u.node)
			} else {
				add(u.node, r)
			}
		}
	}
}

// eachRead calls f for every value that a node or its subgraphs read, once per reading.
func eachRead(n *graph.Node, f func(graph.ValueID)) {
	for _, list := range [2][]graph.ValueID{n.Inputs, n.Captures()} {
		for _, v := range list {
			if v != graph.NoValue {
				f(v)
			}
		}
	}
}

// viewRoots maps every value to the value that it is a view of, through all views.
func viewRoots(g *graph.Graph, order graph.Order) []graph.ValueID {
	root := make([]graph.ValueID, len(g.Values))
	for i := range root {
		root[i] = graph.ValueID(i)
	}
	for _, id := range order {
		n := g.Nodes[id]
		if op.Of(n.Kind).View && n.Input(0) != graph.NoValue && n.Output(0) != graph.NoValue {
			root[n.Output(0)] = root[n.Input(0)]
		}
	}
	return root
}
