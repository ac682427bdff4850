package autograd

import (
	"slices"

	"memopt/graph"
)

// inside returns a joint that works in a subgraph of j's graph: what it emits goes into the subgraph.
func (j *joint) inside(g *graph.Graph, name string) *joint {
	types, err := j.types.Body(g)
	if err != nil {
		panic(failure{err})
	}
	base := j.prefix + name + "/"
	return &joint{m: j.m, g: g, types: types, out: &Joint{}, counts: map[string]int{}, constants: map[string]Value{}, base: base, prefix: base}
}

// body starts a subgraph, named after the node at hand. The emitter fills it.
func (e *emitter) body(name string) *emitter {
	name = e.j.nodeName(name)[len(e.j.prefix):]
	return &emitter{e.j.inside(graph.New(e.j.prefix+name, e.j.g), name)}
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

// output makes a value the next output of a subgraph: under a copy of it where it is none of the
// subgraph's own results, or an output already.
func (e *emitter) output(v Value) {
	if x := e.j.g.Values[v]; x.Def == graph.NoNode || x.Output {
		v = e.Op("Identity", nil, v)
	}
	e.must(e.j.g.AddOutput(graph.Decl{Value: v, Type: withoutShape(e.Type(v))}))
}

// withoutShape leaves the element type of a tensor: what a subgraph need say of its results.
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
	e.must(sealNode(n))
	e.must(e.j.types.Node(n))
	return slices.Clone(n.Outputs)
}

// sealNode ends the building of a node's subgraphs: it lists what they capture.
func sealNode(n *graph.Node) error {
	var err error
	n.Captures = nil
	n.Subgraphs(func(_ string, sub *graph.Graph) {
		if err == nil {
			err = sub.Seal()
		}
		for _, v := range sub.Values {
			if v.Outer != None {
				n.Captures = append(n.Captures, v.Outer)
			}
		}
	})
	slices.Sort(n.Captures)
	n.Captures = slices.Compact(n.Captures)
	return err
}

// scan is a Scan node in the making. The embedded emitter fills its body.
type scan struct {
	emitter
	around *emitter

	states, slices   []graph.Decl // the body's inputs
	inits, scanned   []Value      // the node's
	next, rows       []Value      // the body's outputs
	inAxes, inBack   []int64
	outAxes, outBack []int64
}

// scanVersion is the operator set that has Scan as it is emitted.
const scanVersion = 11

// Scan starts a Scan node.
func (e *emitter) Scan() *scan {
	e.need(scanVersion)
	return &scan{emitter: *e.body("Scan_body"), around: e}
}

// State adds a value that is carried from one iteration to the next; init is its first.
func (s *scan) State(init Value) Value {
	v := s.input("state_"+itoa(len(s.states)), s.around.Type(init))
	s.states = append(s.states, s.j.g.Inputs[len(s.j.g.Inputs)-1])
	s.inits = append(s.inits, init)
	return v
}

// Slice adds a value that is cut along an axis into one slice for each iteration, the last first where
// backward.
func (s *scan) Slice(v Value, axis int64, backward bool) Value {
	t := s.around.Type(v)
	if t.Shape.Ranked {
		at := axis
		if at < 0 {
			at += int64(len(t.Shape.Dims))
		}
		t.Shape = graph.Dims(slices.Delete(slices.Clone(t.Shape.Dims), int(at), int(at)+1)...)
	}
	x := s.input("slice_"+itoa(len(s.slices)), t)
	s.slices = append(s.slices, s.j.g.Inputs[len(s.j.g.Inputs)-1])
	s.scanned = append(s.scanned, v)
	s.inAxes, s.inBack = append(s.inAxes, axis), append(s.inBack, flag(backward))
	return x
}

// Next says what the next iteration gets as its state, in the order of State.
func (s *scan) Next(v Value) { s.next = append(s.next, v) }

// Stack joins a value of all iterations along a new axis, that of the last iteration first where
// backward.
func (s *scan) Stack(v Value, axis int64, backward bool) {
	s.rows = append(s.rows, v)
	s.outAxes, s.outBack = append(s.outAxes, axis), append(s.outBack, flag(backward))
}

// Emit ends the node. It returns the last states and the stacks.
func (s *scan) Emit() (states, stacks []Value) {
	s.j.g.Inputs = append(s.states, s.slices...)
	for _, v := range append(s.next, s.rows...) {
		s.output(v)
	}
	attrs := Attrs{A("body", s.j.g), A("num_scan_inputs", int64(len(s.slices)))}
	for _, a := range []struct {
		name string
		list []int64
	}{{"scan_input_axes", s.inAxes}, {"scan_input_directions", s.inBack}, {"scan_output_axes", s.outAxes}, {"scan_output_directions", s.outBack}} {
		if slices.ContainsFunc(a.list, func(v int64) bool { return v != 0 }) {
			attrs = append(attrs, A(a.name, a.list))
		}
	}
	outs := s.around.control("Scan", attrs, len(s.next)+len(s.rows), append(s.inits, s.scanned...)...)
	return outs[:len(s.next)], outs[len(s.next):]
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
