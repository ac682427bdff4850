package executor

import (
	"fmt"

	"memopt/graph"
)

// SetInput gives a graph input its data, which must not change during runs. The session keeps a
// copy, from step to step, of states and of inputs that an operator updates, such as gradient
// accumulators, unless Options.AdoptStates hands the memory of states over to it. SetInput also
// takes the gradients that a boundary node outputs, by the name of the value.
func (s *Session) SetInput(name string, t *Tensor) error {
	id, ok := s.model.Graph.Lookup(name)
	if !ok {
		return fmt.Errorf("input %q: the model has no such value", name)
	}
	return s.SetValue(id, t)
}

// SetValue is SetInput for a value of the graph by its number. In host memory it makes no
// allocation.
func (s *Session) SetValue(id graph.ValueID, t *Tensor) error {
	g := s.model.Graph
	name := g.ValueName(id)
	for i := range s.feeds {
		if s.feeds[i].Value == id {
			s.feeds[i].Given = true
			return s.root.space.setFeed(id, t)
		}
	}
	v := &g.Values[id]
	if !v.Input {
		return fmt.Errorf("input %q: is not an input of the model", name)
	}
	if s.states.stored[id] {
		return fmt.Errorf("input %q: is a state of the store: put it there", name)
	}
	if t.DType != v.Type.DType {
		return fmt.Errorf("input %q: is %v, wanted %v", name, t, v.Type)
	}
	if want := s.root.shapes[id]; want != nil && !equalShapes(want, t.Shape) ||
		v.Type.Shape.Ranked && len(v.Type.Shape.Dims) != len(t.Shape) {
		return fmt.Errorf("input %q: is %v, wanted %v%v", name, t, v.Type, s.boundTo(want))
	}
	if n, ok := Bytes(t.DType, t.Shape); !ok || n != len(t.Data) {
		return fmt.Errorf("input %q: %v has %d bytes of data", name, t, len(t.Data))
	}
	return s.root.space.setInput(id, t)
}

// keepInput copies an input to memory of the session's own.
func (s *Session) keepInput(own, t *Tensor) error {
	own.DType, own.Shape = t.DType, append(own.Shape[:0], t.Shape...)
	if len(own.Data) != len(t.Data) {
		s.forget() // the capture has the old place
		s.weights.Free(own.Data)
		own.Data = nil
		data, err := s.weights.Alloc(len(t.Data))
		if err != nil {
			return err
		}
		own.Data = data
	}
	return s.mem.CopyIn(own.Data, t.Data)
}

func (s *Session) boundTo(shape []int) string {
	if shape == nil {
		return ""
	}
	return fmt.Sprintf(", which is %v with the dims of this session", shape)
}
