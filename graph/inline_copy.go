package graph

import (
	"fmt"
	"slices"

	"memopt/symbolic"
)

// rewrite replaces the calls in a graph and its subgraphs.
func (in *inliner) rewrite(g *Graph) {
	w := &writer{in: in, g: g, nodes: make([]*Node, 0, len(g.Nodes))}
	for _, n := range g.Nodes {
		if in.err != nil {
			return
		}
		if _, call := in.callee(n); !call {
			in.rewriteSubgraphs(n)
		}
		w.emit(n)
	}
	w.finish()
}

// rewriteSubgraphs replaces the calls in a node's subgraphs where there are any.
func (in *inliner) rewriteSubgraphs(n *Node) {
	for i := range n.Attrs {
		a := &n.Attrs[i]
		rewrite := func(sub *Graph) {
			if in.callsAny(sub) {
				in.rewrite(sub)
				a.Wire = nil
			}
		}
		switch v := a.Value.(type) {
		case *Graph:
			rewrite(v)
		case []*Graph:
			for _, sub := range v {
				rewrite(sub)
			}
		}
	}
}

// writer builds the new list of nodes of a graph.
type writer struct {
	in    *inliner
	g     *Graph
	nodes []*Node
}

// emit appends a node whose operands are values of w.g, or the body of the
// function that it calls.
func (w *writer) emit(n *Node) {
	if i, call := w.in.callee(n); call {
		w.expand(n, w.in.m.Functions[i])
		return
	}
	if w.in.spend(ownWeight(n)) {
		w.nodes = append(w.nodes, n)
	}
}

func (w *writer) finish() {
	if w.in.err != nil {
		return
	}
	w.g.SetNodes(w.nodes)
	w.in.err = w.g.Seal()
}

// scope is one call of a function: the meaning of its names.
type scope struct {
	f     *Function
	call  *Node
	label string
}

// attr returns the value of one of the function's attributes, or nil.
func (s *scope) attr(name string) *Attr {
	if a := s.call.Attr(name); a != nil {
		return a
	}
	for i := range s.f.AttrDefaults {
		if s.f.AttrDefaults[i].Name == name {
			return &s.f.AttrDefaults[i]
		}
	}
	return nil
}

// unmapped marks a value that the copy does not have yet.
const unmapped ValueID = -2

// copier maps the values of a graph that is copied to those of the copy. scope is nil
// for a subgraph that a call passes as an attribute: its first copy keeps its names.
type copier struct {
	w     *writer // of the copy
	from  *Graph
	outer *copier // of the enclosing graph; nil for a body, and where scope is nil
	scope *scope
	again bool      // no first copy
	ids   []ValueID // by value of from
}

func newCopier(w *writer, from *Graph, outer *copier, s *scope) *copier {
	c := &copier{w: w, from: from, outer: outer, scope: s}
	if w.in.spend(weight{parts: int64(len(from.Values))}) {
		c.ids = slices.Repeat([]ValueID{unmapped}, len(from.Values))
	}
	return c
}

// value returns the copy of a value. It is NoValue for inputs that the call leaves out.
func (c *copier) value(id ValueID) ValueID {
	if id == NoValue {
		return NoValue
	}
	if c.ids[id] == unmapped {
		c.ids[id] = c.w.g.Value(c.name(id))
	}
	return c.ids[id]
}

func (c *copier) name(id ValueID) string {
	v := &c.from.Values[id]
	switch {
	case c.scope == nil && v.Outer != NoValue && c.outer.scope != nil:
		return v.Name
	case c.scope == nil && v.Outer == NoValue && !c.again:
		return v.Name
	case c.scope == nil && v.Outer == NoValue:
		return c.w.in.fresh(c.w.in.values, v.Name)
	case v.Outer != NoValue:
		return c.outer.w.g.ValueName(c.outer.value(v.Outer))
	}
	return c.w.in.fresh(c.w.in.values, c.scope.label+"/"+v.Name)
}

