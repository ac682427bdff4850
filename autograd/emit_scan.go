package autograd

import (
	"slices"

	"memopt/graph"
)

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
	s.states = append(s.states, graph.Decl{Value: v, Type: s.Type(v)})
	s.inits = append(s.inits, init)
	return v
}

// adopt makes a value of the body, an input of the subgraph that it is a copy of, one that Slice
// would have made.
func (s *scan) adopt(x, v Value, axis int64, backward bool) {
	s.slices = append(s.slices, graph.Decl{Value: x, Type: s.Type(x)})
	s.scanned = append(s.scanned, v)
	s.inAxes, s.inBack = append(s.inAxes, axis), append(s.inBack, flag(backward))
}

// Slice adds a value that is cut along an axis into one slice for each iteration, the last first
// where backward.
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
	s.adopt(x, v, axis, backward)
	return x
}

// Next states the next iteration's states, in the order of State.
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
	}{{"scan_input_axes", s.inAxes}, {"scan_input_directions", s.inBack}, {"scan_output_axes", s.outAxes},
		{"scan_output_directions", s.outBack}} {
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
