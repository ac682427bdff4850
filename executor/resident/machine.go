package resident

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/mapfile"
)

// On returns the engine that is a device of memopt's.
func On(d executor.Device) Engine { return native{verify.On(d), d} }

type native struct {
	verify.Engine
	device executor.Device
}

// Start makes an empty machine.
func (n native) Start(_ context.Context, o executor.Options) (Machine, error) {
	store, err := executor.NewStoreIn(n.device, o.Home)
	if err != nil {
		return nil, err
	}
	m := &machine{device: n.device, opts: o, store: store}
	m.opts.Store = m.store
	m.opts.Arena = executor.NewArenaFor(n.device, o.Strategy, o.MemLimit)
	return m, nil
}

// machine is a Machine on a device of memopt's.
type machine struct {
	device executor.Device
	opts   executor.Options // of all sessions
	store  *executor.Store
	steps  []*step
	block  []byte // of the arena, for all planned steps
	holder *step  // the step that ran last, and may have taken more on demand, or nil
	// copies is the memory of values that steps move to the host, which they share by turns; nil without such.
	copies *executor.Arena
	// inFile has them in place of copies where the states have a home; nil without such.
	inFile *mapfile.File
}

func (m *machine) Put(name string, t *executor.Tensor) error { return m.store.Put(name, t) }

func (m *machine) Zero(name string, d graph.DType, shape []int) error {
	return m.store.Zero(name, d, shape)
}

func (m *machine) Read(name string, dst []byte) error { return m.store.Read(name, dst) }

func (m *machine) StateBytes() int64 { return m.store.Bytes() }

// Open opens a session that shares the machine's states and arena, and makes the arena large enough
// for it, so that a job that does not fit fails before its first step.
func (m *machine) Open(ctx context.Context, side verify.Side, o StepOptions) (Step, error) {
	model, err := watching(side.Model, o.Watch)
	if err != nil {
		return nil, err
	}
	opts := m.opts
	opts.Order, opts.Dims = side.Order, side.Dims
	m.unplace() // so that it does not count as taken by others
	s := &step{machine: m, graph: model.Graph}
	if s.session, err = executor.Open(ctx, model, side.Types, m.device, opts); err == nil {
		m.steps = append(m.steps, s)
		err = s.prepare(o)
	}
	if err == nil {
		err = m.place()
	}
	if err != nil {
		s.Close()
		m.unplace()
		return nil, errors.Join(err, m.place()) // the others have their memory back
	}
	return s, nil
}

// watching returns a model whose metadata name the values that must be finite: the model itself, if
// its do. The graph is shared.
func watching(m *graph.Model, names []string) (*graph.Model, error) {
	recorded, err := op.RecordedWatched(m)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(recorded)
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) == len(recorded) {
		return m, nil
	}
	watching := *m
	watching.Metadata = slices.Clone(m.Metadata)
	op.RecordWatch(&watching, all)
	return &watching, nil
}

// place makes the arena large enough for every step, and gives them all the same block of it.
func (m *machine) place() error {
	v, ok := m.device.(executor.Virtual)
	if m.opts.OnDemand || ok && v.Virtual() {
		return nil
	}
	var need int64
	for _, s := range m.steps {
		need = max(need, s.session.Prediction().Arena)
	}
	err := m.opts.Arena.Fit(int(need))
	if err == nil {
		m.block, err = m.opts.Arena.Reserve(int(need))
	}
	if err != nil {
		return fmt.Errorf("the planned arena of %d bytes: %w", need, err)
	}
	for _, s := range m.steps {
		s.session.Place(m.block)
	}
	return m.placeCopies()
}

// placeCopies gives all steps the same memory for values on the host.
func (m *machine) placeCopies() error {
	var need int64
	for _, s := range m.steps {
		need = max(need, s.session.Prediction().Host)
	}
	if need == 0 {
		return nil
	}
	var block []byte
	var err error
	if h := m.opts.Home; h != nil && h.Copies != nil {
		if m.inFile, err = h.Copies(need); err == nil {
			block = m.inFile.Data
		}
	} else {
		m.copies = executor.NewHostArena(m.device)
		block, err = m.copies.Reserve(int(need))
	}
	if err != nil {
		return fmt.Errorf("copies of values on the host, of %d bytes: %w", need, err)
	}
	for _, s := range m.steps {
		if s.session.Prediction().Host > 0 {
			s.session.PlaceCopies(block)
		}
	}
	return nil
}

// unplace gives the blocks back.
func (m *machine) unplace() {
	for _, s := range m.steps {
		s.session.Place(nil)
		s.session.PlaceCopies(nil)
	}
	if m.copies != nil {
		m.copies.Close()
		m.copies = nil
	}
	m.inFile.Close()
	m.inFile = nil
	m.opts.Arena.Free(m.block)
	m.block, m.holder = nil, nil
}

// release frees the memory that the step that ran last took on demand and may still hold, unless it
// is the next one.
func (m *machine) release(next *step) {
	if last := m.holder; last != nil && last != next && last.demands(m.opts.OnDemand) {
		last.session.Release()
	}
	m.holder = next
}

// demands reports whether a step has taken memory of the arena that is not planned.
func (s *step) demands(all bool) bool { return all || s.session.Measured().Dynamic > 0 }

// Close closes the steps that are open, then the states and the arena.
func (m *machine) Close() error {
	var all []error
	for len(m.steps) > 0 {
		all = append(all, m.steps[0].Close())
	}
	if m.copies != nil {
		all = append(all, m.copies.Close())
	}
	all = append(all, m.inFile.Close())
	return errors.Join(append(all, m.store.Close(), m.opts.Arena.Close())...)
}
