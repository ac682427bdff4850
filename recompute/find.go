package recompute

import (
	"fmt"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	ortsim "memopt/sim/ort"
)

// Find lists the candidates of a model's main graph. Types must be inferred; order must be an order
// of the graph.
func Find(m *graph.Model, b live.Boundary, order graph.Order, probe Probe) *Analysis {
	g := m.Graph
	a := &Analysis{Model: m, Graph: g, Boundary: b, Order: order, Probe: probe,
		Backward: live.Split(g, b, order),
		rejected: make([]int32, len(g.Nodes)), entries: make([]int32, len(g.Nodes))}
	a.Stashed = live.Stashed(g, order, a.Backward, func(id graph.NodeID) bool { return op.IsConstant(g, id) })
	starts, behind := boundaryNorms(a)
	for _, s := range starts {
		a.BoundaryNorms = append(a.BoundaryNorms, s.norm)
	}
	switch {
	case !probe.Layers || len(starts) > 0:
	case behind:
		a.Warnings = append(a.Warnings, "the norms of the transformer layers stand behind the residual additions, "+
			"as in BERT: the layer boundary of the probe, which is ONNX Runtime's, is a norm before a block, and has "+
			"no effect here")
	default:
		a.Warnings = append(a.Warnings,
			"no norm that bounds a transformer layer was found, so the layer boundary of the probe has no effect")
	}
	newSearch(a, starts).run()
	return a
}

// search looks for candidates, entry by entry.
type search struct {
	a        *Analysis
	edges    ortsim.Edges
	pos      []int32
	policy   policy
	entry    []bool  // by node: it has a stashed output
	bound    []bool  // by node: a boundary norm normalizes a stashed output of it
	visited  []int32 // by node: the number of the search that last met it
	size     []uint8 // by value: whether it is small, once isSmall has been called
	searches int32
	work     int // nodes met by all searches
	ids      map[string]int
}

func newSearch(a *Analysis, starts []layerStart) *search {
	nodes := len(a.Graph.Nodes)
	s := &search{a: a, edges: ortsim.NewEdges(a.Graph), pos: a.Order.Positions(), policy: newPolicy(a),
		entry: make([]bool, nodes), bound: make([]bool, nodes), visited: make([]int32, nodes),
		size: make([]uint8, len(a.Graph.Values)), ids: map[string]int{}}
	norm := map[graph.ValueID]bool{}
	for _, s := range starts {
		norm[s.of] = true
	}
	for _, st := range a.Stashed {
		s.entry[st.Node] = true
		s.bound[st.Node] = s.bound[st.Node] || norm[st.Value]
	}
	return s
}

func (s *search) run() {
	for i := 0; i < len(s.a.Stashed); {
		entry := s.a.Stashed[i].Node
		var values []graph.ValueID
		for ; i < len(s.a.Stashed) && s.a.Stashed[i].Node == entry; i++ {
			values = append(values, s.a.Stashed[i].Value)
		}
		s.entryNode(entry, values)
	}
}

// entryNode runs the searches for one entry and records their results.
func (s *search) entryNode(entry graph.NodeID, values []graph.ValueID) {
	if why := s.policy.reject(entry); why != "" {
		s.reject(entry, graph.NoNode, why)
		return
	}
	if s.a.Probe.Layers && s.bound[entry] {
		s.reject(entry, graph.NoNode,
			"it is the input of the norm at the start of a transformer layer: the probe keeps it as the layer's "+
				"checkpoint")
		return
	}
	full := s.subgraph(entry, false)
	if full.ok() {
		s.add(entry, values, Full, full)
	}
	if !full.compromise {
		if !full.ok() {
			s.reject(entry, full.blocker, full.why)
		}
		return
	}
	part := s.subgraph(entry, true)
	if part.ok() {
		s.add(entry, values, Compromise, part)
	} else if !full.ok() {
		s.reject(entry, full.blocker, full.why)
	}
}

func (s *search) reject(entry, blocker graph.NodeID, why string) {
	s.a.Rejections = append(s.a.Rejections, Rejection{entry, blocker, why})
	s.a.rejected[entry] = int32(len(s.a.Rejections))
}

func (s *search) add(entry graph.NodeID, values []graph.ValueID, strategy Strategy, r found) {
	c := Candidate{Entry: entry, Strategy: strategy, Nodes: r.nodes, Stashed: values, Ratio: r.ratio}
	c.Cluster = s.cluster(r.nodes, strategy)
	i := len(s.a.Candidates)
	s.a.Candidates = append(s.a.Candidates, c)
	s.a.Clusters[c.Cluster].Members = append(s.a.Clusters[c.Cluster].Members, i)
	s.a.numbers = append(s.a.numbers, i)
	if s.a.entries[entry] == 0 {
		s.a.entries[entry] = int32(i) + 1
	}
}

// cluster returns the index of the cluster that a subgraph belongs to.
func (s *search) cluster(nodes []graph.NodeID, strategy Strategy) int {
	var b strings.Builder
	for _, id := range nodes {
		b.WriteString(s.a.Graph.Nodes[id].Op)
		b.WriteByte('+')
	}
	key := fmt.Sprintf("%s:%d", b.String(), strategy)
	if i, ok := s.ids[key]; ok {
		return i
	}
	i := len(s.a.Clusters)
	s.ids[key] = i
	s.a.Clusters = append(s.a.Clusters, Cluster{ID: ClusterID(b.String()), Strategy: strategy})
	return i
}
