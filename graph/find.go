package graph

import "strings"

// FoundBy is the kind of name that a text matched in a graph: that of a value, a node or a layer.
type FoundBy int

// A text is the name of a value, else of a node, else of a layer, else a glob of all three.
const (
	NotFound FoundBy = iota
	ValueName
	NodeName
	LayerName
	ByGlob
)

// Exact reports whether the text is a name, and not a glob.
func (f FoundBy) Exact() bool { return f == ValueName || f == NodeName || f == LayerName }

// Find returns the values that a text stands for, in ascending order: the value of that name, the
// outputs of the node of that name or label (NodeLabel), or the outputs of the nodes of that layer
// (LayerOf). Any other text is a glob (MatchGlob), or several with commas between them, which stands
// for all values that match and those of nodes and layers that do. Values inside subgraphs are not
// found.
func (g *Graph) Find(text string) ([]ValueID, FoundBy) {
	if id, ok := g.Lookup(text); ok {
		return []ValueID{id}, ValueName
	}
	exact := func(name string) bool { return name == text }
	for _, by := range []FoundBy{NodeName, LayerName} {
		if found := g.find(exact, by); len(found) > 0 {
			return found, by
		}
	}
	globs := strings.Split(text, ",")
	matches := func(name string) bool {
		for _, glob := range globs {
			if MatchGlob(glob, name) {
				return true
			}
		}
		return false
	}
	if found := g.find(matches, ByGlob); len(found) > 0 {
		return found, ByGlob
	}
	return nil, NotFound
}

// find lists the values whose nodes or layers match, and, for a glob, those that match themselves.
func (g *Graph) find(matches func(name string) bool, by FoundBy) (found []ValueID) {
	hits := make([]bool, len(g.Nodes))
	for i := range g.Nodes {
		label := g.NodeLabel(NodeID(i))
		hits[i] = by != LayerName && matches(label) || by != NodeName && matches(LayerOf(label))
	}
	for i := range g.Values {
		v := &g.Values[i]
		if v.Name == "" {
			continue
		}
		if v.Def != NoNode && hits[v.Def] || by == ByGlob && matches(v.Name) {
			found = append(found, ValueID(i))
		}
	}
	return found
}

// FindableNames lists the names that Find looks up, for messages with suggestions: values, nodes
// and layers, each in the order of first appearance.
func (g *Graph) FindableNames() []string {
	seen := map[string]bool{"": true, NoLayer: true}
	var names []string
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range g.Values {
		add(g.Values[i].Name)
	}
	for i := range g.Nodes {
		label := g.NodeLabel(NodeID(i))
		add(label)
		add(LayerOf(label))
	}
	return names
}
