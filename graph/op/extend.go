package op

import "memopt/graph"

// Extender infers the types of a graph that is still growing: a pass that adds nodes one by one
// knows the type of each value that it makes.
type Extender struct {
	inf   *inference
	outer *Extender // of the enclosing graph
}

// NewExtender infers the types of a model's main graph as InferAsIs does and is ready for nodes to
// come. It is conservative where Infer looks for the most likely description: two dims are the same
// expression only if they are equal in every legal run, also where one operand of a broadcast may
// be stretched and where the file says that it is not.
func NewExtender(m *graph.Model) (*Extender, error) {
	Bind(m)
	order, err := graph.Topological(m.Graph)
	if err != nil {
		return nil, err
	}
	inf := newInference(m.Graph, m.Opsets, nil)
	inf.careful, inf.local = true, localFunctions(m)
	return &Extender{inf: inf}, inf.run(order)
}

// Result returns the types inferred so far.
func (e *Extender) Result() *Result { return e.inf.res }

// Body is ready for the nodes of a subgraph of the graph: a body in the making, or one that has
// nodes already. The types of its inputs must be known.
func (e *Extender) Body(g *graph.Graph) (*Extender, error) {
	e.catchUp()
	order, err := graph.Topological(g)
	if err != nil {
		return nil, err
	}
	inf := newInference(g, e.inf.opsets, e.inf)
	inf.inputs = e.inf.inputs
	return &Extender{inf: inf, outer: e}, inf.run(order)
}

// Node sets the kind of a node that has been added to the graph and infers the types of its
// outputs. All its inputs must be known already. A contradiction to the definition is an error, as
// for Infer.
func (e *Extender) Node(n *graph.Node) error {
	e.catchUp()
	bindNode(n, nil)
	e.inf.strict, e.inf.purse = true, newPurse(n)
	defer func() { e.inf.strict = false }()
	return e.inf.node(n)
}

// catchUp sets the types of values that were added to the graph since then.
func (e *Extender) catchUp() {
	if e.outer != nil {
		e.outer.catchUp()
	}
	known, values := len(e.inf.declared.at), len(e.inf.g.Values)
	if known == values {
		return
	}
	e.inf.declared.grow(values)
	e.inf.res.contents.grow(values)
	for id := known; id < values; id++ {
		e.inf.startValue(graph.ValueID(id))
	}
}
