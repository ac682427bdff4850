package executor

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/mapfile"
)

// States of training: inputs whose next values a step writes into their own memory, so that the
// next step reads them. The memory model decides which next values lie there (live.Timeline.State);
// the others are copied when the step is done.

// states is the bookkeeping of a session's states.
type states struct {
	pairs []live.State
	is    []bool                    // by value: it is the input of a state
	given map[graph.ValueID]*Tensor // by input: the tensor of SetInput; initializers have their files
	// stored is set, by value, for states in Options.Store.
	stored []bool
	// copied are the states that a step copies when it is done.
	copied []live.State
	// first is the number of the first step that writes into the memory of a state.
	first int
	// begun is set once a step has finished, so that the states no longer have their first values.
	begun bool
	// torn is the error of a step that ended early after it had begun to write, or nil.
	torn error
}

// TornError is the error of a step that failed after it had begun to write its states: some have their
// next values, others the old ones, and the session refuses steps until all are set again. Bad data
// are not a cause: no state is written before the last node that can fail on data (op.Failures),
// except in steps that a device replays. Causes are faults of the machine and of the program: for
// example a lost device, a file that changes during the run, or failed allocations on demand.
type TornError struct{ Err error }

func (e *TornError) Error() string {
	return fmt.Sprintf("%v; the step had begun to update its states, so that their present values belong to no step: "+
		"start from a checkpoint, or from the inputs", e.Err)
}

func (e *TornError) Unwrap() error { return e.Err }

// findStates asks which inputs the model updates.
func (s *Session) findStates() (err error) {
	s.states.pairs, err = live.FindStates(s.model)
	s.states.given = map[graph.ValueID]*Tensor{}
	s.states.is = make([]bool, len(s.model.Graph.Values))
	for _, st := range s.states.pairs {
		s.states.is[st.In] = true
	}
	s.states.first = math.MaxInt
	s.findStored()
	return err
}

// torn is the error of an earlier step that rules out further ones, or nil.
func (s *Session) torn() error {
	if s.opts.Store != nil && s.opts.Store.torn != nil {
		return s.opts.Store.torn
	}
	return s.states.torn
}

// planStates notes the states as the memory model places them.
func (f *frame) planStates() {
	s := &f.s.states
	s.copied = s.copied[:0]
	for _, st := range s.pairs {
		if f.stateOf(st.Out) != st.In {
			s.copied = append(s.copied, st)
		}
	}
	for i := range f.steps {
		if f.steps[i].prep.Info.View {
			continue // its view shows the current contents
		}
		for slot, v := range f.steps[i].node.Outputs {
			if v == graph.NoValue || f.stateOf(v) == graph.NoValue {
				continue
			}
			if _, shows := f.steps[i].shows(slot); !shows {
				s.first = min(s.first, i)
			}
		}
	}
}

// stateOf returns the input whose memory holds a value, be it the input itself, or NoValue.
func (f *frame) stateOf(v graph.ValueID) graph.ValueID {
	if f.timeline.State == nil {
		return graph.NoValue
	}
	return f.timeline.State[v]
}

// intoState returns the memory of a state for output slot of a step, of n bytes.
func (st *step) intoState(slot int, in graph.ValueID, n int) ([]byte, error) {
	f := st.f
	if f.s.virtual || n == 0 {
		return nil, nil
	}
	data := f.vals[in].Data
	if f.s.homed() {
		data = f.s.opts.Store.home.next(f.s.place(in))
	}
	if len(data) == n {
		return data[:n:n], nil
	}
	return nil, st.mismatch(slot, f.vals[in].Shape)
}

// commit copies the next values that do not lie in their inputs' memory. They do not lie in the
// memory of another state: live.FindStates refuses such pairs.
func (s *Session) commit() error {
	f := s.root
	for _, st := range s.states.copied {
		in, out := f.vals[st.In], f.vals[st.Out]
		if len(in.Data) != len(out.Data) {
			return fmt.Errorf("state %q is %v, and its next value %q is %v",
				f.g.ValueName(st.In), in, f.g.ValueName(st.Out), out)
		}
		if len(in.Data) == 0 {
			continue
		}
		move := s.mem.Copy
		if f.space.atHost(st.Out) {
			move = s.mem.CopyIn
		}
		if err := move(in.Data, out.Data); err != nil {
			return fmt.Errorf("state %q: %w", f.g.ValueName(st.In), err)
		}
	}
	return nil
}

