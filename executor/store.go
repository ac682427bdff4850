package executor

import (
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
)

// Store holds states of training by name in the memory of a device, outside Go's heap. Sessions
// that are opened with it (Options.Store) share them: their graph inputs of these names, and
// initializers that are states, lie in the store's memory, are read there, and are written there
// where the graph makes their next values. So the steps of a training job, such as a micro-step, an
// update and an evaluation, hand states on without a copy.
//
// A Store is used by one goroutine at a time, and not during a run. It is closed after the
// sessions.
type Store struct {
	mem     DeviceMemory
	virtual bool // memory is counted and not taken
	arena   *Arena
	home    *Home // where the states lie in place of the arena, or nil
	byName  map[string]int
	list    []stored
	bytes   int64
	torn    error // the error of a step that failed after it had begun to write, or nil
	stale   int   // states that have not been set since
}

// stored is one state.
type stored struct {
	tensor Tensor
	place  int // in the store's home
	stale  bool
}

// NewStore returns an empty store in the memory that holds the values of a device's sessions.
func NewStore(d Device) *Store {
	s := &Store{mem: memoryOf(d), byName: map[string]int{}}
	if v, ok := d.(Virtual); ok {
		s.virtual = v.Virtual()
	}
	s.arena = newArenaOn(s.mem, NextPowerOfTwo, 0)
	return s
}

// NewStoreIn returns a store whose states lie in a home, in the host's memory. It has those that the home has kept. The
// caller closes the home after the store.
func NewStoreIn(d Device, h *Home) (*Store, error) {
	s := NewStore(d)
	if s.home = h; h != nil && (s.virtual || s.mem != (hostMemory{})) {
		err := fmt.Errorf("device %s computes in another memory than that of a file of states", d.Name())
		return nil, errors.Join(err, s.Close())
	}
	if h != nil && h.kept {
		for i := range h.places {
			s.add(h.places[i].Name, Tensor{DType: h.places[i].DType, Shape: h.places[i].Shape, Data: h.now(i)}, i)
		}
	}
	return s, nil
}

// add makes a state.
func (s *Store) add(name string, t Tensor, place int) *stored {
	s.byName[name] = len(s.list)
	s.list = append(s.list, stored{tensor: t, place: place})
	n, _ := Bytes(t.DType, t.Shape)
	s.bytes += int64(n)
	return &s.list[len(s.list)-1]
}

// Put makes a state, or overwrites one of the same type and shape, with a copy of a tensor. The
// error wraps ErrOutOfMemory if there is no memory for it.
func (s *Store) Put(name string, t *Tensor) error {
	if n, ok := Bytes(t.DType, t.Shape); !ok || n != len(t.Data) {
		return fmt.Errorf("state %q: %v has %d bytes of data, wanted %d", name, t, len(t.Data), n)
	}
	own, err := s.place(name, t.DType, t.Shape)
	if err != nil || len(own.Data) == 0 {
		return err
	}
	return s.mem.CopyIn(own.Data, t.Data)
}

// Zero makes a state of zeros, or overwrites one of the same type and shape with them. The error
// wraps ErrOutOfMemory if there is no memory for it.
func (s *Store) Zero(name string, d graph.DType, shape []int) error {
	own, err := s.place(name, d, shape)
	if err != nil || len(own.Data) == 0 {
		return err
	}
	return s.mem.Fill(own.Data, 0) // all pages get memory now, and not in the first step
}

// place returns the memory of a state for the caller to set, and makes it if the name is new.
func (s *Store) place(name string, d graph.DType, shape []int) (*Tensor, error) {
	if i, ok := s.byName[name]; ok {
		have := &s.list[i]
		if have.tensor.DType != d || !equalShapes(have.tensor.Shape, shape) {
			return nil, fmt.Errorf("state %q is %v, and is to be overwritten with %v: a state keeps "+
				"its type and shape", name, &have.tensor, &Tensor{DType: d, Shape: shape})
		}
		s.set(have)
		s.renew(have)
		return &have.tensor, nil
	}
	n, ok := Bytes(d, shape)
	if !ok || d == graph.Undefined || d == graph.String {
		return nil, fmt.Errorf("state %q: there are no tensors like %v", name,
			&Tensor{DType: d, Shape: shape})
	}
	t := Tensor{DType: d, Shape: slices.Clone(shape)}
	at := 0
	var err error
	switch {
	case s.virtual:
	case s.home != nil:
		if at, err = s.home.find(name, &t); err != nil {
			return nil, err
		}
	default:
		if t.Data, err = s.take(n); err != nil {
			return nil, fmt.Errorf("state %q (%v): %w", name, &t, err)
		}
	}
	own := s.add(name, t, at)
	s.renew(own)
	return &own.tensor, nil
}

// renew gives a state that will be overwritten the memory of its next values.
func (s *Store) renew(st *stored) {
	if s.home != nil {
		s.home.turn(st.place)
		st.tensor.Data = s.home.now(st.place)
	}
}

