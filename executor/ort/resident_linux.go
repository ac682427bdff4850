//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"memopt/executor"
)

// heapFile is the number of the heap's file in the second process.
const heapFile = 4

// residents are models that share states in the heap. The zero value is empty.
type residents struct {
	heap   *os.File // nil until it is open
	states []sharedState
	models []*residentModel // by number; nil if unloaded
}

// sharedState is a state with its buffers: the second one is for models that cannot write the next
// value over the old one. Which of them has the state's value is a property of the state, since
// every model may change it.
type sharedState struct {
	buffers [2]*executor.Tensor // nil without a second buffer
	current int
}

// residentModel is a model whose inputs and outputs are bound to the heap.
type residentModel struct {
	session *Session
	feed    *Feed
	reads   []stateValue // inputs of the feed
	writes  []stateValue // outputs of the session
}

// stateValue is an operand that is a state.
type stateValue struct {
	state  int
	at     int        // the operand's number
	values [2]uintptr // by the state's buffer; 0 if it has no value
	swaps  bool       // of an output: it goes to the buffer that does not have the state's value
}

// load opens a model.
func (r *residents) load(l *Library, q *loadRequest) (*Loaded, error) {
	for i := range q.States {
		if err := r.place(&q.States[i]); err != nil {
			return nil, fmt.Errorf("state %q: %w", q.States[i].Input, err)
		}
	}
	session, err := l.NewSession(q.Model, q.Options)
	if err != nil {
		return nil, err
	}
	m := &residentModel{session: session}
	if err := r.bind(m, q); err != nil {
		m.close()
		return nil, err
	}
	st, err := session.Stats()
	if err != nil {
		m.close()
		return nil, err
	}
	r.models = append(r.models, m)
	return &Loaded{Model: len(r.models) - 1, Arena: st}, nil
}

// place maps the buffers of a state, as far as they are not mapped yet.
func (r *residents) place(s *SharedState) error {
	for len(r.states) <= s.ID {
		r.states = append(r.states, sharedState{})
	}
	state := &r.states[s.ID]
	for i, at := range s.At {
		if at < 0 || state.buffers[i] != nil {
			continue
		}
		t := &executor.Tensor{DType: s.DType, Shape: s.Shape}
		if err := r.mapTensor(t, at); err != nil {
			return err
		}
		state.buffers[i] = t
	}
	return nil
}

// mapTensor maps a tensor's bytes in the heap, all pages at once. They stay mapped: the process
// ends with the machine that it serves.
func (r *residents) mapTensor(t *executor.Tensor, at int64) error {
	n, ok := executor.Bytes(t.DType, t.Shape)
	if !ok || n == 0 {
		return nil
	}
	if r.heap == nil {
		r.heap = os.NewFile(heapFile, "heap")
	}
	before := int(at % int64(os.Getpagesize()))
	p, err := unix.MmapPtr(int(r.heap.Fd()), at-int64(before), nil, uintptr(before+n),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("mapping %v: %w", t, err)
	}
	t.Data = unsafe.Slice((*byte)(p), before+n)[before:]
	return nil
}

// bind makes the values of a model's operands.
func (r *residents) bind(m *residentModel, q *loadRequest) (err error) {
	var inputs []Named
	for _, in := range q.Inputs {
		t := &executor.Tensor{DType: in.DType, Shape: in.Shape}
		if err := r.mapTensor(t, in.At); err != nil {
			return fmt.Errorf("input %q: %w", in.Name, err)
		}
		inputs = append(inputs, Named{in.Name, t})
	}
	for _, s := range q.States {
		if s.Input != "" {
			m.reads = append(m.reads, stateValue{state: s.ID, at: len(inputs)})
			inputs = append(inputs, Named{s.Input, r.states[s.ID].buffers[0]})
		}
	}
	if m.feed, err = m.session.Feed(inputs); err != nil {
		return err
	}
	for i := range m.reads {
		v := &m.reads[i]
		v.values[0], m.feed.values[v.at] = m.feed.values[v.at], 0
	}
	for _, s := range q.States {
		if s.Output == "" {
			continue
		}
		at := slices.Index(m.session.outputs, s.Output)
		if at < 0 {
			return fmt.Errorf("output %q: the model has no such output", s.Output)
		}
		m.writes = append(m.writes, stateValue{state: s.ID, at: at, swaps: !s.InPlace})
	}
	for _, out := range q.Outputs {
		t := &executor.Tensor{DType: out.DType, Shape: out.Shape}
		if err := r.mapTensor(t, out.At); err != nil {
			return fmt.Errorf("output %q: %w", out.Name, err)
		}
		if err := m.feed.Bind(out.Name, t); err != nil {
			return err
		}
	}
	return nil
}

// value returns the value of an operand in the buffer where this run reads or writes the state. It
// is made when it is needed first: another model may have given the state a second buffer.
func (r *residents) value(m *residentModel, v *stateValue) (_ uintptr, err error) {
	s := &r.states[v.state]
	k := s.current
	if v.swaps {
		k = 1 - k
	}
	if v.values[k] == 0 {
		if s.buffers[k] == nil {
			return 0, errors.New("a state has no second buffer")
		}
		v.values[k], err = m.feed.value(s.buffers[k])
	}
	return v.values[k], err
}

// turn runs a model once. Its states change places if it succeeds.
func (r *residents) turn(q *turnRequest) (*Step, error) {
	if q.Model < 0 || q.Model >= len(r.models) || r.models[q.Model] == nil {
		return nil, fmt.Errorf("there is no model %d", q.Model)
	}
	m := r.models[q.Model]
	defer m.unbind()
	if err := r.bindStates(m); err != nil {
		return nil, err
	}
	before, err := m.session.Stats()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	results, err := m.session.Run(m.feed)
	took := time.Since(begin)
	if err != nil {
		return nil, err
	}
	results.Close()
	after, err := m.session.Stats()
	if err != nil {
		return nil, err
	}
	if after.MaxInUse > before.MaxInUse {
		after.MaxInUse -= before.InUse
	} else {
		after.MaxInUse = 0 // an earlier run took more: the memory of this one is not known
	}
	for _, v := range m.writes {
		if v.swaps {
			r.states[v.state].current ^= 1
		}
	}
	return &Step{Nanoseconds: took.Nanoseconds(), Arena: after}, nil
}

// bindStates gives a run its states.
func (r *residents) bindStates(m *residentModel) (err error) {
	for i := range m.reads {
		if m.feed.values[m.reads[i].at], err = r.value(m, &m.reads[i]); err != nil {
			return err
		}
	}
	for i := range m.writes {
		if m.feed.bound[m.writes[i].at], err = r.value(m, &m.writes[i]); err != nil {
			return err
		}
	}
	return nil
}

// unbind takes the states' values out of the feed, which would release them.
func (m *residentModel) unbind() {
	for _, v := range m.reads {
		m.feed.values[v.at] = 0
	}
	for _, v := range m.writes {
		m.feed.bound[v.at] = 0
	}
}

// unload closes a model.
func (r *residents) unload(q *turnRequest) error {
	if q.Model < 0 || q.Model >= len(r.models) || r.models[q.Model] == nil {
		return errors.New("there is no such model")
	}
	r.models[q.Model].close()
	r.models[q.Model] = nil
	return nil
}

// close releases the runtime's objects of a model.
func (m *residentModel) close() {
	for _, list := range [][]stateValue{m.reads, m.writes} {
		for _, v := range list {
			for _, value := range v.values {
				m.session.lib.api.release(fnReleaseValue, value)
			}
		}
	}
	if m.feed != nil {
		m.feed.Close()
	}
	m.session.Close()
}
