package autograd

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Inference returns a model in the form for evaluation: Dropouts are identities, batch norms take the
// running statistics (op.Info.Evaluate), in subgraphs, too. Its outputs are the named values, such as
// the loss, and it keeps only the nodes that they depend on: those of the forward half. Initializers
// that inputs names, trained parameters and running statistics, become graph inputs with the
// initializers as defaults; those without readers are left out. Names stay. The records of halves, of
// states and of values that must be finite in a training step are left out. The model itself is not
// changed.
func Inference(m *graph.Model, outputs, inputs []string) (*graph.Model, *op.Result, error) {
	e := &evaluation{m: m.Clone()}
	e.g = e.m.Graph
	if _, err := op.InferAsIs(e.m); err != nil {
		return nil, nil, err
	}
	if err := e.evaluate(e.g); err != nil {
		return nil, nil, err
	}
	if err := e.keep(outputs); err != nil {
		return nil, nil, err
	}
	if err := e.declare(inputs); err != nil {
		return nil, nil, err
	}
	for _, key := range []string{live.BoundaryKey, live.StatesKey, op.WatchKey} {
		e.m.Metadata = slices.DeleteFunc(e.m.Metadata, func(p graph.Property) bool { return p.Key == key })
	}
	if err := graph.Verify(e.m); err != nil {
		return nil, nil, err
	}
	types, err := op.InferAsIs(e.m)
	return e.m, types, err
}

// evaluation is an evaluation form in the making.
type evaluation struct {
	m *graph.Model
	g *graph.Graph
}

// evaluate edits the nodes of a graph and of the subgraphs in it.
func (e *evaluation) evaluate(g *graph.Graph) (err error) {
	for _, n := range g.Nodes {
		n.Subgraphs(func(_ string, sub *graph.Graph) {
			if err == nil {
				err = e.evaluate(sub)
			}
		})
		info := op.Of(n.Kind)
		if err != nil || info.Evaluate == nil {
			continue
		}
		outputs := slices.Clone(n.Outputs)
		version := info.VersionOf(n, graph.OpsetVersion(e.m.Opsets, info.Domain))
		if why := info.Evaluate(n, version); why != nil {
			return fmt.Errorf("node %q (%s): cannot be evaluated: %w", g.NodeLabel(n.ID), n.Op, why)
		}
		for _, v := range outputs[len(n.Outputs):] {
			if v != None {
				g.Values[v].Def, g.Values[v].DefSlot = graph.NoNode, 0
			}
		}
	}
	return err
}

// keep makes the named values the outputs of the graph and drops the nodes that they do not need.
func (e *evaluation) keep(names []string) error {
	for _, d := range e.g.Outputs {
		e.g.Values[d.Value].Output = false
	}
	e.g.Outputs = nil
	for _, name := range names {
		v, ok := e.g.Lookup(name)
		if !ok {
			return fmt.Errorf("output %q: the graph has no such value", name)
		}
		if e.g.Values[v].Output {
			continue
		}
		if err := e.g.AddOutput(graph.Decl{Value: v, Type: e.g.Values[v].Type}); err != nil {
			return err
		}
	}
	order, err := graph.Topological(e.g)
	if err != nil {
		return err
	}
	nodes := make([]*graph.Node, 0, len(order))
	for _, id := range order {
		nodes = append(nodes, e.g.Nodes[id])
	}
	nodes = (&joint{g: e.g}).live(nodes, nil)
	e.g.SetNodes(nodes)
	return e.made()
}

// made checks that all values with readers have producers: an evaluated node makes no statistics of
// its batch.
func (e *evaluation) made() error {
	there := func(v Value) bool {
		val := &e.g.Values[v]
		return val.Def != graph.NoNode || val.Input || val.IsInitializer() || val.Outer != None
	}
	for _, n := range e.g.Nodes {
		for _, list := range [][]Value{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != None && !there(v) {
					return fmt.Errorf("node %q (%s): reads %q, which is there only in training",
						e.g.NodeLabel(n.ID), n.Op, e.g.ValueName(v))
				}
			}
		}
	}
	for _, d := range e.g.Outputs {
		if !there(d.Value) {
			return fmt.Errorf("output %q: is there only in training", e.g.ValueName(d.Value))
		}
	}
	return nil
}

// declare makes initializers graph inputs, and drops inputs and initializers without readers.
func (e *evaluation) declare(names []string) error {
	uses := graph.NewUses(e.g)
	read := func(v Value) bool { return len(uses.Of(v)) > 0 || e.g.Values[v].Output }
	for _, name := range names {
		v, ok := e.g.Lookup(name)
		if !ok {
			return fmt.Errorf("input %q: the graph has no such value", name)
		}
		switch val := &e.g.Values[v]; {
		case val.Input:
		case !val.IsInitializer():
			return fmt.Errorf("input %q: is made by node %s; wanted an input or an initializer", name,
				e.g.NodeLabel(val.Def))
		default:
			if err := e.g.AddInput(graph.Decl{Value: v, Type: val.Type}); err != nil {
				return err
			}
		}
	}
	e.g.Inputs = slices.DeleteFunc(e.g.Inputs, func(d graph.Decl) bool {
		e.g.Values[d.Value].Input = read(d.Value)
		return !read(d.Value)
	})
	e.g.Initializers = slices.DeleteFunc(e.g.Initializers, func(v Value) bool {
		if read(v) {
			return false
		}
		e.g.Values[v].Data = nil
		return true
	})
	return nil
}
