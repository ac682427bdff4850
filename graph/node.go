package graph

// Node is one operation. Properties that few nodes have are kept apart (Rare), so that a graph may
// have millions of nodes.
type Node struct {
	ID   NodeID
	Kind Kind // row of the op table, set by op.Bind and op.Infer
	// Version is the schema version that package op reads a node in, if it is not that of the
	// imported operator set; 0 means that it is.
	Version int32

	Name   string
	Op     string
	Domain string

	Inputs  []ValueID // NoValue where an optional input is left out
	Outputs []ValueID // NoValue where an optional output is left out
	Attrs   []Attr

	rare *Rare // nil if all of it is empty
}

// Rare holds properties that few nodes have.
type Rare struct {
	Overload string
	// Fault says how the node contradicts its operator's definition, if it does; the node is then
	// opaque: its kind is unknown.
	Fault error
	// Clash names an output, or an input of a subgraph, that has other elements or another rank in
	// the file than by the operator. Analyses use the operator's type; no executor runs the node.
	// Nil means that the types agree.
	Clash error

	Captures []ValueID // values of this graph that the node's subgraphs read; ascending

	Doc      string
	Metadata []Property
	Devices  []NodeDevices // how the node runs on several devices, by configuration
	Extra    []byte
}

// Rare returns the node's rare properties; EditRare changes them.
func (n *Node) Rare() Rare {
	if n.rare == nil {
		return Rare{}
	}
	return *n.rare
}

// EditRare changes the node's rare properties.
func (n *Node) EditRare(edit func(*Rare)) {
	r := n.Rare()
	edit(&r)
	n.SetRare(r)
}

// SetRare replaces the node's rare properties.
func (n *Node) SetRare(r Rare) {
	n.rare = nil
	if !r.empty() {
		kept := r // r itself stays off the heap if it is empty
		n.rare = &kept
	}
}

func (r *Rare) empty() bool {
	return r.Overload == "" && r.Fault == nil && r.Clash == nil && len(r.Captures) == 0 &&
		r.Doc == "" && len(r.Metadata) == 0 && len(r.Devices) == 0 && len(r.Extra) == 0
}

// Captures are the values of the node's graph that its subgraphs read; ascending.
func (n *Node) Captures() []ValueID {
	if n.rare == nil {
		return nil
	}
	return n.rare.Captures
}

// Fault is Rare.Fault.
func (n *Node) Fault() error {
	if n.rare == nil {
		return nil
	}
	return n.rare.Fault
}

// Clash is Rare.Clash.
func (n *Node) Clash() error {
	if n.rare == nil {
		return nil
	}
	return n.rare.Clash
}

// Input returns input i, or NoValue when it is left out.
func (n *Node) Input(i int) ValueID {
	if i >= len(n.Inputs) {
		return NoValue
	}
	return n.Inputs[i]
}

// Output returns output i, or NoValue when it is left out.
func (n *Node) Output(i int) ValueID {
	if i >= len(n.Outputs) {
		return NoValue
	}
	return n.Outputs[i]
}

// Attr is an attribute of a node. Value holds one of
//
//	int64, float32, string, []int64, []float32, []string,
//	*TensorData, []*TensorData, *Sparse, []*Sparse,
//	*Graph, []*Graph, Type, []Type
//
// or nil where Ref names an attribute of the enclosing function.
type Attr struct {
	Name  string
	Value any
	Ref   string
	Doc   string
	Wire  []byte // encoded form, nil once changed
}

// Attr returns the attribute with the given name, or nil.
func (n *Node) Attr(name string) *Attr {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return &n.Attrs[i]
		}
	}
	return nil
}

func attr[T any](n *Node, name string, def T) T {
	if a := n.Attr(name); a != nil {
		if v, ok := a.Value.(T); ok {
			return v
		}
	}
	return def
}

// Int returns an integer attribute, or def where it is absent or of another
// type. Package graph/op reports attributes of a wrong type.
func (n *Node) Int(name string, def int64) int64 { return attr(n, name, def) }

// Float returns a float attribute, or def.
func (n *Node) Float(name string, def float32) float32 { return attr(n, name, def) }

// Str returns a string attribute, or def.
func (n *Node) Str(name, def string) string { return attr(n, name, def) }

// IntList returns an attribute that lists integers, or def. A single integer is a list of one.
func (n *Node) IntList(name string, def []int64) []int64 {
	if a := n.Attr(name); a != nil {
		if v, one := a.Value.(int64); one {
			return []int64{v}
		}
	}
	return attr(n, name, def)
}

// FloatList returns an attribute that lists floats, or def.
func (n *Node) FloatList(name string, def []float32) []float32 { return attr(n, name, def) }

// StrList returns an attribute that lists strings, or def.
func (n *Node) StrList(name string, def []string) []string { return attr(n, name, def) }

// TensorAttr returns a tensor attribute, or nil.
func (n *Node) TensorAttr(name string) *TensorData { return attr[*TensorData](n, name, nil) }

// GraphAttr returns a subgraph attribute, or nil.
func (n *Node) GraphAttr(name string) *Graph { return attr[*Graph](n, name, nil) }

// SetAttr sets an attribute; a new one goes to the end of the list.
func (n *Node) SetAttr(name string, value any) {
	if a := n.Attr(name); a != nil {
		*a = Attr{Name: name, Value: value, Doc: a.Doc}
		return
	}
	n.Attrs = append(n.Attrs, Attr{Name: name, Value: value})
}

// Subgraphs calls f for every subgraph of the node, in attribute order.
func (n *Node) Subgraphs(f func(attr string, g *Graph)) {
	for i := range n.Attrs {
		switch v := n.Attrs[i].Value.(type) {
		case *Graph:
			f(n.Attrs[i].Name, v)
		case []*Graph:
			for _, g := range v {
				f(n.Attrs[i].Name, g)
			}
		}
	}
}

// HasSubgraphs reports whether the node has a subgraph.
func (n *Node) HasSubgraphs() bool {
	has := false
	n.Subgraphs(func(string, *Graph) { has = true })
	return has
}
