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
)

// On returns the engine that is a device of memopt's.
func On(d executor.Device) Engine { return native{verify.On(d), d} }

type native struct {
	verify.Engine
	device executor.Device
}

// Start makes a machine with nothing in it.
func (n native) Start(_ context.Context, o executor.Options) (Machine, error) {
	m := &machine{device: n.device, opts: o, store: executor.NewStore(n.device)}
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
	holder *step // the step that has the arena; nil: none has
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
	m.release(nil)
	model, err := watching(side.Model, o.Watch)
	if err != nil {
		return nil, err
	}
	opts := m.opts
	opts.Order, opts.Dims = side.Order, side.Dims
	session, err := executor.Open(ctx, model, side.Types, m.device, opts)
	if err != nil {
		return nil, err
	}
	s := &step{machine: m, session: session, graph: model.Graph}
	if err = s.prepare(o); err == nil {
		err = m.fit(session)
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	m.steps = append(m.steps, s)
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

// fit makes the arena large enough for a session.
func (m *machine) fit(s *executor.Session) error {
	v, ok := m.device.(executor.Virtual)
	if m.opts.OnDemand || ok && v.Virtual() {
		return nil
	}
	need := s.Prediction().Arena
	if err := m.opts.Arena.Fit(int(need)); err != nil {
		return fmt.Errorf("the planned arena of %d bytes: %w", need, err)
	}
	return nil
}

// release takes the arena from the step that has it, unless it is the given one.
func (m *machine) release(next *step) {
	if m.holder != nil && m.holder != next {
		m.holder.session.Release()
	}
	m.holder = next
}

// Close closes the steps that are open, then the states and the arena.
func (m *machine) Close() error {
	var all []error
	for len(m.steps) > 0 {
		all = append(all, m.steps[0].Close())
	}
	return errors.Join(append(all, m.store.Close(), m.opts.Arena.Close())...)
}
