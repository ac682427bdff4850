package ortengine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/ort"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
)

// step is a model that a machine's process has loaded.
type step struct {
	machine   *machine
	side      verify.Side
	bound     *bound // the model as the runtime has it
	file      string // the file that the process loaded
	number    int    // its number in the process; -1 if closed
	names     []string
	places    []ort.Place // inputs, by place
	states    []ort.SharedState
	outs      []ort.Place        // outputs that are fetched, then those that are only watched
	outputs   []*executor.Tensor // copies of these
	watch     []watched
	writes    bool // the model has states
	predicted executor.Prediction
	measured  executor.Measured
}

// watched is an output that must be finite.
type watched struct {
	output      int // of outs
	value, node string
}

// placeOperands gives inputs and wanted outputs places in the heap, and states the buffers that the
// model needs.
func (s *step) placeOperands(o resident.StepOptions) error {
	g := s.bound.model.Graph
	for _, d := range g.Inputs {
		name := g.ValueName(d.Value)
		var err error
		if id, ok := s.machine.byName[name]; ok {
			err = s.placeState(id, d.Value)
		} else if !g.Values[d.Value].IsInitializer() {
			var p ort.Place
			p, err = s.place(name, d.Value)
			s.places, s.names = append(s.places, p), append(s.names, name)
		}
		if err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
	}
	for _, name := range o.Fetch {
		if _, err := s.placeOutput(name); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return s.placeWatched(o.Watch)
}

// placeState gives a state of the machine its second buffer, where the model needs one.
func (s *step) placeState(id int, v graph.ValueID) error {
	m := s.machine
	state, g := &m.states[id], s.bound.model.Graph
	t := g.Values[v].Type
	want := executor.EvalShape(t, s.side.Dims)
	if state.like.DType != t.DType || want != nil && !slices.Equal(want, state.like.Shape) {
		return fmt.Errorf("the state is %v; the graph wants %v, with the dims of this step %v",
			&state.like, t, want)
	}
	shared := ort.SharedState{ID: id, State: ort.State{Input: state.name, InPlace: true},
		DType: state.like.DType, Shape: state.like.Shape}
	at := slices.IndexFunc(s.bound.states, func(b ort.State) bool { return b.Input == state.name })
	if at >= 0 {
		shared.State, s.writes = s.bound.states[at], true
	}
	if !shared.InPlace && state.at[1] < 0 {
		const what = "a second buffer of state %q (%v)"
		second, err := m.take(state.size, what, state.name, &state.like)
		if err != nil {
			return err
		}
		state.at[1] = second
	}
	shared.At = state.at
	s.states = append(s.states, shared)
	return nil
}

// place gives a value a place in the heap.
func (s *step) place(name string, v graph.ValueID) (ort.Place, error) {
	t := s.bound.model.Graph.Values[v].Type
	shape := executor.EvalShape(t, s.side.Dims)
	n, ok := executor.Bytes(t.DType, shape)
	switch {
	case shape == nil:
		return ort.Place{}, fmt.Errorf("%v has no known size with the dims of this step", t)
	case !ok || !ort.Exchangeable(t.DType):
		return ort.Place{}, fmt.Errorf("ONNX Runtime is given no tensors like %v", t)
	}
	at, err := s.machine.heap.Take(n)
	if err != nil {
		return ort.Place{}, exchange("%w", err)
	}
	return ort.Place{Name: name, DType: t.DType, Shape: shape, At: at}, nil
}

// placeOutput gives a graph output a place, unless it has one, and returns its number among those
// with a place.
func (s *step) placeOutput(name string) (int, error) {
	if i := slices.IndexFunc(s.outs, func(p ort.Place) bool { return p.Name == name }); i >= 0 {
		return i, nil
	}
	g := s.bound.model.Graph
	i := slices.IndexFunc(g.Outputs, func(d graph.Decl) bool {
		return g.ValueName(d.Value) == name
	})
	if i < 0 {
		return 0, errors.New("the graph has no such output")
	}
	for _, st := range s.bound.states {
		if st.Output == name {
			return 0, fmt.Errorf("it is the next value of state %q, which can be read", st.Input)
		}
	}
	p, err := s.place(name, g.Outputs[i].Value)
	if err != nil {
		return 0, err
	}
	n, _ := executor.Bytes(p.DType, p.Shape)
	s.outs = append(s.outs, p)
	s.outputs = append(s.outputs, &executor.Tensor{DType: p.DType, Shape: p.Shape,
		Data: make([]byte, (n+7)&^7)[:n]})
	return len(s.outs) - 1, nil
}

// placeWatched has the outputs fetched that must be finite: those that are named, and those that
// the model's metadata name.
func (s *step) placeWatched(names []string) error {
	recorded, err := op.RecordedWatched(s.side.Model)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(recorded, names) {
		w := watched{value: name}
		if slices.ContainsFunc(s.watch, func(w watched) bool { return w.value == name }) {
			continue
		}
		if w.output, err = s.placeOutput(name); err != nil {
			return fmt.Errorf("watched value %q: %w; with ONNX Runtime only outputs can be watched",
				name, err)
		}
		g := s.side.Model.Graph
		if v, ok := g.Lookup(name); ok && g.Values[v].Def != graph.NoNode {
			w.node = g.NodeLabel(g.Values[v].Def)
		}
		s.watch = append(s.watch, w)
	}
	return nil
}

// failed is an error of the runtime's about the step.
func (s *step) failed(err error) error { return failedOn(s.file, s.side.Model.Graph, err) }

// Inputs lists the inputs that are no states.
func (s *step) Inputs() []string { return s.names }

// Run has the process run the model once. A run that has begun is finished: the runtime cannot be
// stopped between two nodes. The number has no effect (Engine.Start).
func (s *step) Run(ctx context.Context, _ uint64, inputs []*executor.Tensor) error {
	m := s.machine
	switch {
	case m.torn != nil:
		return m.torn
	case ctx.Err() != nil:
		return ctx.Err()
	case s.number < 0 || m.process == nil:
		return errors.New("the step is closed")
	}
	if err := s.give(inputs); err != nil {
		return err
	}
	turn, err := m.process.Turn(s.number)
	if err != nil && s.writes {
		return m.tear(s.failed(err))
	}
	if err != nil {
		return s.failed(err)
	}
	for _, st := range s.states {
		if st.Output != "" && !st.InPlace {
			m.states[st.ID].current ^= 1
		}
	}
	s.note(turn.Arena)
	return s.take()
}

// note records the memory of a run. With the memory pattern on, runs after the first take a block
// for the pattern besides.
func (s *step) note(arena ort.Stats) {
	s.measured.Runs++
	switch took := arena.MaxInUse; {
	case !arena.Known:
	case s.measured.Runs == 1:
		s.measured.Arena, s.measured.Live = took, took
	default:
		s.measured.Dynamic = max(s.measured.Dynamic, took-s.measured.Arena)
	}
}

// give copies the inputs to the heap.
func (s *step) give(inputs []*executor.Tensor) error {
	if len(inputs) != len(s.places) {
		return fmt.Errorf("%d inputs are given; the step has %d: %q", len(inputs), len(s.places),
			s.names)
	}
	for i, t := range inputs {
		p := &s.places[i]
		if t == nil {
			return fmt.Errorf("input %q is not given", p.Name)
		}
		n, ok := executor.Bytes(t.DType, t.Shape)
		if t.DType != p.DType || !slices.Equal(t.Shape, p.Shape) || !ok || n != len(t.Data) {
			return fmt.Errorf("input %q: is %v of %d bytes, wanted %v", p.Name, t, len(t.Data),
				&executor.Tensor{DType: p.DType, Shape: p.Shape})
		}
		if err := s.machine.heap.Write(p.At, t.Data); err != nil {
			return exchange("input %q: %w", p.Name, err)
		}
	}
	return nil
}

// take copies the wanted outputs from the heap and looks at those that must be finite.
func (s *step) take() error {
	for i, t := range s.outputs {
		if err := s.machine.heap.Read(s.outs[i].At, t.Data); err != nil {
			return exchange("output %q: %w", s.outs[i].Name, err)
		}
	}
	for i := range s.watch {
		w := &s.watch[i]
		if at, x := executor.NotFinite(s.outputs[w.output]); at >= 0 {
			return &resident.NotFiniteError{Value: w.value, Node: w.node, Index: at, Elem: x}
		}
	}
	return nil
}

// Output returns a copy of an output.
func (s *step) Output(i int) *executor.Tensor { return s.outputs[i] }

// Predicted is the result of the simulation.
func (s *step) Predicted() executor.Prediction { return s.predicted }

// Measured is the arena's count, for all models of the machine. Its highest mark never falls: a run
// that took no more than earlier ones of others cannot be measured. Arena is the memory of the
// first run, 0 if that is not known, and Dynamic the excess of later ones.
func (s *step) Measured() executor.Measured { return s.measured }

// FirstBad executes the step in a session of memopt's own on the CPU. That needs memory for the
// states once more, and for the arena that such a session plans. Random draws differ.
func (s *step) FirstBad(ctx context.Context, number uint64, inputs []*executor.Tensor) (
	value, node string, err error) {
	m := s.machine
	o := executor.Options{Threads: m.opts.Threads, Seed: m.opts.Seed}
	host, err := resident.On(cpu.Device{}).Start(ctx, o)
	if err != nil {
		return "", "", err
	}
	defer host.Close()
	for _, st := range s.states {
		state := &m.states[st.ID]
		data := make([]byte, (state.size+7)&^7)[:state.size]
		if err := m.Read(state.name, data); err != nil {
			return "", "", err
		}
		t := &executor.Tensor{DType: state.like.DType, Shape: state.like.Shape, Data: data}
		if err := host.Put(state.name, t); err != nil {
			return "", "", err
		}
	}
	var watch []string
	for _, w := range s.watch {
		watch = append(watch, w.value)
	}
	again, err := host.Open(ctx, s.side, resident.StepOptions{Watch: watch})
	if err != nil {
		return "", "", err
	}
	return again.FirstBad(ctx, number, inputs)
}

// Close has the process close the model. Its places in the heap stay taken.
func (s *step) Close() error {
	if s.number < 0 || s.machine.process == nil {
		return nil
	}
	err := s.machine.process.Unload(s.number)
	s.number = -1
	os.Remove(s.file) // the folder goes with the process, too
	if err != nil {
		return s.failed(err)
	}
	return nil
}
