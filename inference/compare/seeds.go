package compare

import (
	"hash/fnv"

	"memopt"
	"memopt/graph"
	"memopt/graph/op"
)

// seeded returns a model that gives random nodes without a seed one that follows from their outputs'
// names: another form of the model, with the nodes at other places, draws the same numbers.
func seeded(m *memopt.Model) *memopt.Model {
	draws := false
	for _, n := range m.Graph.Nodes {
		draws = draws || open(m.Model, n)
	}
	if !draws {
		return m
	}
	c := *m
	c.Model = m.Model.Clone()
	for _, n := range c.Graph.Nodes {
		if !open(c.Model, n) {
			continue
		}
		h := fnv.New32a()
		h.Write([]byte(c.Graph.ValueName(n.Output(0))))
		seed := int64(h.Sum32() >> 8) // a float holds it, too
		if info := op.Of(n.Kind); info.FloatSeed {
			n.SetAttr(info.SeedAttr, float32(seed))
		} else {
			n.SetAttr(info.SeedAttr, seed)
		}
	}
	return &c
}

// open reports whether a node is random and fixes no seed, although it can.
func open(m *graph.Model, n *graph.Node) bool {
	info := op.Of(n.Kind)
	return info.Random && n.Fault() == nil && n.Attr(info.SeedAttr) == nil &&
		info.CanSeed(info.VersionOf(n, m.OpsetVersion(info.Domain)))
}
