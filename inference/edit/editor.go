package edit

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// Editor edits the main graph of a model in place. Between New and Finish the graph is in the making:
// removed nodes are still in its list, and new ones stand at its end.
type Editor struct {
	Model *graph.Model
	G     *graph.Graph
	Types *op.Result // types from before the first edit
	Order graph.Order

	names   *graph.Names
	readers [][]*graph.Node // by value; a list may have nodes that read it no longer
	held    []bool          // by value: a subgraph reads it
	gone    []bool          // by node
	at      []int32         // by node: its place in the order
	changed bool
}

// New is ready to edit a model, whose types it infers anew: of two dims it believes only that they are
// equal if they are in every run (op.NewExtender), whatever the file says of values that nodes make.
func New(m *graph.Model) (*Editor, error) {
	x, err := inferred(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	g := m.Graph
	order, err := graph.Topological(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	e := &Editor{Model: m, G: g, Types: x.Result(), Order: order, names: graph.NewNames(m),
		readers: make([][]*graph.Node, len(g.Values)), held: make([]bool, len(g.Values)),
		gone: make([]bool, len(g.Nodes)), at: order.Positions()}
	for _, n := range g.Nodes {
		e.note(n)
	}
	return e, nil
}

// inferred infers types without the file's types for the outputs of operators that memopt knows: a
// runtime computes their shapes itself, so that a wrong type in the file is harmless there.
func inferred(m *graph.Model) (*op.Extender, error) {
	op.Bind(m)
	g := m.Graph
	told := func(v graph.ValueID) bool {
		def := g.Values[v].Def
		return def == graph.NoNode || g.Nodes[def].Kind == op.Unknown
	}
	info, outputs := g.ValueInfo, g.Outputs
	defer func() { g.ValueInfo, g.Outputs = info, outputs }()
	g.ValueInfo = slices.DeleteFunc(slices.Clone(info), func(d graph.Decl) bool { return !told(d.Value) })
	g.Outputs = slices.Clone(outputs)
	for i, d := range g.Outputs {
		if !told(d.Value) {
			g.Outputs[i].Type = graph.Type{}
		}
	}
	return op.NewExtender(m)
}

// note adds a node to the readers of its inputs.
func (e *Editor) note(n *graph.Node) {
	for _, v := range n.Inputs {
		if v != graph.NoValue {
			e.readers[v] = append(e.readers[v], n)
		}
	}
	for _, v := range n.Captures() {
		e.held[v] = true
	}
}

// Nodes calls f for every node that was there before the first edit and is not gone, in order.
func (e *Editor) Nodes(f func(n *graph.Node)) {
	for _, id := range e.Order {
		if !e.gone[id] {
			f(e.G.Nodes[id])
		}
	}
}

// Gone reports whether a node has been removed.
func (e *Editor) Gone(n *graph.Node) bool { return e.gone[n.ID] }

// Maker returns the producer of a value, or nil.
func (e *Editor) Maker(v graph.ValueID) *graph.Node {
	if v == graph.NoValue || e.G.Values[v].Def == graph.NoNode {
		return nil
	}
	return e.G.Nodes[e.G.Values[v].Def]
}

// Readers lists the nodes that read a value as inputs, each once.
func (e *Editor) Readers(v graph.ValueID) []*graph.Node {
	var list []*graph.Node
	for _, n := range e.readers[v] {
		if !e.gone[n.ID] && slices.Contains(n.Inputs, v) && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	e.readers[v] = list
	return list
}

// Held reports whether more than nodes of the graph itself depends on a value: it is an output of the
// graph, or a subgraph reads it.
func (e *Editor) Held(v graph.ValueID) bool { return e.G.Values[v].Output || e.held[v] }

// Used reports whether a value has readers.
func (e *Editor) Used(v graph.ValueID) bool {
	return v != graph.NoValue && (e.Held(v) || len(e.Readers(v)) > 0)
}

// Only reports whether a node is the only reader of a value, by one input.
func (e *Editor) Only(v graph.ValueID, n *graph.Node) bool {
	readers := e.Readers(v)
	return !e.Held(v) && len(readers) == 1 && readers[0] == n && e.Reads(v) == 1
}

// Replace lets all readers of v read w instead, which has the same elements and type. If v is an
// output of the graph, the producer of w makes v in its place, unless w is needed by its name.
// Replace reports whether it has replaced v; it does not if subgraphs read v. The producer of v is
// left without readers.
func (e *Editor) Replace(v, w graph.ValueID) bool {
	switch {
	case v == w || e.held[v]:
		return false
	case e.G.Values[v].Output:
		return e.rename(v, w)
	}
	e.redirect(v, w)
	return true
}

// redirect lets the readers of v read w.
func (e *Editor) redirect(v, w graph.ValueID) {
	for _, n := range e.Readers(v) {
		for i, in := range n.Inputs {
			if in == v {
				n.Inputs[i] = w
			}
		}
		e.readers[w] = append(e.readers[w], n)
	}
	e.readers[v], e.changed = nil, true
}

// rename lets the node that makes w make v, an output of the graph, in its place.
func (e *Editor) rename(v, w graph.ValueID) bool {
	maker := e.Maker(w)
	if maker == nil || e.Held(w) {
		return false
	}
	if old := e.Maker(v); old != nil {
		e.Remove(old)
	}
	slot := e.G.Values[w].DefSlot
	maker.Outputs[slot] = v
	e.G.Values[v].Def, e.G.Values[v].DefSlot = maker.ID, slot
	e.G.Values[w].Def, e.G.Values[w].DefSlot = graph.NoNode, 0
	e.redirect(w, v)
	return true
}

// SetInput changes one input of a node.
func (e *Editor) SetInput(n *graph.Node, slot int, v graph.ValueID) {
	for len(n.Inputs) <= slot {
		n.Inputs = append(n.Inputs, graph.NoValue)
	}
	n.Inputs[slot], e.changed = v, true
	for len(n.Inputs) > 0 && n.Inputs[len(n.Inputs)-1] == graph.NoValue {
		n.Inputs = n.Inputs[:len(n.Inputs)-1]
	}
	if v != graph.NoValue {
		e.readers[v] = append(e.readers[v], n)
	}
}

// Remove removes a node. Its outputs have no maker then.
func (e *Editor) Remove(n *graph.Node) {
	for _, v := range n.Outputs {
		if v != graph.NoValue && e.G.Values[v].Def == n.ID {
			e.G.Values[v].Def, e.G.Values[v].DefSlot = graph.NoNode, 0
		}
	}
	e.gone[n.ID], e.changed = true, true
}

// NewValue adds a value of a type; its name is the given one, or follows it.
func (e *Editor) NewValue(name string, t graph.Type) graph.ValueID {
	v := e.G.Value(e.names.Value(name))
	e.G.Values[v].Type = t
	e.grow()
	return v
}

// grow gives new values their place in the side tables.
func (e *Editor) grow() {
	for len(e.readers) < len(e.G.Values) {
		e.readers, e.held = append(e.readers, nil), append(e.held, false)
	}
}

// Constant adds an initializer, which gets the tensor's name or one that follows it. wanted is the
// value that it becomes, which must have no producer; NoValue means a new value.
func (e *Editor) Constant(t *graph.TensorData, wanted graph.ValueID) (graph.ValueID, error) {
	if wanted == graph.NoValue {
		wanted = e.NewValue(t.Name, t.Type())
	}
	t.Name, t.Wire = e.G.ValueName(wanted), nil
	v, err := e.G.AddInitializer(t)
	e.changed = true
	return v, err
}

// SetConstant gives an initializer other contents.
func (e *Editor) SetConstant(v graph.ValueID, t *graph.TensorData) {
	t.Name, t.Wire = e.G.ValueName(v), nil
	e.G.Values[v].Data, e.G.Values[v].Type, e.changed = t, t.Type(), true
}

// Reads counts how often nodes of the graph read a value.
func (e *Editor) Reads(v graph.ValueID) int32 {
	count := int32(0)
	for _, n := range e.Readers(v) {
		for _, in := range n.Inputs {
			if in == v {
				count++
			}
		}
	}
	return count
}

// Add inserts a node right before another one, behind the nodes inserted there earlier. Its name is the
// given one, which may be that of the removed node that it replaces, or follows it. Its outputs must have
// no producer.
func (e *Editor) Add(n, before *graph.Node) error {
	if n.Name != "" && !(e.gone[before.ID] && n.Name == before.Name) {
		n.Name = e.names.Node(n.Name)
	}
	n.Kind = op.Lookup(n.Domain, n.Op)
	if err := e.G.AddNode(n); err != nil {
		return err
	}
	e.gone, e.at = append(e.gone, false), append(e.at, e.at[before.ID])
	e.note(n)
	e.changed = true
	return nil
}

// Finish ends the edits: it removes nodes and constants without readers, with the file's entries for
// them. It reports whether the graph has changed.
func (e *Editor) Finish() (bool, error) {
	if err := e.sweep(); err != nil {
		return false, err
	}
	return e.changed, nil
}

// Place is where a node stands in the order.
func (e *Editor) Place(n *graph.Node) int { return int(e.at[n.ID]) }
