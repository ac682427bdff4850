package estimate

import (
	"fmt"
	"maps"
	"slices"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/arena"
)

// kind is the use of a value that stays throughout a step.
type kind uint8

const (
	other    kind = iota // statistics, constants
	weight               // a parameter
	input                // data of a step, and numbers such as the learning rate
	gradient             // a sum of gradients
	moment               // the optimizer's state
)

// classify finds the kind of each value that stays throughout a step.
func (s *step) classify() error {
	s.params, s.kinds = map[string]int64{}, map[string]kind{}
	for i, m := range s.models {
		if err := s.classifyModel(m, i > 0); err != nil {
			return err
		}
	}
	for name := range s.params {
		s.kinds[name] = weight
	}
	return nil
}

// classifyModel does so for one model; update marks the update of accumulated gradients, whose other states are
// known by then.
func (s *step) classifyModel(m *memopt.Model, update bool) error {
	g := m.Graph
	roles, states, err := rolesOf(m)
	if err != nil {
		return err
	}
	isState := map[graph.ValueID]bool{}
	for _, st := range states {
		isState[st.In] = true
	}
	for i := range g.Values {
		v, name := graph.ValueID(i), g.ValueName(graph.ValueID(i))
		if _, known := s.kinds[name]; known || !stays(g, v) {
			continue
		}
		switch {
		case update && isState[v], !update && roles.State[v]:
			s.kinds[name] = moment
		case roles.Gradient[v]:
			s.kinds[name] = gradient
		case g.Values[v].Input && !isState[v] && s.isData(g, v):
			s.kinds[name] = input
		default:
			s.kinds[name] = other
		}
		if s.isParameter(g, v, isState[v] && !update) && s.kinds[name] == other {
			n, err := g.Values[v].Type.Shape.Elements().Eval(m.Dims)
			if err != nil {
				return fmt.Errorf("parameter %q, %v: %w", name, g.Values[v].Type, err)
			}
			s.params[name] = n
		}
	}
	return nil
}

// rolesOf finds states and roles of a model in an order of its own.
func rolesOf(m *memopt.Model) (*live.Roles, []live.State, error) {
	states, err := live.FindStates(m.Model)
	if err != nil {
		return nil, nil, err
	}
	b, err := live.FindBoundary(m.Model)
	if err != nil {
		return nil, nil, err
	}
	order, err := graph.Topological(m.Graph)
	if err != nil {
		return nil, nil, err
	}
	return live.FindRoles(m.Graph, states, live.Split(m.Graph, b, order), order), states, nil
}

// stays reports whether a value is there throughout a step.
func stays(g *graph.Graph, v graph.ValueID) bool {
	x := &g.Values[v]
	return x.Input || x.IsInitializer() || x.Def != graph.NoNode && live.Persistent(g, v)
}

// isData reports whether an input that is no state is given anew for every step: for a derived step, the inputs
// that a job has to give; else every input but floats of a fixed shape, which are weights that the graph is
// given.
func (s *step) isData(g *graph.Graph, v graph.ValueID) bool {
	if s.steps != nil {
		return !s.steps.IsState(g.ValueName(v)) && g.Values[v].Data == nil
	}
	t := g.Values[v].Type
	if !t.DType.IsFloat() || len(t.Shape.Dims) == 0 {
		return true
	}
	for _, d := range t.Shape.Dims {
		if _, ok := d.Const(); !ok {
			return true
		}
	}
	return false
}

// isParameter reports whether a value is trained: as the steps say, as a state of the graph, or by
// the gradient that the graph makes for it.
func (s *step) isParameter(g *graph.Graph, v graph.ValueID, state bool) bool {
	name := g.ValueName(v)
	if s.trained != nil {
		return slices.Contains(s.trained, name)
	}
	if !g.Values[v].Type.DType.IsFloat() {
		return false
	}
	_, graded := g.Lookup(name + "_grad")
	return state || graded
}

// each calls do for everything that stays on the device throughout a step, once, with its bytes.
func (s *step) each(do func(name string, k kind, bytes int64)) {
	seen := map[string]bool{}
	for _, m := range s.models {
		g := m.Graph
		for i := range g.Values {
			v, name := graph.ValueID(i), g.ValueName(graph.ValueID(i))
			if !stays(g, v) || seen[name] || g.Values[i].Homed {
				continue
			}
			seen[name] = true
			if n, err := g.Values[v].Type.Bytes().Eval(m.Dims); err == nil {
				do(name, s.kinds[name], max(n, 0))
			}
		}
	}
}

// persistent are the parts that stay throughout a step.
func (s *step) persistent() (p parts.Parts) {
	s.each(func(_ string, k kind, n int64) {
		switch k {
		case moment:
			p.State += n
		case gradient:
			p.Gradients += n
		case input:
			p.Inputs += n
			p.Weights += n
		default:
			p.Weights += n
		}
	})
	return p
}

// rounding is by how many bytes the driver's allocator rounds up the blocks of a step: the tensors that stay,
// which lie next to each other as arenas align, and the arena. It is a share of the reserve: without one there is
// no driver, and a step takes the bytes of its plan.
func (s *step) rounding(arenaBytes int64) int64 {
	if s.reserve == 0 {
		return 0
	}
	var held []int64
	s.each(func(_ string, _ kind, n int64) { held = append(held, n) })
	return parts.Rounding(held, arenaBytes, arena.Alignment)
}

// slack is an upper bound on the rounding of any arena.
func (s *step) slack() int64 {
	if s.reserve == 0 {
		return 0
	}
	return s.rounding(1) + 1
}

// sortedParams lists the parameters in the order of their names.
func (s *step) sortedParams() []string { return slices.Sorted(maps.Keys(s.params)) }