// values maps operands; those left out at the end are dropped.
func (c *copier) values(list []ValueID) []ValueID {
	out := make([]ValueID, len(list))
	for i, id := range list {
		out[i] = c.value(id)
	}
	for len(out) > 0 && out[len(out)-1] == NoValue {
		out = out[:len(out)-1]
	}
	return out
}

// expand appends the body of a function in place of its call.
func (w *writer) expand(call *Node, f *Function) {
	s := &scope{f: f, call: call, label: call.Name}
	if s.label == "" {
		s.label = fmt.Sprintf("%s#%d", call.Op, call.ID)
	}
	if len(call.Inputs) > len(f.Inputs) || len(call.Outputs) > len(f.Outputs) {
		w.fail("node %q calls function %q with %d inputs and %d outputs, which has %d and %d",
			s.label, f.Name, len(call.Inputs), len(call.Outputs), len(f.Inputs), len(f.Outputs))
	}
	c := newCopier(w, f.Body, nil, s)
	if w.in.err != nil {
		return
	}
	for i, v := range f.Inputs {
		c.ids[v] = call.Input(i)
	}
	passed := c.bindOutputs()
	c.nodes()
	for _, n := range passed {
		w.emit(n)
	}
	c.valueInfos()
}

func (w *writer) fail(format string, args ...any) {
	if w.in.err == nil {
		w.in.err = fmt.Errorf(format, args...)
	}
}

// bindOutputs makes the body write the call's outputs. It returns an Identity node
// for each output that is an input or another output.
func (c *copier) bindOutputs() (passed []*Node) {
	s := c.scope
	for i, v := range s.f.Outputs {
		out := s.call.Output(i)
		switch {
		case out == NoValue:
		case c.ids[v] == unmapped:
			c.ids[v] = out
		case c.ids[v] == NoValue:
			c.w.fail("node %q calls function %q, whose output %d is an input that the call leaves out",
				s.label, s.f.Name, i)
		case OpsetVersion(c.w.in.opsets, "") == 0:
			c.w.fail("node %q calls function %q, whose output %d is an input; that takes an Identity node, but the "+
				"model does not import the operators of ONNX", s.label, s.f.Name, i)
		default:
			passed = append(passed, &Node{Name: c.w.in.fresh(c.w.in.labels, s.label+"/Identity"), Op: "Identity",
				Inputs: []ValueID{c.ids[v]}, Outputs: []ValueID{out}})
		}
	}
	return passed
}

// nodes appends copies of the nodes of c.from.
func (c *copier) nodes() {
	for i := range c.from.Nodes {
		if c.w.in.err != nil {
			return
		}
		if n := c.node(NodeID(i)); c.w.in.err == nil {
			c.w.emit(n)
		}
	}
}

func (c *copier) node(id NodeID) *Node {
	src := c.from.Nodes[id]
	n := *src
	n.Kind = 0
	rare := src.Rare()
	rare.Captures = nil
	n.Inputs, n.Outputs = c.values(src.Inputs), c.values(src.Outputs)
	if c.scope != nil {
		n.Name = c.w.in.fresh(c.w.in.labels, c.scope.label+"/"+c.from.NodeLabel(id))
		rare.Metadata = withMissing(rare.Metadata, c.scope.call.Rare().Metadata)
		rare.Devices = WithStages(rare.Devices, c.scope.call.Devices())
	} else if c.again && n.Name != "" {
		n.Name = c.w.in.fresh(c.w.in.labels, n.Name)
	}
	n.SetRare(rare)
	n.Attrs = make([]Attr, 0, len(src.Attrs))
	for i := range src.Attrs {
		c.attr(&n, src.Attrs[i])
	}
	return &n
}

// withMissing returns list with the entries of more whose keys it lacks.
func withMissing(list, more []Property) []Property {
	if len(more) == 0 {
		return list
	}
	has := make(map[string]bool, len(list))
	for _, p := range list {
		has[p.Key] = true
	}
	out := slices.Clone(list)
	for _, p := range more {
		if !has[p.Key] {
			out = append(out, p)
		}
	}
	return out
}

