package graph

import (
	"fmt"
	"slices"
)

// Graph is a directed acyclic graph of nodes and the values between them: the
// main graph of a model, a subgraph of a control-flow node, or the body of a function.
type Graph struct {
	Name   string
	Doc    string
	Nodes  []*Node // by NodeID, in file order
	Values []Value // by ValueID

	Inputs    []Decl // in order; an input may also be an initializer, its default
	Outputs   []Decl
	ValueInfo []Decl // declarations of other values

	Initializers []ValueID // in file order; Value.Data
	Sparse       []ValueID // sparse ones; Value.SparseData

	Outer    *Graph // enclosing graph of a subgraph, else nil
	Metadata []Property
	Extra    []byte

	names map[string]ValueID
}

// Value is one edge bundle of the graph: an output of its producer, or an input, with all its
// readers.
type Value struct {
	Name       string
	Type       Type    // best knowledge: declared, then completed by inference
	Def        NodeID  // producer, or NoNode
	DefSlot    int32   // which output of the producer
	Outer      ValueID // in a subgraph: the value of the enclosing graph that this is, else NoValue
	Input      bool    // a graph input
	Output     bool    // a graph output
	Data       *TensorData
	SparseData *Sparse
	// Homed says that the value, a state of a training job, lies in a home: a file that no memory for plans and no
	// budget has.
	Homed bool
}

// IsInitializer reports whether the file holds the value's contents.
func (v *Value) IsInitializer() bool { return v.Data != nil || v.SparseData != nil }

// IsConstant reports whether the value is an initializer that the caller cannot override: one that
// is not a graph input.
func (v *Value) IsConstant() bool { return v.IsInitializer() && !v.Input }

// Decl is a file's declaration of a value in its lists of inputs, outputs and value_info.
type Decl struct {
	Value ValueID
	Type  Type
	Doc   string
	Wire  []byte // encoded form, nil once changed
}

// New returns an empty graph. outer is the enclosing graph of a subgraph, else nil.
func New(name string, outer *Graph) *Graph {
	return &Graph{Name: name, Outer: outer, names: map[string]ValueID{}}
}

// Reserve makes room for a known number of nodes and values.
func (g *Graph) Reserve(nodes, values int) {
	g.Nodes = slices.Grow(g.Nodes, nodes)
	g.Values = slices.Grow(g.Values, values)
	if len(g.names) == 0 {
		g.names = make(map[string]ValueID, values)
	}
}

// Value returns the value with the given name, adding it if need be. The
// empty name stands for an operand that is left out: NoValue.
func (g *Graph) Value(name string) ValueID {
	if name == "" {
		return NoValue
	}
	if id, ok := g.names[name]; ok {
		return id
	}
	id := ValueID(len(g.Values))
	g.Values = append(g.Values, Value{Name: name, Def: NoNode, Outer: NoValue})
	g.names[name] = id
	return id
}

// Lookup returns the value with the given name.
func (g *Graph) Lookup(name string) (ValueID, bool) {
	id, ok := g.names[name]
	return id, ok
}

// ValueName returns a value's name, or "" for NoValue.
func (g *Graph) ValueName(id ValueID) string {
	if id == NoValue {
		return ""
	}
	return g.Values[id].Name
}

// NodeLabel names a node in messages: its name where it has one, else its
// operator and place in the file.
func (g *Graph) NodeLabel(id NodeID) string {
	n := g.Nodes[id]
	if n.Name != "" {
		return n.Name
	}
	return fmt.Sprintf("%s#%d", n.Op, id)
}

// AddNode appends a node and makes it the producer of its outputs. It fails when
// one of them already has a producer.
func (g *Graph) AddNode(n *Node) error {
	n.ID = NodeID(len(g.Nodes))
	g.Nodes = append(g.Nodes, n)
	for slot, id := range n.Outputs {
		if id == NoValue {
			continue
		}
		if err := g.define(id, n, slot); err != nil {
			return err
		}
	}
	return nil
}

func (g *Graph) define(id ValueID, n *Node, slot int) error {
	v := &g.Values[id]
	by := ""
	switch {
	case v.Def != NoNode:
		by = fmt.Sprintf("node %q (%s)", g.NodeLabel(v.Def), g.Nodes[v.Def].Op)
	case v.Input:
		by = "the graph's inputs"
	case v.IsInitializer():
		by = "an initializer"
	}
	if by != "" {
		return fmt.Errorf(
			"node %q (%s): output %d: value %q is already made by %s; every value needs a name of its own",
			g.NodeLabel(n.ID), n.Op, slot, v.Name, by)
	}
	v.Def, v.DefSlot = n.ID, int32(slot)
	return nil
}

