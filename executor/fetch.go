package executor

import (
	"slices"

	"memopt/graph"
)

// Fetcher is a DeviceMemory whose device copies to the host while it computes.
type Fetcher interface {
	Pinner
	// Fetch copies the contents of src, after all work requested so far, to pinned host memory.
	// Later work does not wait for it, and must not change src; Sync waits for it, and captures end
	// with it.
	Fetch(dst, src []byte) error
}

// maxFetched is the most host memory that a session pins for outputs, because pinned memory is lost
// to everything else on the machine. Outputs beyond it are copied on demand.
const maxFetched = 1 << 30

// fetched is the state of Session.Fetch.
type fetched struct {
	outputs []*Tensor // by graph output: the pinned memory of its copy; nil if it is not fetched
	bytes   int
	done    bool // the last run has copied them
}

// Fetch makes every later run copy the graph outputs with these numbers, and no others, to the host
// while the device computes later nodes: Output returns such a copy without an allocation. On the
// host, Fetch has no effect. Outputs whose size depends on data, outputs that are inputs or
// weights, and outputs beyond the memory that can be pinned are copied when Output is called, as
// without Fetch. Copies that Output has returned before are no longer valid.
func (s *Session) Fetch(outputs ...int) {
	s.forget() // it has the old copies
	s.dropFetches()
	m, ok := s.mem.(Fetcher)
	if !ok {
		return
	}
	s.fetched.outputs = make([]*Tensor, len(s.model.Graph.Outputs))
	for _, i := range outputs {
		s.fetchOutput(m, i)
	}
}

// fetchOutput gives a graph output its pinned memory, and attaches the copy to the last step that
// changes the output.
func (s *Session) fetchOutput(m Fetcher, i int) {
	f, v := s.root, s.model.Graph.Outputs[i].Value
	n, ok := Bytes(f.vals[v].DType, f.shapes[v])
	if f.space.atHost(v) || f.shapes[v] == nil || !ok || n == 0 || n > maxFetched-s.fetched.bytes ||
		s.fetched.outputs[i] != nil {
		return
	}
	st := f.lastWriter(v)
	if st == nil {
		return
	}
	data, err := m.Pin(n)
	if err != nil {
		return
	}
	s.fetched.bytes += n
	t := &Tensor{DType: f.vals[v].DType, Shape: slices.Clone(f.shapes[v]), Data: data}
	s.fetched.outputs[i] = t
	st.fetches = append(st.fetches, transfer{home: f.vals[v], copy: t})
}

// lastWriter returns the last step that makes or updates something in a value's memory; nil where
// the value is an input or a weight, or lies in one. An output's memory then stays as it is until
// the run ends.
func (f *frame) lastWriter(v graph.ValueID) (last *step) {
	root := f.timeline.Root[v]
	if root == graph.NoValue {
		return nil
	}
	in := func(w graph.ValueID) bool { return w != graph.NoValue && f.timeline.Root[w] == root }
	for i := range f.steps {
		st := &f.steps[i]
		writes := slices.ContainsFunc(st.node.Outputs, in)
		for _, slot := range st.prep.Info.Mutates {
			writes = writes || in(st.node.Input(slot))
		}
		if writes && st.kernel != nil {
			last = st
		}
	}
	return last
}

// fetchOutputs begins to copy the outputs that are complete after the step.
func (st *step) fetchOutputs() error {
	for i := range st.fetches {
		c := &st.fetches[i]
		if err := st.f.mem.(Fetcher).Fetch(c.copy.Data, c.home.Data); err != nil {
			return err
		}
	}
	return nil
}

// dropFetches frees the copies' memory. No copy is under way, because a run waits for its own.
func (s *Session) dropFetches() {
	for _, t := range s.fetched.outputs {
		if t != nil {
			s.mem.(Fetcher).Unpin(t.Data)
		}
	}
	s.fetched = fetched{}
	if s.root == nil {
		return
	}
	for i := range s.root.steps {
		s.root.steps[i].fetches = nil
	}
}
