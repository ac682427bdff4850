package live

import (
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Range is a live range: the half-open interval of steps [Start, End).
type Range struct{ Start, End int32 }

// Peak is a step at which the most bytes are live.
type Peak struct {
	Bytes int64
	Step  int          // place in the order
	Node  graph.NodeID // the node that runs then
}

// Timeline is a simulated execution: the live range and the root of each value, and the live bytes
// of each step.
type Timeline struct {
	// Live has the live bytes of every step, persistent ones left out.
	Live []int64
	Peak Peak // the first of the worst steps
	// Root maps every value to the value whose bytes it occupies: itself, the
	// source of a view, the input it was written into, or NoValue for persistent
	// values and views of these.
	Root []graph.ValueID
	// Start is, by value, its first byte in its root's buffer: not 0 for parts of another value
	// (Step.Slices). A part of a persistent value counts from that value. Nil means that all begin at
	// 0.
	Start []int64
	// Ranges has the live range of every root.
	Ranges []Range
	// Unsized lists the values of unknown size that a step makes; they count as
	// 0 bytes.
	Unsized []graph.ValueID
	// Hidden is the bytes in Live and Peak that belong to no value and are taken throughout.
	Hidden int64
	// Inside is the most bytes that live inside the subgraphs of one step. They are in Live and Peak, and
	// belong to no value either.
	Inside int64
	// LowerBound is a number of bytes that no order and no recomputation gets below: the largest
	// need of a single step, or that of the graph's outputs together.
	LowerBound int64
	// State maps every value that lies in the buffer of a state to the state's input, also that
	// input itself; others to NoValue. Their Root is NoValue. Nil where the program has no states.
	State []graph.ValueID
	// Copied lists the states whose next value has a buffer of its own to the end of the step, and
	// is copied to the input's then.
	Copied []State
	// Host is the timeline of the host's memory, where copies to the host lie: their Root above is
	// NoValue. Only Live, Peak, Root, Ranges and Unsized are set. Nil where the program has no copies.
	Host *Timeline
}

// Clone returns a copy of the timeline.
func (t *Timeline) Clone() *Timeline {
	c := *t
	c.Live, c.Root, c.Ranges, c.Unsized = slices.Clone(t.Live), slices.Clone(t.Root), slices.Clone(t.Ranges),
		slices.Clone(t.Unsized)
	c.State, c.Copied, c.Start = slices.Clone(t.State), slices.Clone(t.Copied), slices.Clone(t.Start)
	if t.Host != nil {
		c.Host = t.Host.Clone()
	}
	return &c
}

// Begin returns a value's first byte in its root's buffer.
func (t *Timeline) Begin(v graph.ValueID) int64 {
	if t.Start == nil {
		return 0
	}
	return t.Start[v]
}

// Simulate executes a graph in an order under the memory model and returns the timeline. It takes
// time linear in the graph.
func Simulate(g *graph.Graph, order graph.Order, sizes *Sizes) (*Timeline, error) {
	return NewProgram(g, order, sizes).Simulate()
}

// Simulate executes the program under the memory model. The error says that the sizes of all values
// together exceed int64.
func (p *Program) Simulate() (*Timeline, error) {
	t, err := new(Simulator).Run(p)
	if err != nil {
		return nil, err
	}
	alone := *t // so that it does not keep the simulator's memory
	return &alone, nil
}

// Simulator simulates one program after the other in the same memory. The
// zero value is ready for use.
type Simulator struct{ s simulation }

// Run simulates a program. The timeline is valid until the next Run.
func (r *Simulator) Run(p *Program) (*Timeline, error) {
	s := &r.s
	if s.share.on = false; p.hasSlices() {
		return s.best(p)
	}
	s.begin(p)
	return s.steps()
}

// begin finds out how long values live, and which may lie in whose buffer.
func (s *simulation) begin(p *Program) {
	s.start(p)
	s.views()
	s.inherit()
	if s.share.on {
		s.join()
	}
}

// steps gives values their bytes, step by step.
func (s *simulation) steps() (*Timeline, error) {
	for i := range s.p.Steps {
		s.run(int32(i), &s.p.Steps[i])
	}
	return s.finish()
}

type simulation struct {
	p       *Program
	t       Timeline
	delta   []int64 // by step: bytes that become live less bytes that die
	lastUse []int32 // by value: one past the last step that reads it or a view of all of it
	keep    []int32 // by value: one past the last step that needs its buffer; lastUse in a program without parts
	pinned  []bool  // by value: it, a view of it or a value written into it is a graph output
	counted []int32 // by root: one past the last step whose inputs it was counted among
	need    []int64 // by step: bytes that the step cannot do without
	state   inheritance
	share   sharing
	host    hosting
	log     *Decisions // notes the questions about sizes; nil means that they are not noted
	// proved says which values are of equal size, in place of their bytes (SimulateApart); nil
	// means that the bytes do.
	proved func(a, b graph.ValueID) bool
}

// zeroed returns a slice of n zero elements, in the memory of s where it is large enough.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/8)
	}
	s = s[:n]
	clear(s)
	return s
}

