package live

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// inheritance is a simulation's data on states: which values may be written into the buffers of
// inputs whose next values they are or lead to. IDs are stored plus 1, so that reused memory need
// only be cleared.
//
// The next value of an input is written straight into the input's buffer by the step that makes it,
// if no later one reads the old value. If that step itself reads it, it must be able to write in
// place. A value that leads to the next value through steps that write in place lies there as well:
// in new = Sub(Mul(old, c), d), for example, the product, if no later step reads old.
//
// No state is written before the last step that may fail because of the data: a training step either
// fails while all states have their old values, or does not fail by data any more.
type inheritance struct {
	heirOf []graph.ValueID // by value: the state's input, plus 1; 0: it is not an heir
	last   []bool          // by value: it is the next value, or a view's source that shows it
	via    []int32         // by value that is not last: one past the last step that makes an heir of it in place
	in     []graph.ValueID // by value: the input in whose buffer it lies, plus 1
	free   []int32         // by input of a state: the first step that may overwrite its buffer
	commit int32           // one past the last step that may fail by data: until then no state is written
}

// inherit marks the heirs of all states, from the last step back.
func (s *simulation) inherit() {
	h, p := &s.state, s.p
	if len(p.States) == 0 {
		*h, s.t.State, s.t.Copied = inheritance{}, nil, nil
		return
	}
	n := len(p.Bytes)
	h.heirOf, h.last, h.via = zeroed(h.heirOf, n), zeroed(h.last, n), zeroed(h.via, n)
	h.in, h.free = zeroed(h.in, n), zeroed(h.free, n)
	h.commit = 0
	for i := range p.Steps {
		if p.Steps[i].Fails != op.NeverFails {
			h.commit = int32(i) + 1
		}
	}
	for _, st := range p.States {
		h.in[st.In], h.free[st.In] = st.In+1, s.keep[st.In]
		if !s.pinned[st.In] && s.positive(st.In) {
			h.heirOf[st.Out], h.last[st.Out] = st.In+1, true
		}
	}
	s.eachStepBack(func(_ int32, step *Step, out graph.ValueID) {
		if src := step.viewSource(); src != graph.NoValue {
			s.bequeath(src, out)
			h.last[src] = h.last[src] || h.heirOf[src] == h.heirOf[out]
		}
	})
	s.eachStepBack(func(at int32, step *Step, out graph.ValueID) {
		for _, slot := range step.inPlace() {
			// A buffer that is needed to the end is not inherited.
			if in := step.Input(slot); in != graph.NoValue && s.same(in, out) && !s.pinned[in] {
				s.bequeath(in, out)
				h.via[in] = max(h.via[in], at+1)
			}
		}
	})
}

// eachStepBack calls f for the steps whose first output is an heir, the last step first.
func (s *simulation) eachStepBack(f func(at int32, step *Step, out graph.ValueID)) {
	for i := len(s.p.Steps) - 1; i >= 0; i-- {
		step := &s.p.Steps[i]
		if out := step.Output0(); out != graph.NoValue && s.state.heirOf[out] != 0 {
			f(int32(i), step, out)
		}
	}
}

// bequeath makes a value an heir of another's state, unless it is one already.
func (s *simulation) bequeath(v, of graph.ValueID) {
	if h := &s.state; !s.p.Persistent[v] && h.heirOf[v] == 0 {
		h.heirOf[v] = h.heirOf[of]
	}
}

// heir reports whether a value may lie in the buffer of a state in some order.
func (s *simulation) heir(v graph.ValueID) bool {
	return s.state.heirOf != nil && s.state.heirOf[v] != 0
}

// view puts a view where its source lies.
func (h *inheritance) view(v, src graph.ValueID) {
	if h.in != nil {
		h.in[v] = h.in[src]
	}
}

// intoState gives output slot of a step the buffer of a state, if it can.
func (s *simulation) intoState(at int32, step *Step, slot int, id graph.ValueID) bool {
	if !s.heir(id) {
		return false
	}
	h := &s.state
	in := h.heirOf[id] - 1
	if !s.same(id, in) || at < h.commit {
		return false
	}
	end := max(s.keep[id], at+1)
	switch {
	case !h.last[id] && end != h.via[id]:
		return false // it is needed after the next heir is made from it
	case h.free[in] == at+1 && !s.inherits(step, slot, in):
		return false
	case h.free[in] > at+1:
		return false // a later step reads the old value
	}
	h.in[id], h.free[in] = in+1, end
	return true
}

// inherits reports whether a step that reads a state's buffer may write an output there.
func (s *simulation) inherits(step *Step, slot int, in graph.ValueID) bool {
	lies := func(i int) bool {
		v := step.Input(i)
		return v != graph.NoValue && s.state.in[v] == in+1 && s.same(v, in)
	}
	reads := func(i int) bool {
		v := step.Input(i)
		return v != graph.NoValue && s.state.in[v] == in+1
	}
	if slot == 0 && slices.ContainsFunc(step.inPlace(), lies) {
		return !slices.ContainsFunc(op.Of(step.Kind).Throughout, reads)
	}
	return slices.ContainsFunc(op.Of(step.Kind).States, func(u op.Update) bool { return u.Out == slot && lies(u.In) })
}

// settle notes in the timeline the contents of states' buffers, and which states are copied.
func (s *simulation) settle() {
	h, t := &s.state, &s.t
	if h.in == nil {
		return
	}
	t.State = slices.Grow(t.State[:0], len(h.in))[:len(h.in)]
	for v, in := range h.in {
		t.State[v] = in - 1
	}
	t.Copied = t.Copied[:0]
	for _, st := range s.p.States {
		if h.in[st.Out] != st.In+1 && (s.positive(st.In) || s.positive(st.Out)) {
			t.Copied = append(t.Copied, st)
		}
	}
}
