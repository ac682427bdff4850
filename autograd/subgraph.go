package autograd

import (
	"slices"

	"memopt/graph"
)

// inside returns a joint that works in a subgraph of j's graph: its nodes go into the subgraph. The
// error is that of a node in it whose inputs contradict its operator.
func (j *joint) inside(g *graph.Graph, name string) (*joint, error) {
	types, err := j.types.Body(g)
	base := j.prefix + name + "/"
	return &joint{m: j.m, g: g, types: types, out: &Joint{}, taken: j.taken, constants: map[string]Value{}, base: base,
		prefix: base, unfused: j.unfused}, err
}

// body starts a subgraph. The emitter fills it.
func (e *emitter) body(name string) *emitter {
	name = e.j.nodeName(name)[len(e.j.prefix):]
	in, err := e.j.inside(graph.New(e.j.prefix+name, e.j.g), name)
	e.must(err)
	return &emitter{in}
}

// capture returns the value of a subgraph that is value v of the enclosing graph.
func (e *emitter) capture(v Value) Value {
	outer := e.j.g.Outer.Values[v]
	id := e.j.g.Value(outer.Name)
	e.j.g.Values[id].Outer, e.j.g.Values[id].Type = v, outer.Type
	return id
}

// input adds an input to a subgraph.
func (e *emitter) input(name string, t graph.Type) Value {
	v := e.j.newValue(e.j.base + name)
	e.must(e.j.g.AddInput(graph.Decl{Value: v, Type: t}))
	return v
}

// output makes a value the next output of a subgraph: under a copy of it if it is not one of the
// subgraph's own results, or an output already.
func (e *emitter) output(v Value) {
	if x := e.j.g.Values[v]; x.Def == graph.NoNode || x.Output {
		v = e.Op("Identity", nil, v)
	}
	e.must(e.j.g.AddOutput(graph.Decl{Value: v, Type: withoutShape(e.Type(v))}))
}

// withoutShape leaves the element type of a tensor: all that a subgraph has to say about its
// results.
func withoutShape(t graph.Type) graph.Type {
	t.Shape = graph.Shape{}
	return t
}

// control emits a node that holds subgraphs.
func (e *emitter) control(name string, attrs Attrs, outputs int, in ...Value) []Value {
	n := &graph.Node{Name: e.j.nodeName(name), Op: name, Attrs: attrs, Inputs: slices.Clone(in)}
	for range outputs {
		n.Outputs = append(n.Outputs, e.j.newValue(n.Name+"_output_"+itoa(len(n.Outputs))))
	}
	e.must(e.j.g.AddNode(n))
	e.j.annotate(n)
	e.must(sealNode(n))
	e.must(e.j.types.Node(n))
	e.needSchema(n)
	return slices.Clone(n.Outputs)
}

// sealNode ends the building of a node's subgraphs: it lists their captures.
func sealNode(n *graph.Node) error {
	var err error
	var captures []Value
	n.Subgraphs(func(_ string, sub *graph.Graph) {
		if err == nil {
			err = sub.Seal()
		}
		for _, v := range sub.Values {
			if v.Outer != None {
				captures = append(captures, v.Outer)
			}
		}
	})
	slices.Sort(captures)
	n.EditRare(func(r *graph.Rare) { r.Captures = slices.Compact(captures) })
	return err
}
