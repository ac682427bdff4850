package op

import "memopt/graph"

// Extender infers the types of a graph that is still growing: a pass that adds nodes one by one knows the
// type of each value that it makes.
type Extender struct{ inf *inference }

// NewExtender infers the types of a model's main graph as Infer does and is ready for nodes
// to come.
func NewExtender(m *graph.Model) (*Extender, error) {
	Bind(m)
	order, err := graph.Topological(m.Graph)
	if err != nil {
		return nil, err
	}
	inf := newInference(m.Graph, m.Opsets, nil)
	return &Extender{inf}, inf.run(order)
}

// Result returns what has been inferred so far.
func (e *Extender) Result() *Result { return e.inf.res }

// Node sets the kind of a node that has been added to the graph and infers the types of its outputs. All its
// inputs must be known already.
func (e *Extender) Node(n *graph.Node) error {
	known := len(e.inf.declared)
	for id := known; id < len(e.inf.g.Values); id++ {
		e.inf.declared = append(e.inf.declared, graph.Type{})
		e.inf.res.contents = append(e.inf.res.contents, nil)
		e.inf.startValue(graph.ValueID(id))
	}
	n.Kind = Lookup(n.Domain, n.Op)
	return e.inf.node(n)
}
