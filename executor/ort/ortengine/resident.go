package ortengine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"memopt/executor"
	"memopt/executor/ort"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/cleanup"
	"memopt/internal/memlimit"
	"memopt/recompute"
)

// Start starts a process without states and models. It outlives the context, so that a job can
// finish its step and read the states; the machine's Close ends it.
//
// The runtime chooses the draws of random nodes: it counts by itself from the node's seed on, and
// cannot be told the number of a step. A job that is resumed draws other numbers than one that was
// not interrupted.
func (e *Engine) Start(ctx context.Context, o executor.Options) (_ resident.Machine, err error) {
	m := &machine{engine: e, opts: o, byName: map[string]int{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.dir, m.folder, err = cleanup.Folder("", "memopt-ort-"); err != nil {
		return nil, exchange("cannot create a folder for the files that ONNX Runtime reads: %w", err)
	}
	if m.heap, err = ort.NewHeap(); err != nil {
		return nil, exchange("memory to share with ONNX Runtime's process: %w", err)
	}
	program := e.Program
	program.Folder, program.Heap = m.dir, m.heap
	if m.process, err = ort.Start(context.WithoutCancel(ctx), program); err != nil {
		return nil, failed(nil, err)
	}
	return m, nil
}

// machine is a process of ONNX Runtime whose models share states.
type machine struct {
	engine  *Engine
	opts    executor.Options
	dir     string // where the process reads models
	folder  cleanup.Item
	heap    *ort.Heap
	process *ort.Process // nil if closed
	states  []state      // by ID
	byName  map[string]int
	opened  int   // how many models were opened
	bytes   int64 // of all states' buffers
	torn    error // the error of a step that failed after it may have written states, or nil
	stale   int   // states that have not been set since
}

// state is a state in the heap. Its second buffer is for models that cannot write its next value
// over the old one; their runs move it from one to the other.
type state struct {
	name    string
	like    executor.Tensor // type and shape
	size    int             // bytes
	at      [2]int64        // -1 for a missing buffer
	current int
	stale   bool
}

// Put copies a tensor to the heap.
func (m *machine) Put(name string, t *executor.Tensor) error {
	s, err := m.place(name, t.DType, t.Shape)
	switch {
	case err != nil:
		return err
	case s.size != len(t.Data):
		return fmt.Errorf("state %q: %v has %d bytes of data, wanted %d", name, t, len(t.Data),
			s.size)
	}
	if err := m.heap.Write(s.at[s.current], t.Data); err != nil {
		return exchange("state %q: %w", name, err)
	}
	m.set(s)
	return nil
}

// Zero writes zeros to the heap.
func (m *machine) Zero(name string, d graph.DType, shape []int) error {
	s, err := m.place(name, d, shape)
	if err != nil {
		return err
	}
	if err := m.heap.Zero(s.at[s.current], s.size); err != nil {
		return exchange("state %q: %w", name, err)
	}
	m.set(s)
	return nil
}

// place returns a state, and makes it if the name is new.
func (m *machine) place(name string, d graph.DType, shape []int) (*state, error) {
	if i, ok := m.byName[name]; ok {
		s := &m.states[i]
		if s.like.DType != d || !slices.Equal(s.like.Shape, shape) {
			return nil, fmt.Errorf("state %q is %v, and is to be overwritten with %v: a state keeps "+
				"its type and shape", name, &s.like, &executor.Tensor{DType: d, Shape: shape})
		}
		return s, nil
	}
	like := executor.Tensor{DType: d, Shape: slices.Clone(shape)}
	n, ok := executor.Bytes(d, shape)
	if !ok || !ort.Exchangeable(d) {
		return nil, fmt.Errorf("state %q: ONNX Runtime is given no tensors like %v", name, &like)
	}
	at, err := m.take(n, "state %q (%v)", name, &like)
	if err != nil {
		return nil, err
	}
	m.byName[name] = len(m.states)
	m.states = append(m.states, state{name: name, like: like, size: n, at: [2]int64{at, -1}})
	return &m.states[len(m.states)-1], nil
}

// take makes room in the heap for n bytes of a state.
func (m *machine) take(n int, format string, args ...any) (int64, error) {
	if err := memlimit.Check(int64(n), format, args...); err != nil {
		return 0, err
	}
	at, err := m.heap.Take(n)
	if err != nil {
		return 0, exchange("%w", err)
	}
	m.bytes += int64(n)
	return at, nil
}

// set notes that a state has a value that it was given.
func (m *machine) set(s *state) {
	if !s.stale {
		return
	}
	s.stale = false
	if m.stale--; m.stale == 0 {
		m.torn = nil
	}
}

// tear notes that a step failed that may have written some states: no step runs until all are set.
func (m *machine) tear(err error) error {
	m.torn, m.stale = &executor.TornError{Err: err}, len(m.states)
	for i := range m.states {
		m.states[i].stale = true
	}
	return m.torn
}

// Read copies a state from the heap, also when the process has ended.
func (m *machine) Read(name string, dst []byte) error {
	i, ok := m.byName[name]
	if !ok {
		return fmt.Errorf("state %q: there is no such state", name)
	}
	s := &m.states[i]
	if len(dst) != s.size {
		return fmt.Errorf("state %q: %v has %d bytes; there is room for %d", name, &s.like, s.size,
			len(dst))
	}
	if err := m.heap.Read(s.at[s.current], dst); err != nil {
		return exchange("state %q: %w", name, err)
	}
	return nil
}

// StateBytes counts second buffers, too.
func (m *machine) StateBytes() int64 { return m.bytes }

// ProcessMemory is that of the runtime's process.
func (m *machine) ProcessMemory() executor.ProcessMemory {
	if m.process == nil {
		return executor.ProcessMemory{}
	}
	return m.process.Memory()
}

// Open writes a side's model, as it is to be run, and has the process load it.
func (m *machine) Open(ctx context.Context, side verify.Side, o resident.StepOptions) (
	_ resident.Step, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.process == nil {
		return nil, errors.New("the machine is closed")
	}
	if err := op.Clash(side.Model.Graph); err != nil { // the library's message would be less clear
		return nil, err
	}
	if err := checkCopies(side.Model.Graph); err != nil {
		return nil, err
	}
	s := &step{machine: m, side: side, number: -1}
	if err := s.bind(); err != nil {
		return nil, err
	}
	s.predicted = m.engine.predict(ctx, side, s.bound, m.opts)
	const what = "the predicted memory of ONNX Runtime, %d bytes of values"
	if err := memlimit.Check(s.predicted.Live, what, s.predicted.Live); err != nil {
		return nil, err
	}
	if err := s.placeOperands(o); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// options completes the runtime's options: all models of the machine share one arena.
func (m *machine) options() ort.Options {
	o := RuntimeOptions(m.engine.Options, &m.opts)
	o.Shared = true
	return o
}

// Close ends the process and gives the heap up.
func (m *machine) Close() error {
	if m.process != nil {
		m.process.Close()
		m.process = nil
	}
	m.folder.Undo()
	if m.heap == nil {
		return nil
	}
	err := m.heap.Close()
	m.heap = nil
	return err
}

// bind makes the model as the runtime is to have it, with the machine's states as inputs.
func (s *step) bind() (err error) {
	m := s.machine
	seeded := recompute.Seed(s.side.Model, m.engine.Seed)
	var shared []graph.ValueID
	g := seeded.Graph
	for _, d := range g.Inputs {
		v := &g.Values[d.Value]
		if _, ok := m.byName[v.Name]; ok && v.Data != nil {
			shared = append(shared, d.Value) // a default, in whose place the state is read
		}
	}
	if s.bound, err = bind(seeded, s.side.Dims, shared...); err != nil {
		return err
	}
	states, err := live.FindStates(s.side.Model)
	if err != nil {
		return err
	}
	for _, st := range states {
		name := s.side.Model.Graph.ValueName(st.In)
		if _, ok := m.byName[name]; !ok {
			return fmt.Errorf("state %q: the machine has no such state: put its first value there "+
				"before the step is opened", name)
		}
	}
	return nil
}

// load writes the model's file and has the process open it.
func (s *step) load() error {
	m, b := s.machine, s.bound
	path := filepath.Join(m.dir, fmt.Sprintf("model-%d.onnx", m.opened))
	m.opened++
	s.file = path
	if err := onnx.WriteFile(path, b.model, onnx.Options{
		ExternalDataThreshold: ExternalData(b.model.Graph)}); err != nil {
		return exchange("%w", err)
	}
	o := m.options()
	m.engine.warnDropouts(s.side.Model.Graph, o.Optimization)
	loaded, err := m.process.Load(path, o, s.places, s.states, s.outs)
	if err != nil {
		return s.failed(err)
	}
	s.number = loaded.Model
	return nil
}