// AddInput declares a graph input.
func (g *Graph) AddInput(d Decl) error {
	v := &g.Values[d.Value]
	if v.Input {
		return fmt.Errorf("graph %q: input %q is listed twice; every input needs a name of its own", g.Name, v.Name)
	}
	v.Input, v.Type = true, d.Type
	g.Inputs = append(g.Inputs, d)
	return nil
}

// AddOutput declares a graph output.
func (g *Graph) AddOutput(d Decl) error {
	v := &g.Values[d.Value]
	if v.Output {
		return fmt.Errorf("graph %q: output %q is listed twice", g.Name, v.Name)
	}
	v.Output = true
	if v.Type.Form == FormUnknown {
		v.Type = d.Type
	}
	g.Outputs = append(g.Outputs, d)
	return nil
}

// AddInitializer adds a tensor whose contents the file holds, under the tensor's
// own name.
func (g *Graph) AddInitializer(t *TensorData) (ValueID, error) {
	id := g.Value(t.Name)
	if err := g.checkInitializer(id, t.Name); err != nil {
		return id, err
	}
	v := &g.Values[id]
	v.Data = t
	if v.Type.Form == FormUnknown {
		v.Type = t.Type()
	}
	g.Initializers = append(g.Initializers, id)
	return id, nil
}

// AddSparse adds a sparse initializer under the name of its values.
func (g *Graph) AddSparse(s *Sparse) (ValueID, error) {
	id := g.Value(s.Values.Name)
	if err := g.checkInitializer(id, s.Values.Name); err != nil {
		return id, err
	}
	v := &g.Values[id]
	v.SparseData = s
	if v.Type.Form == FormUnknown {
		v.Type = Tensor(s.Values.DType, Ints(s.Dims...))
	}
	g.Sparse = append(g.Sparse, id)
	return id, nil
}

func (g *Graph) checkInitializer(id ValueID, name string) error {
	if id == NoValue {
		return fmt.Errorf("graph %q: an initializer has no name", g.Name)
	}
	if g.Values[id].IsInitializer() {
		return fmt.Errorf("graph %q: initializer %q is listed twice", g.Name, name)
	}
	return nil
}

// Seal ends the building of a graph: a value without producer that a node reads, or that the graph
// returns, is taken from the enclosing graph, or is an error if that does not have it. It fills in
// Rare.Captures of the nodes that hold subgraphs, which must be sealed before.
func (g *Graph) Seal() error {
	for _, n := range g.Nodes {
		for slot, id := range n.Inputs {
			if id != NoValue && !g.bound(id) {
				return fmt.Errorf("node %q (%s): input %d: value %q has no producer: it is not a "+
					"graph input, an initializer or a node's output",
					g.NodeLabel(n.ID), n.Op, slot, g.Values[id].Name)
			}
		}
		if err := g.sealCaptures(n); err != nil {
			return err
		}
	}
	for i, d := range g.Outputs {
		if !g.bound(d.Value) {
			return fmt.Errorf("graph %q: output %d: value %q has no producer", g.Name, i, g.Values[d.Value].Name)
		}
	}
	return nil
}

// bound reports whether a value has a producer, looking it up in the
// enclosing graph if need be.
func (g *Graph) bound(id ValueID) bool {
	v := &g.Values[id]
	if v.Def != NoNode || v.Input || v.IsInitializer() || v.Outer != NoValue {
		return true
	}
	if g.Outer == nil {
		return false
	}
	v.Outer = g.Outer.Value(v.Name)
	return true
}

func (g *Graph) sealCaptures(n *Node) error {
	var captures []ValueID
	n.Subgraphs(func(_ string, sub *Graph) {
		for i := range sub.Values {
			if o := sub.Values[i].Outer; o != NoValue {
				captures = append(captures, o)
			}
		}
	})
	n.setCaptures(captures)
	for _, id := range n.Captures() {
		if !g.bound(id) {
			return fmt.Errorf("node %q (%s): its subgraph reads value %q, which has no producer in any enclosing graph",
				g.NodeLabel(n.ID), n.Op, g.Values[id].Name)
		}
	}
	return nil
}

// setCaptures sets Rare.Captures from a list in any order.
func (n *Node) setCaptures(list []ValueID) {
	if len(list) == 0 && len(n.Captures()) == 0 {
		return
	}
	slices.Sort(list)
	n.EditRare(func(r *Rare) { r.Captures = slices.Compact(list) })
}
