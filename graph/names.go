package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Names are the names of the nodes and values of a model's graphs, those of subgraphs included.
// ONNX does not allow the name of a value to be that of a value of an enclosing graph, and runtimes
// refuse a graph with two nodes of one name. Memopt gives no name twice in a file, whichever graphs
// it is for.
//
// Names that a file already has twice are tolerated: only new names must be unique, which Verify
// checks.
type Names struct {
	nodes, values nameSet
}

// nameSet has the names of one kind.
type nameSet struct {
	taken map[string]bool
	twice map[string]bool // those that the model had more than once from the start
	tried map[string]int  // by wanted name: the number last put behind it
}

// NewNames collects the names of a model's graphs. Those of functions' bodies are apart.
func NewNames(m *Model) *Names {
	n := &Names{newNameSet(), newNameSet()}
	eachName(m.Graph, n.nodes.note, n.values.note)
	return n
}

func newNameSet() nameSet {
	return nameSet{taken: map[string]bool{}, twice: map[string]bool{}, tried: map[string]int{}}
}

func (s *nameSet) note(name string) {
	if s.taken[name] {
		s.twice[name] = true
	}
	s.taken[name] = true
}

// fresh takes a name, with _1, _2 and so on behind it where it is taken.
func (s *nameSet) fresh(name string) string {
	unique := name
	for s.taken[unique] {
		s.tried[name]++
		unique = fmt.Sprintf("%s_%d", name, s.tried[name])
	}
	s.taken[unique] = true
	return unique
}

// eachName visits the names of all nodes, and of all values that a graph itself makes, at any
// depth.
func eachName(g *Graph, node, value func(string)) {
	for i := range g.Values {
		if v := &g.Values[i]; v.Outer == NoValue && g.made(ValueID(i)) {
			value(v.Name)
		}
	}
	for _, n := range g.Nodes {
		if n.Name != "" {
			node(n.Name)
		}
		n.Subgraphs(func(_ string, sub *Graph) { eachName(sub, node, value) })
	}
}

// Node returns a name for a node that no other has, and takes it: the wanted one, or that with _1,
// _2 and so on behind it.
func (n *Names) Node(name string) string { return n.nodes.fresh(name) }

// Value is Node for values.
func (n *Names) Value(name string) string { return n.values.fresh(name) }

// TakeValue takes a name that a value must have; ok is false where another has it.
func (n *Names) TakeValue(name string) (ok bool) {
	ok = !n.values.taken[name]
	n.values.taken[name] = true
	return ok
}

// TakeBoth is TakeValue for a node and its output, which share a name.
func (n *Names) TakeBoth(name string) (ok bool) {
	if ok = !n.nodes.taken[name] && !n.values.taken[name]; ok {
		n.nodes.taken[name], n.values.taken[name] = true, true
	}
	return ok
}

// Verify returns an error that gives the common name of two nodes, or two values, of a model,
// unless they had it when the names were collected.
func (n *Names) Verify(m *Model) error {
	values := n.values.verifier("values")
	if m.Graph.alone() {
		values.note = func(string) {} // a graph has no two values of one name
	}
	nodes := n.nodes.verifier("nodes")
	eachName(m.Graph, nodes.note, values.note)
	return cmp.Or(nodes.err, values.err)
}

// Done frees the memory of the names: no more will be given. Verify still works.
func (n *Names) Done() {
	n.nodes.taken, n.nodes.tried = nil, nil
	n.values.taken, n.values.tried = nil, nil
}

// verifier looks for names that occur twice and did not before.
type verifier struct {
	note func(string)
	err  error
}

func (s *nameSet) verifier(what string) *verifier {
	v, seen := &verifier{}, map[string]bool{}
	v.note = func(name string) {
		if seen[name] && !s.twice[name] && v.err == nil {
			v.err = fmt.Errorf("two %s are named %q; names are unique over all graphs of a model", what, name)
		}
		seen[name] = true
	}
	return v
}

// alone reports whether the graph has no subgraphs.
func (g *Graph) alone() bool { return !slices.ContainsFunc(g.Nodes, (*Node).HasSubgraphs) }

// Bounds of the names that Nested makes, in bytes.
const (
	maxPath = 1024
	maxPart = 128 // of the name itself, where the path is longer
)

// Nested is the name of a part of a subgraph: the path of the subgraph with the part's own name
// behind it. A part of a part has the path in its name already, so that names would double in
// length with every level: of long ones only the last part is kept, and of a long path the
// beginning. Names need not differ yet.
func Nested(path, name string) string {
	if len(path)+len(name) <= maxPath {
		return path + name
	}
	name = name[strings.LastIndexByte(strings.TrimRight(name, "/"), '/')+1:]
	if len(name) > maxPart {
		name = strings.ToValidUTF8(name[len(name)-maxPart:], "")
	}
	if len(path) > maxPath-maxPart {
		path = strings.ToValidUTF8(path[:maxPath-maxPart], "")
	}
	return path + name
}

// Rename gives all nodes and values of a subgraph new names, at any depth; values that it takes
// from outside keep theirs. prefix goes in front of the names, as by Nested.
func (n *Names) Rename(g *Graph, prefix string) {
	names := make(map[string]ValueID, len(g.Values))
	for i := range g.Values {
		v := &g.Values[i]
		if v.Outer != NoValue {
			v.Name = g.Outer.Values[v.Outer].Name
		} else {
			v.Name = n.Value(Nested(prefix, v.Name))
		}
		names[v.Name] = ValueID(i)
	}
	g.names = names
	g.renameData()
	for _, list := range []*[]Decl{&g.Inputs, &g.Outputs, &g.ValueInfo} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Wire = nil
		}
	}
	for _, node := range g.Nodes {
		if node.Name != "" {
			node.Name = n.Node(Nested(prefix, node.Name))
		}
		for i := range node.Attrs {
			if node.Attrs[i].renamed(n, prefix) {
				node.Attrs[i].Wire = nil
			}
		}
	}
}

// renamed gives the subgraphs of an attribute new names, and reports whether it has any.
func (a *Attr) renamed(n *Names, prefix string) bool {
	switch v := a.Value.(type) {
	case *Graph:
		n.Rename(v, prefix)
		return true
	case []*Graph:
		for _, sub := range v {
			n.Rename(sub, prefix)
		}
		return len(v) > 0
	}
	return false
}

// renameData gives the tensors of initializers the names of their values.
func (g *Graph) renameData() {
	for _, id := range g.Initializers {
		t := *g.Values[id].Data
		t.Name, t.Wire = g.Values[id].Name, nil
		g.Values[id].Data = &t
	}
	for _, id := range g.Sparse {
		s := *g.Values[id].SparseData
		values := *s.Values
		values.Name, values.Wire = g.Values[id].Name, nil
		s.Values, s.Wire = &values, nil
		g.Values[id].SparseData = &s
	}
}