// attr appends a copy of an attribute, or of the attribute that it refers to.
func (c *copier) attr(n *Node, a Attr) {
	inner := c.scope
	if a.Ref != "" && c.scope != nil {
		given := c.scope.attr(a.Ref)
		if given == nil {
			return
		}
		// Subgraphs among the call's attributes speak of the caller's values.
		a, inner = Attr{Name: a.Name, Value: given.Value, Doc: a.Doc}, nil
	}
	switch v := a.Value.(type) {
	case *Graph:
		a.Value, a.Wire = c.subgraph(v, inner), nil
	case []*Graph:
		list := make([]*Graph, len(v))
		for i, sub := range v {
			list[i] = c.subgraph(sub, inner)
		}
		a.Value, a.Wire = list, nil
	}
	n.Attrs = append(n.Attrs, a)
}

// subgraph copies a subgraph into c's graph.
func (c *copier) subgraph(src *Graph, s *scope) *Graph {
	c.w.in.spend(weight{parts: partsOfGraph})
	w := &writer{in: c.w.in, g: New(src.Name, c.w.g)}
	w.g.Doc, w.g.Metadata, w.g.Extra = src.Doc, src.Metadata, src.Extra
	sub := newCopier(w, src, c, s)
	if s == nil {
		sub.again = w.in.passed[src]
		w.in.passed[src] = true
	}
	if w.in.err != nil {
		return w.g
	}
	for _, d := range src.Inputs {
		w.check(w.g.AddInput(sub.decl(d)))
	}
	sub.initializers()
	sub.nodes()
	if w.in.err != nil {
		return w.g
	}
	for i, d := range src.Outputs {
		d = sub.decl(d)
		if d.Value == NoValue {
			w.fail("node %q calls function %q: output %d of a subgraph is an input that the call leaves out",
				s.label, s.f.Name, i)
			return w.g
		}
		w.check(w.g.AddOutput(d))
	}
	sub.valueInfos()
	w.finish()
	return w.g
}

func (w *writer) check(err error) {
	if w.in.err == nil {
		w.in.err = err
	}
}

// decl copies a declaration. Symbols that a function declares are meaningless outside.
func (c *copier) decl(d Decl) Decl {
	if c.scope != nil {
		d.Type = withoutSymbols(d.Type)
	}
	return Decl{Value: c.value(d.Value), Type: d.Type, Doc: d.Doc}
}

func (c *copier) initializers() {
	for _, id := range c.from.Initializers {
		t := *c.from.Values[id].Data
		t.Name, t.Wire = c.w.g.ValueName(c.value(id)), nil
		_, err := c.w.g.AddInitializer(&t)
		c.w.check(err)
	}
	for _, id := range c.from.Sparse {
		s := *c.from.Values[id].SparseData
		values := *s.Values
		values.Name, values.Wire = c.w.g.ValueName(c.value(id)), nil
		s.Values, s.Wire = &values, nil
		_, err := c.w.g.AddSparse(&s)
		c.w.check(err)
	}
}

// valueInfos copies the file's declarations of values that have not been declared yet.
func (c *copier) valueInfos() {
	if c.w.in.err != nil {
		return
	}
	for _, d := range c.from.ValueInfo {
		if c.ids[d.Value] == unmapped || c.ids[d.Value] == NoValue {
			continue
		}
		d = c.decl(d)
		v := &c.w.g.Values[d.Value]
		if d.Type.Form == FormUnknown || v.Type.Form != FormUnknown || v.Input || v.Output {
			continue
		}
		v.Type = d.Type
		c.w.g.ValueInfo = append(c.w.g.ValueInfo, d)
	}
}

// withoutSymbols returns the type with only numbers as known dims.
func withoutSymbols(t Type) Type {
	dims := slices.Clone(t.Shape.Dims)
	for i, d := range dims {
		if _, ok := d.Const(); !ok {
			dims[i] = symbolic.Unknown()
		}
	}
	t.Shape.Dims = dims
	if t.Elem != nil {
		elem := withoutSymbols(*t.Elem)
		t.Elem = &elem
	}
	return t
}
