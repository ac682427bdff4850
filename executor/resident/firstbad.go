package resident

import (
	"context"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// FirstBad executes the step again in its own arena. It needs, beyond that, a byte per value and,
// on an accelerator, host memory for one value at a time.
func (s *step) FirstBad(ctx context.Context, number uint64, inputs []*executor.Tensor) (
	value, node string, err error) {
	watched, err := op.Watched(s.session.Model())
	if err != nil {
		return "", "", err
	}
	if err := s.give(number, inputs); err != nil {
		return "", "", err
	}
	f := &finder{step: s, bad: make([]executor.Bad, len(s.graph.Values)), meant: make([]bool, len(s.graph.Values))}
	if err := f.given(inputs); err != nil {
		return "", "", err
	}
	wanted := make([]bool, len(s.graph.Values))
	for _, v := range watched {
		wanted[v] = true
	}
	err = s.session.Examine(ctx, func(v graph.ValueID, t *executor.Tensor) bool {
		f.note(v, t)
		return !wanted[v] || f.bad[v] == 0
	})
	if err != nil {
		return "", "", err
	}
	v := f.origin(watched)
	if v == graph.NoValue {
		return "", "", nil
	}
	return s.graph.ValueName(v), f.maker(v), nil
}

// finder collects which values are not finite.
type finder struct {
	step  *step
	bad   []executor.Bad  // by value: the kinds of its elements that are not finite
	meant []bool          // by value: its infinities are those of constants
	order []graph.ValueID // the bad ones, as they were found
}

// note looks at a value. A copy is as its source.
func (f *finder) note(v graph.ValueID, t *executor.Tensor) {
	if f.source(v) != v {
		return
	}
	if kinds := executor.BadKinds(t); kinds != 0 && f.bad[v] == 0 {
		f.bad[v], f.meant[v] = kinds, f.handedOn(v, kinds)
		f.order = append(f.order, v)
	}
}

// source returns the value that a copy on the host, or one that came back, is of; another value is its own.
func (f *finder) source(v graph.ValueID) graph.ValueID {
	for v != graph.NoValue {
		def := f.step.graph.Values[v].Def
		if def == graph.NoNode || op.Of(f.step.graph.Nodes[def].Kind).Transfer == op.NoTransfer {
			break
		}
		v = f.step.graph.Nodes[def].Input(0)
	}
	return v
}

// handedOn reports whether the elements that are not finite are infinities that the file means: a
// constant is -∞ for a mask, and nodes hand that on. Infinities of inputs and states are not meant,
// nor are those that a node makes of finite numbers, and NaN never is.
func (f *finder) handedOn(v graph.ValueID, kinds executor.Bad) bool {
	g := f.step.graph
	def := g.Values[v].Def
	switch {
	case kinds&executor.NaN != 0:
		return false
	case def == graph.NoNode:
		return g.Values[v].IsInitializer() && !f.step.session.Stored(v)
	}
	var from executor.Bad
	numbers := false
	n := g.Nodes[def]
	for _, in := range slices.Concat(n.Inputs, n.Captures()) {
		if in = f.source(in); in == graph.NoValue {
			continue
		}
		numbers = numbers || g.Values[in].Type.DType.IsFloat()
		if from |= f.bad[in]; f.bad[in] != 0 && !f.meant[in] {
			return false
		}
	}
	return kinds&^from == 0 || !numbers // a node without numbers as inputs makes a constant
}

// given checks the values that the step begins with: inputs, states, and constants of the model.
func (f *finder) given(inputs []*executor.Tensor) error {
	s := f.step
	for i, t := range inputs {
		if t != nil {
			f.note(s.inputs[i], t)
		}
	}
	for i := range s.graph.Values {
		v := &s.graph.Values[i]
		switch {
		case s.session.Stored(graph.ValueID(i)):
			if err := f.state(graph.ValueID(i)); err != nil {
				return err
			}
		case v.Data != nil && v.Data.Source != nil && v.Data.DType.IsFloat():
			raw, err := v.Data.Source.Bytes()
			if err != nil {
				return err
			}
			f.note(graph.ValueID(i), &executor.Tensor{DType: v.Data.DType, Data: raw})
		}
	}
	return nil
}

// state looks at a state, which is copied to the host where it is not there.
func (f *finder) state(v graph.ValueID) error {
	s := f.step
	t, _ := s.machine.store.Tensor(s.graph.ValueName(v))
	if !t.DType.IsFloat() {
		return nil
	}
	if _, ok := s.machine.device.(executor.Accelerator); ok {
		data := make([]byte, (len(t.Data)+7)&^7)[:len(t.Data)]
		if err := s.machine.store.Read(s.graph.ValueName(v), data); err != nil {
			return err
		}
		t.Data = data
	}
	f.note(v, t)
	return nil
}

// origin returns the first bad value with a path of bad values to a watched one; if there is no
// such path, the first bad value of all. A mask of infinities, say, is on no path where a softmax
// has made finite numbers of it. Intended infinities count only if no other value is bad.
func (f *finder) origin(watched []graph.ValueID) graph.ValueID {
	reached := make([]bool, len(f.bad))
	var rest []graph.ValueID
	reach := func(v graph.ValueID) {
		if v = f.source(v); v != graph.NoValue && f.bad[v] != 0 && !reached[v] {
			reached[v] = true
			rest = append(rest, v)
		}
	}
	for _, v := range watched {
		reach(v)
	}
	for len(rest) > 0 {
		v := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		def := f.step.graph.Values[v].Def
		if def == graph.NoNode {
			continue
		}
		n := f.step.graph.Nodes[def]
		for _, in := range n.Inputs {
			reach(in)
		}
		for _, in := range n.Captures() {
			reach(in)
		}
	}
	for _, fits := range []func(v graph.ValueID) bool{
		func(v graph.ValueID) bool { return reached[v] && !f.meant[v] },
		func(v graph.ValueID) bool { return reached[v] },
		func(v graph.ValueID) bool { return !f.meant[v] },
	} {
		if at := slices.IndexFunc(f.order, fits); at >= 0 {
			return f.order[at]
		}
	}
	return graph.NoValue
}

// maker returns the producer of a value, or the kind of its source.
func (f *finder) maker(v graph.ValueID) string {
	g := f.step.graph
	switch {
	case g.Values[v].Def != graph.NoNode:
		return g.NodeLabel(g.Values[v].Def)
	case f.step.session.Stored(v):
		return OfState
	case g.Values[v].IsInitializer():
		return OfModel
	}
	return OfInput
}