func (s *simulation) start(p *Program) {
	values, steps := len(p.Bytes), len(p.Steps)
	s.p = p
	s.lastUse, s.pinned, s.counted = zeroed(s.lastUse, values), zeroed(s.pinned, values), zeroed(s.counted, values)
	s.need, s.delta = zeroed(s.need, steps), zeroed(s.delta, steps+1)
	s.t = Timeline{Live: zeroed(s.t.Live, steps), Root: zeroed(s.t.Root, values), Ranges: zeroed(s.t.Ranges, values),
		Unsized: s.t.Unsized[:0]}
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			if v != graph.NoValue {
				s.lastUse[v] = int32(i) + 1
			}
		}
		for _, v := range p.Steps[i].Out {
			if v != graph.NoValue {
				s.lastUse[v] = int32(i) + 1
			}
		}
	}
	for _, v := range p.Outputs {
		s.lastUse[v], s.pinned[v] = int32(len(p.Steps)), true
	}
	for i := range s.t.Root {
		s.t.Root[i] = graph.NoValue
	}
	s.keepSources()
	s.keep = s.lastUse
	if s.share.on {
		s.share.keep = append(s.share.keep[:0], s.lastUse...)
		s.keep, s.t.Start = s.share.keep, zeroed(s.share.start, values)
		s.share.start = s.t.Start
	}
}

// views lets every view keep its source alive, from the last step back.
func (s *simulation) views() {
	for i := len(s.p.Steps) - 1; i >= 0; i-- {
		step := &s.p.Steps[i]
		if src, out := step.viewSource(), step.Output0(); src != graph.NoValue && out != graph.NoValue {
			s.lastUse[src] = max(s.lastUse[src], s.lastUse[out])
			s.keep[src] = max(s.keep[src], s.keep[out])
			s.pinned[src] = s.pinned[src] || s.pinned[out]
		}
		s.keepCut(step)
	}
}

func (s *simulation) size(id graph.ValueID) int64 { return max(s.p.Bytes[id], 0) }

// run gives the outputs of one step their bytes.
func (s *simulation) run(at int32, step *Step) {
	need := addSat(step.Inner, s.inputBytes(at, step))
	for slot, id := range step.Out {
		if id == graph.NoValue || s.p.Persistent[id] {
			continue
		}
		if s.p.Bytes[id] == Unsized {
			s.t.Unsized = append(s.t.Unsized, id)
		}
		if s.onHost(at, step, slot, id) || s.share.on && s.part(at, step, slot, id) ||
			slot == 0 && s.reuse(at, step, id) || s.intoState(at, step, slot, id) {
			continue
		}
		s.settleAt(id, id, 0)
		s.t.Ranges[id] = Range{at, max(s.keep[id], at+1)}
		if !s.heir(id) { // in another order it might lie in the state's buffer
			need = addSat(need, s.size(id))
		}
	}
	// In another order the step might write in place; the bound must hold there too.
	s.need[at] = need - min(need, s.inPlaceGain(step))
	if s.share.on {
		s.need[at] = s.familyNeed(at, step)
	}
}

// settleAt puts a value at a byte of a root's buffer.
func (s *simulation) settleAt(id, root graph.ValueID, start int64) {
	s.t.Root[id] = root
	if !s.share.on {
		return
	}
	if s.t.Start[id] = start; root != graph.NoValue {
		s.list(id)
	}
}

// reuse gives output 0 the bytes of an input, as a view or in place, if it can.
func (s *simulation) reuse(at int32, step *Step, id graph.ValueID) bool {
	if src := step.viewSource(); src != graph.NoValue {
		s.settleAt(id, s.t.Root[src], s.t.Begin(src))
		s.state.view(id, src)
		s.host.view(id, src)
		return true
	}
	if s.intoState(at, step, 0, id) {
		return true
	}
	in := s.inPlaceInput(at, step, id)
	if in == graph.NoValue {
		return false
	}
	root := s.t.Root[in]
	s.settleAt(id, root, s.t.Begin(in))
	s.t.Ranges[root].End = max(s.t.Ranges[root].End, s.keep[id], at+1)
	s.pinned[root] = s.pinned[id]
	return true
}

