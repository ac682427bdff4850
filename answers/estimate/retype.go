package estimate

import (
	"maps"
	"slices"
	"strings"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/precision"
	"memopt/train"
)

// retypedSteps are the steps with their values in the types of a precision. They can be planned, and
// not be executed.
func (s *step) retypedSteps() *train.Steps {
	out := *s.steps
	out.Step = s.retyped(out.Step)
	if out.Update != nil {
		out.Update = s.retyped(out.Update)
	}
	out.States = slices.Clone(out.States)
	t := parts.TypesOf(s.opts.Precision)
	for i := range out.States {
		st := &out.States[i]
		st.Type.DType = s.stateType(t, st.Name, st.Type.DType)
	}
	return &out
}

// retyped is a model with its values in the types of the precision.
func (s *step) retyped(m *memopt.Model) *memopt.Model {
	if s.opts.Precision == precision.AsIs || s.rewrites() {
		return m
	}
	t := parts.TypesOf(s.opts.Precision)
	g := *m.Graph
	g.Values = slices.Clone(g.Values)
	update := s.updates(m)
	for i := range g.Values {
		v := &g.Values[i]
		if !counted(v.Type.DType) {
			continue
		}
		switch id := graph.ValueID(i); {
		case stays(&g, id):
			v.Type.DType = s.stateType(t, g.ValueName(id), v.Type.DType)
		case update.next[id] != "":
			v.Type.DType = s.stateType(t, update.next[id], v.Type.DType)
		case update.by[id]:
			v.Type.DType = t.Moments
		case update.gradient[id]:
			v.Type.DType = t.Gradients
		default:
			v.Type.DType = t.Activations
		}
	}
	read := *m.Model
	read.Graph = &g
	out := *m
	out.Model = &read
	return &out
}

// counted reports whether a precision determines the type of such values: the floats that training
// computes with.
func counted(d graph.DType) bool {
	return d == graph.Float32 || d == graph.Float16 || d == graph.BFloat16 || d == graph.Float64
}

// stateType is the type of a value that stays throughout a step. Data and constants keep their own.
func (s *step) stateType(t parts.Types, name string, own graph.DType) graph.DType {
	if !counted(own) {
		return own
	}
	switch s.kinds[name] {
	case weight:
		return t.Weights
	case gradient:
		return t.Gradients
	case moment:
		if s.opts.Recipe.Optimizer.Bits() > 0 && strings.HasSuffix(name, autograd.ScaleSuffix) {
			return own
		}
		return t.Moments
	}
	return own
}

// updateValues are the roles of a model's values in its update.
type updateValues struct {
	next     map[graph.ValueID]string // the state whose next value it is
	by       []bool                   // made by a node that updates, of a weight or a moment
	gradient []bool                   // is the gradient of a parameter, or computed from gradients for an update
}

// updates finds the roles of a model's values in its update.
func (s *step) updates(m *memopt.Model) updateValues {
	u := updateValues{next: map[graph.ValueID]string{}, by: make([]bool, len(m.Graph.Values)),
		gradient: make([]bool, len(m.Graph.Values))}
	roles, states, err := rolesOf(m)
	if err != nil {
		return u // classify has reported it
	}
	for _, st := range states {
		// The next value has one type from the node that makes it: a state is written in its own place.
		for v := st.Out; v != graph.NoValue && !stays(m.Graph, v) && u.next[v] == ""; {
			u.next[v] = m.Graph.ValueName(st.In)
			def := m.Graph.Values[v].Def
			if !op.Of(m.Graph.Nodes[def].Kind).Has(op.IdentityRole) {
				break
			}
			v = m.Graph.Nodes[def].Input(0)
		}
	}
	whole := m != s.models[0] // an update of accumulated gradients
	old := s.fromStates(m, roles.Gradient)
	for v := range m.Graph.Values {
		def := m.Graph.Values[v].Def
		updates := def != graph.NoNode && (whole || roles.Update[def])
		u.by[v] = updates && old[v]
		u.gradient[v] = roles.Gradient[v] || updates && !old[v]
	}
	return u
}

// fromStates marks the values that depend on weights or moments. A value computed from gradients
// alone, as for a bound on their norm, has the type of gradients, whose memory it takes over.
func (s *step) fromStates(m *memopt.Model, gradient []bool) []bool {
	g := m.Graph
	from := make([]bool, len(g.Values))
	for v := range g.Values {
		k := s.kinds[g.ValueName(graph.ValueID(v))]
		from[v] = stays(g, graph.ValueID(v)) && (k == weight || k == moment)
	}
	order, err := graph.Topological(g)
	if err != nil {
		return from // classify has reported it
	}
	for _, id := range order {
		n := g.Nodes[id]
		depends := slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool {
			return v != graph.NoValue && from[v] && !gradient[v]
		})
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				from[v] = depends
			}
		}
	}
	return from
}

// masterBytes are the bytes of master weights.
func (s *step) masterBytes() (n int64) {
	t := parts.TypesOf(s.opts.Precision)
	if s.opts.Precision == precision.AsIs || s.rewrites() || t.Master == graph.Undefined || !s.updatesItself() {
		return 0
	}
	for _, elements := range maps.All(s.params) {
		n += elements * int64(t.Master.Bits()) / 8
	}
	return n
}

// updatesItself reports whether the step updates parameters: only then are there master weights.
func (s *step) updatesItself() bool {
	if s.trained != nil {
		return s.opts.Recipe.Optimizer.Kind != ""
	}
	_, states, err := rolesOf(s.models[0])
	return err == nil && len(states) > 0
}