// stateRegion is how much memory is taken at least where more is needed: states share regions that
// are large enough for huge pages, and not much is taken that no state needs.
const stateRegion = 32 << 20

// take returns memory for a state.
func (s *Store) take(n int) ([]byte, error) {
	if n < stateRegion && !s.arena.fits(n) {
		region, err := s.arena.Reserve(stateRegion)
		s.arena.Free(region)
		if err != nil && !errors.Is(err, ErrOutOfMemory) {
			return nil, err
		}
	}
	return s.arena.Reserve(n) // no more than it needs, where there is no memory for a region
}

// set notes that a state has been set. Once all have been, none is torn any more.
func (s *Store) set(st *stored) {
	if st.stale {
		st.stale = false
		if s.stale--; s.stale == 0 {
			s.torn = nil
		}
	}
}

// tear notes that a step failed after it had begun to write: no step runs until all states are set.
func (s *Store) tear(err error) {
	s.torn, s.stale = err, len(s.list)
	for i := range s.list {
		s.list[i].stale = true
	}
}

// Read copies a state to the host; dst must have its size.
func (s *Store) Read(name string, dst []byte) error {
	t, ok := s.Tensor(name)
	switch {
	case !ok:
		return fmt.Errorf("state %q: there is no such state", name)
	case s.virtual:
		return fmt.Errorf("state %q: the device only counts memory; no state has a value", name)
	case len(dst) != len(t.Data):
		return fmt.Errorf("state %q: %v has %d bytes; there is room for %d", name, t, len(t.Data),
			len(dst))
	case len(dst) == 0:
		return nil
	}
	return s.mem.CopyOut(dst, t.Data)
}

// Tensor returns a state. Its data lie in the device's memory and change with every step.
func (s *Store) Tensor(name string) (*Tensor, bool) {
	i, ok := s.byName[name]
	if !ok {
		return nil, false
	}
	t := s.list[i].tensor // a copy of the header: the list may move
	if s.home != nil {
		t.Data = s.home.now(s.list[i].place) // a step may have written it since
	}
	return &t, true
}

// Bytes is the size of all states.
func (s *Store) Bytes() int64 { return s.bytes }

// Torn is the *TornError of a step that failed after it had begun to write states. It is nil
// without such a step, and once all states have been set again.
func (s *Store) Torn() error { return s.torn }

// Close gives the memory back. No session may use it any more.
func (s *Store) Close() error {
	s.byName, s.list, s.bytes, s.stale, s.torn = map[string]int{}, nil, 0, 0, nil
	return s.arena.Close()
}

// shareStore lets the frame's values that are states of the session's store lie there.
func (s *Session) shareStore() error {
	store := s.opts.Store
	if store == nil {
		return nil
	}
	if store.mem != s.mem || store.virtual != s.virtual {
		return fmt.Errorf("the states' memory is not that of device %s: make the store with NewStore "+
			"of this device", s.device.Name())
	}
	f := s.root
	for i := range f.g.Values {
		v := &f.g.Values[i]
		if !s.states.stored[i] {
			continue
		}
		t, _ := store.Tensor(v.Name)
		want := f.shapes[i]
		if t.DType != v.Type.DType || want != nil && !equalShapes(want, t.Shape) ||
			v.Type.Shape.Ranked && len(v.Type.Shape.Dims) != len(t.Shape) {
			return fmt.Errorf("state %q is %v; the graph wants %v%v", v.Name, t, v.Type,
				s.boundTo(want))
		}
		*f.vals[i] = *t
		s.storedBytes += int64(len(t.Data))
	}
	return nil
}

// Stored reports whether a value of the graph lies in Options.Store.
func (s *Session) Stored(v graph.ValueID) bool { return s.states.stored[v] }

// findStored marks the values that lie in the session's store: graph inputs, whether they have a
// default or not, and initializers that are states.
func (s *Session) findStored() {
	g := s.model.Graph
	s.states.stored = make([]bool, len(g.Values))
	if s.opts.Store == nil {
		return
	}
	for i := range g.Values {
		v := &g.Values[i]
		if _, ok := s.opts.Store.byName[v.Name]; ok && (v.Input || s.states.is[i]) {
			s.states.stored[i] = true
		}
	}
}

// refresh lets the states of a step that is about to run lie where they are now.
func (s *Session) refresh() {
	if !s.homed() {
		return
	}
	for v, stored := range s.states.stored {
		if stored {
			s.root.vals[v].Data = s.opts.Store.home.now(s.place(graph.ValueID(v)))
		}
	}
}

// homed reports whether the session's states have a home.
func (s *Session) homed() bool { return s.opts.Store != nil && s.opts.Store.home != nil }

// place returns the place of a state in the session's home.
func (s *Session) place(v graph.ValueID) int {
	store := s.opts.Store
	return store.list[store.byName[s.model.Graph.Values[v].Name]].place
}