// inPlaceInput returns the input that output id may be written over: one of equal size that the
// step reads for the last time, in a buffer that holds no graph output and is not persistent.
func (s *simulation) inPlaceInput(at int32, step *Step, id graph.ValueID) graph.ValueID {
	if !s.positive(id) {
		return graph.NoValue
	}
	for _, slot := range step.inPlace() {
		in := step.Input(slot)
		if in == graph.NoValue {
			continue
		}
		root := s.t.Root[in]
		switch {
		case root == graph.NoValue || s.pinned[root] || s.readsThroughout(step, root):
		case s.share.on && s.share.parted[root]:
			// It must not keep the whole buffer alive longer.
			if s.same(in, id) && s.keep[id] <= s.t.Ranges[root].End && s.vacant(at, in) {
				return in
			}
		case s.t.Ranges[root].End == at+1 && s.same(root, id):
			return in
		}
	}
	return graph.NoValue
}

// readsThroughout reports whether a step reads a buffer while it writes its first output, other than to
// write each element over the one that it has read.
func (s *simulation) readsThroughout(step *Step, root graph.ValueID) bool {
	for _, slot := range op.Of(step.Kind).Throughout {
		if in := step.Input(slot); in != graph.NoValue && s.t.Root[in] == root {
			return true
		}
	}
	return false
}

// inPlaceGain is the bytes that the step would save by writing in place.
func (s *simulation) inPlaceGain(step *Step) int64 {
	out := step.Output0()
	if out == graph.NoValue || s.t.Root[out] != out {
		return 0
	}
	for _, slot := range step.inPlace() {
		in := step.Input(slot)
		if in != graph.NoValue && s.t.Root[in] != graph.NoValue && s.p.Bytes[s.t.Root[in]] == s.p.Bytes[out] {
			return s.size(out)
		}
	}
	return 0
}

// inputBytes sums the buffers that a step reads, each once.
func (s *simulation) inputBytes(at int32, step *Step) int64 {
	var total int64
	for _, id := range step.In {
		if id == graph.NoValue || s.t.Root[id] == graph.NoValue {
			continue
		}
		if root := s.t.Root[id]; s.counted[root] != at+1 {
			s.counted[root] = at + 1
			if s.heir(root) {
				continue
			}
			total = addSat(total, s.size(root))
		}
	}
	return total
}

func addSat(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// finish sums the ranges up to live bytes per step.
func (s *simulation) finish() (*Timeline, error) {
	if err := s.checkSums(); err != nil {
		return nil, err
	}
	t, delta := &s.t, s.delta
	for i, root := range t.Root {
		if id := graph.ValueID(i); root == id {
			delta[t.Ranges[id].Start] += s.size(id)
			delta[t.Ranges[id].End] -= s.size(id)
		}
	}
	t.Peak.Node = graph.NoNode
	live := s.p.Hidden
	t.Hidden = live
	for i := range s.p.Steps {
		live += delta[i]
		t.Live[i] = addSat(live, s.p.Steps[i].Inner)
		t.Inside = max(t.Inside, s.p.Steps[i].Inner)
		if i == 0 || t.Live[i] > t.Peak.Bytes {
			t.Peak = Peak{t.Live[i], i, s.p.Steps[i].Node}
		}
		t.LowerBound = max(t.LowerBound, s.need[i])
	}
	t.LowerBound = max(t.LowerBound, s.outputBytes())
	s.settle()
	if s.host.on {
		t.Host = s.host.timeline(s.p)
	}
	return t, nil
}

// checkSums makes sure that no step can hold more than int64 bytes.
func (s *simulation) checkSums() error {
	var total int64
	for i, root := range s.t.Root {
		if id := graph.ValueID(i); root == id {
			total = addSat(total, s.size(id))
		}
	}
	for v, root := range s.host.root {
		if s.host.on && root == graph.ValueID(v)+1 {
			total = addSat(total, s.size(root-1))
		}
	}
	if total == math.MaxInt64 {
		return fmt.Errorf("the sizes of all activations together: %w", symbolic.ErrOverflow)
	}
	return nil
}

func (s *simulation) outputBytes() int64 {
	if s.share.on {
		return s.largest(int32(len(s.p.Steps))+1, s.p.Outputs)
	}
	var total int64
	counted := make(map[graph.ValueID]bool, len(s.p.Outputs))
	for _, v := range s.p.Outputs {
		if root := s.t.Root[v]; root != graph.NoValue && !counted[root] && !s.heir(root) {
			counted[root] = true
			total = addSat(total, s.size(root))
		}
	}
	return total
}
