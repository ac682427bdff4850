package train

import (
	"fmt"

	"memopt"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/live"
)

// HomeSize is the bytes of the file of a home (Recipe.Home), each state twice, by kind.
type HomeSize struct {
	Weights   int64 // parameters, statistics, and constants that the step is given
	Gradients int64 // sums of gradients
	Moments   int64 // the other states
	// Read and Written are the bytes that an update reads there at least, once for each half of a step that needs a
	// state, and writes.
	Read, Written int64
}

// Bytes is the size of the file.
func (h *HomeSize) Bytes() int64 { return h.Weights + h.Gradients + h.Moments }

// HomeSize sizes the home of the states of steps of so many rows, of which so many are made for an update.
func (s *Steps) HomeSize(rows int64, micros int) (*HomeSize, error) {
	h := &HomeSize{}
	for i := range s.States {
		st := &s.States[i]
		place := []executor.Place{{DType: st.Type.DType, Shape: executor.EvalShape(st.Type, s.dims(rows))}}
		bytes, ok := executor.LayPlaces(place)
		switch {
		case place[0].Shape == nil || !ok:
			return nil, fmt.Errorf("state %q: %v is of no size that a file has", st.Name, st.Type)
		case s.isSum(st.Name):
			h.Gradients += bytes
		case st.Model:
			h.Weights += bytes
		default:
			h.Moments += bytes
		}
	}
	err := h.add(s, s.Step, rows, int64(max(micros, 1)))
	if err == nil && s.Update != nil {
		err = h.add(s, s.Update, rows, 1)
	}
	return h, err
}

// add adds the traffic of a model that is executed so many times for an update.
func (h *HomeSize) add(s *Steps, m *memopt.Model, rows, times int64) error {
	u, err := usesOf(m.Model)
	if err != nil {
		return err
	}
	for i := range s.States {
		v, ok := m.Graph.Lookup(s.States[i].Name)
		if !ok {
			continue
		}
		n, err := s.States[i].bytes(s.dims(rows))
		if err != nil {
			return err
		}
		h.Read += times * u.halves[v] * n
		if u.next[v] {
			h.Written += times * n
		}
	}
	return nil
}

// stateUses say how a model uses its states, by value.
type stateUses struct {
	halves []int64 // the halves of the step that read it
	next   []bool  // it has a next value
}

// usesOf finds the uses of a model's states.
func usesOf(m *graph.Model) (*stateUses, error) {
	states, err := live.FindStates(m)
	if err != nil {
		return nil, err
	}
	b, err := live.FindBoundary(m)
	if err != nil {
		return nil, err
	}
	g := m.Graph
	order, err := graph.Topological(g)
	if err != nil {
		return nil, err
	}
	backward := live.Split(g, b, order)
	u := &stateUses{make([]int64, len(g.Values)), make([]bool, len(g.Values))}
	for _, st := range states {
		u.next[st.In] = true
	}
	reads := [2][]bool{make([]bool, len(g.Values)), make([]bool, len(g.Values))}
	for _, n := range g.Nodes {
		half := reads[0]
		if backward[n.ID] {
			half = reads[1]
		}
		for _, list := range [...][]graph.ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != graph.NoValue && !half[v] {
					half[v] = true
					u.halves[v]++
				}
			}
		}
	}
	return u, nil
}