// commitHome makes the next values of a step the present ones in the session's home.
func (s *Session) commitHome() error {
	f, home := s.root, s.opts.Store.home
	for _, st := range s.states.pairs {
		at, out := s.place(st.In), f.vals[st.Out].Data
		now, next := home.now(at), home.next(at)
		switch {
		case len(now) != len(out):
			return fmt.Errorf("state %q is %v, and its next value %q is %v",
				f.g.ValueName(st.In), f.vals[st.In], f.g.ValueName(st.Out), f.vals[st.Out])
		case len(now) == 0 || &out[0] == &now[0]:
			continue // unchanged, or written where it is
		case &out[0] != &next[0]:
			copy(next, out)
		}
		home.turn(at)
	}
	return nil
}

// intact reports whether a step that failed has left the present values of all states as they were.
func (s *Session) intact() bool {
	if !s.homed() {
		return false
	}
	for _, st := range s.states.pairs {
		if s.opts.Store.home.places[s.place(st.In)].dirty {
			return false
		}
	}
	return true
}

// settleStates ends a step: its states have their next values, or it is known that they are torn.
// ran is how many nodes had run when it ended.
func (s *Session) settleStates(err error, ran int) error {
	if s.virtual || len(s.states.pairs) == 0 {
		return err
	}
	if err == nil {
		commit := s.commit
		if s.homed() {
			commit = s.commitHome
		}
		if err = commit(); err != nil {
			ran = math.MaxInt
		}
	}
	if err == nil {
		s.states.begun = true
		return nil
	}
	if ran < s.states.first || s.intact() || s.undone() {
		return err
	}
	torn := &TornError{err}
	if s.opts.Store != nil {
		s.opts.Store.tear(torn)
		return torn
	}
	s.states.torn = torn
	return torn
}

// undone gives the states of a first step that has failed the values that they began with, which are
// there still, and reports whether it could.
func (s *Session) undone() bool { return !s.states.begun && s.Restart() == nil }

// keepState gives a state's input its first value. If the session may (Options.AdoptStates), the
// state stays in the caller's memory.
func (s *Session) keepState(own, t *Tensor, id graph.ValueID) error {
	s.states.given[id] = t
	if s.opts.AdoptStates && s.mem == (hostMemory{}) && mapfile.Holding(t.Data) == nil {
		*own = *t
		populate(t.Data)
		return nil
	}
	return s.keepInput(own, t)
}

// populate makes the system give all pages of a slice memory, as a copy would. Fresh zeroed memory
// takes no pages, and would count as memory of the first step.
func populate(data []byte) {
	const page, word = 4096, 4
	aligned := -uintptr(unsafe.Pointer(unsafe.SliceData(data))) % word
	for i := int(aligned); i+word <= len(data); i += page {
		atomic.AddUint32((*uint32)(unsafe.Pointer(&data[i])), 0)
	}
}

// Restart resets all states to their first values: those of SetInput, otherwise those of the
// model's file. The next step is like the first one, except for random draws.
func (s *Session) Restart() error {
	if s.opts.AdoptStates {
		return fmt.Errorf("the session has written its states into the memory that it was given")
	}
	if s.opts.Store != nil {
		return fmt.Errorf("the session has written its states into a store, which has no first values: put them there")
	}
	for _, st := range s.states.pairs {
		t := s.states.given[st.In]
		own, data := s.root.vals[st.In], s.root.g.Values[st.In].Data
		switch {
		case t != nil:
		case data == nil || data.Source == nil || len(own.Data) == 0:
			continue // it has no data at all, which Run will say
		default:
			raw, err := data.Source.Bytes()
			if err != nil {
				return fmt.Errorf("initializer %q: %w", data.Name, err)
			}
			t = &Tensor{DType: own.DType, Shape: slices.Clone(own.Shape), Data: raw}
		}
		if err := s.keepInput(own, t); err != nil {
			return err
		}
	}
	s.states.torn, s.states.begun = nil, false
	return nil
}
