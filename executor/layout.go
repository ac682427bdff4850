package executor

import (
	"context"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/arena"
)

// layout is where the values of a frame live.
type layout struct {
	timeline   *live.Timeline
	bytes      []int64         // by value and workspace, live.Unsized where not known
	offsets    []int64         // by value: place in the planned block, -1 for values that are taken on demand
	blocks     [][]byte        // by value: memory taken on demand
	held       []int64         // by value: its share of the live bytes at this moment
	pinned     []graph.ValueID // roots that outlive the run: outputs
	arenaBytes int64
	workspace  int64 // the largest
	least      int64 // peak of live bytes with the least workspace of libraries
	peak       live.Peak
	bound      int64
}

// guardBytes is the length of the guard behind a buffer.
const guardBytes = arena.Alignment

func (s *Session) guard() int64 {
	if s.opts.Guard {
		return guardBytes
	}
	return 0
}

// plan simulates the run. Everything is allocated on demand unless pack follows.
func (f *frame) plan(sizes *live.Sizes) error {
	p := f.program(sizes)
	t, err := p.Simulate()
	if err != nil {
		return err
	}
	f.timeline, f.bytes = t, p.Bytes
	if f.least, err = f.leastLive(p, t.Peak.Bytes); err != nil {
		return err
	}
	n := len(f.g.Values)
	f.offsets, f.blocks, f.held = make([]int64, n), make([][]byte, n), make([]int64, n)
	for i := range f.offsets {
		f.offsets[i] = -1
	}
	f.planEnds(p)
	f.arenaBytes = onDemandPeak(t, p.Bytes)
	f.s.planCopies(f)
	// Bytes inside subgraphs are taken on demand and are in no layout.
	f.peak, f.bound = t.Peak, f.arenaBytes
	return nil
}

// pack places everything of known size in one block.
func (f *frame) pack(ctx context.Context) {
	padded := f.bytes
	if g := f.s.guard(); g > 0 {
		padded = slices.Clone(padded)
		for i, b := range padded {
			if b > 0 {
				padded[i] += g
			}
		}
	}
	l := arena.NewLayout(ctx, f.timeline, padded)
	f.arenaBytes, f.bound = l.Bytes, min(l.LowerBound, l.Bytes)
	copy(f.offsets, l.Offsets)
	if t := f.timeline.Host; t != nil {
		h := arena.NewLayout(ctx, t, padded)
		f.s.host.bytes = h.Bytes
		for v := range f.offsets {
			if t.Root[v] == graph.ValueID(v) {
				f.offsets[v] = h.Offsets[v]
			}
		}
	}
	for i := range f.steps {
		if w := &f.steps[i].planned; w.size > 0 {
			w.offset = l.Offsets[w.value]
		}
	}
}

// program returns the frame as the memory model sees it.
func (f *frame) program(sizes *live.Sizes) *live.Program {
	order := make(graph.Order, len(f.steps))
	for i := range f.steps {
		order[i] = f.steps[i].node.ID
	}
	p := live.NewProgram(f.g, order, sizes)
	p.Bytes, p.Persistent = slices.Clone(p.Bytes), slices.Clone(p.Persistent)
	for v := range f.g.Values {
		if f.space.atHost(graph.ValueID(v)) {
			p.Bytes[v] = 0
		}
	}
	for i := range f.steps {
		st := &f.steps[i]
		p.Steps[i].Inner = 0
		n := f.workspaceOf(st)
		if n <= 0 {
			continue
		}
		f.workspace = max(f.workspace, n)
		st.planned = workspace{value: p.AddWorkspace(i, n), offset: -1, size: n}
	}
	return p
}

// workspaceOf asks a kernel for its workspace, if all shapes are known.
func (f *frame) workspaceOf(st *step) int64 {
	copies := f.fetchBytes(st)
	w, ok := st.kernel.(Workspacer)
	if !ok || st.hostWhy != "" {
		return int64(copies)
	}
	in, ok := f.knownShapes(st.node.Inputs)
	out, ok2 := f.knownShapes(st.node.Outputs)
	if !ok || !ok2 {
		return int64(copies)
	}
	return int64(RoundUp(w.Workspace(in, out)) + copies)
}

func (f *frame) knownShapes(ids []graph.ValueID) ([][]int, bool) {
	shapes := make([][]int, len(ids))
	for i, v := range ids {
		if v == graph.NoValue {
			continue
		}
		if shapes[i] = f.shapes[v]; shapes[i] == nil {
			if shapes[i] = f.vals[v].Shape; f.vals[v].Data == nil || shapes[i] == nil {
				return nil, false
			}
		}
	}
	return shapes, true
}

// planEnds notes the step that ends each root's memory.
func (f *frame) planEnds(p *live.Program) {
	t := f.timeline
	out := make([]bool, len(t.Root))
	for _, v := range p.Outputs {
		if r := t.Root[v]; r != graph.NoValue && !out[r] {
			out[r] = true
			f.pinned = append(f.pinned, r)
		}
	}
	for i := range f.g.Values {
		v, last := graph.ValueID(i), t.Ranges[i].End-1
		if f.hostRoot(v) == v {
			last = t.Host.Ranges[i].End - 1
		} else if t.Root[i] != v || out[i] {
			continue
		}
		f.steps[last].ends = append(f.steps[last].ends, v)
	}
}

// onDemandPeak is the most that an arena has in use when every buffer is taken and given back in
// time: the peak of live bytes with every buffer rounded up to the alignment.
func onDemandPeak(t *live.Timeline, bytes []int64) int64 {
	delta := make([]int64, len(t.Live)+1)
	for i, r := range t.Root {
		if graph.ValueID(i) != r || bytes[i] <= 0 {
			continue
		}
		n := arena.Align(bytes[i])
		delta[t.Ranges[i].Start] += n
		delta[t.Ranges[i].End] -= n
	}
	var live, peak int64
	for _, d := range delta {
		live += d
		peak = max(peak, live)
	}
	return peak
}

// prediction fills in the memory figures known before a run.
func (f *frame) prediction(p Prediction) Prediction {
	p.Live, p.LeastLive, p.PeakNode = f.peak.Bytes, f.least, f.peak.Node
	p.Arena, p.LowerBound, p.Workspace = f.arenaBytes, f.bound, f.workspace
	p.Unsized = f.timeline.Unsized
	p.HostLive, p.Host = f.s.host.peak, f.s.host.bytes
	return p
}

// Output gives a running node memory for an output, where the frame's values live.
func (st *step) Output(slot, n int) ([]byte, error) {
	f, v := st.f, st.node.Outputs[slot]
	if f.hostRoot(v) == v {
		return st.hostOutput(v, n)
	}
	root := f.timeline.Root[v]
	if root == graph.NoValue {
		root = v // a copy of a persistent value, where the table expects a view
	}
	if want := f.bytes[v]; want >= 0 && int64(n) != want {
		return nil, st.mismatch(slot, f.shapes[v])
	}
	if at, ok := st.shows(slot); ok {
		return st.shown(at, n)
	}
	if in := f.stateOf(v); in != graph.NoValue {
		return st.intoState(slot, in, n)
	}
	if n == 0 {
		return nil, nil
	}
	begin, whole := int64(0), int64(n)
	if root != v && f.bytes[root] > whole {
		begin, whole = f.timeline.Begin(v), f.bytes[root] // a part
	}
	if root == v || f.held[root] == 0 {
		f.hold(root, whole)
	}
	end, guard := begin+int64(n), f.s.guard()
	if off := f.offsets[root]; off >= 0 {
		f.high = max(f.high, off+end+guard)
		if f.s.virtual {
			return nil, nil
		}
		data := f.s.base[off : off+whole+guard]
		return data[begin:end:end], f.mem.Fill(data[whole:], guardByte)
	}
	if f.s.virtual {
		return nil, nil
	}
	if b := f.blocks[root]; b != nil && int64(len(b)) == whole+guard {
		return b[begin:end:end], nil // in place, a part, or a second call
	}
	from := f.shareOf(root)
	from.Free(f.blocks[root])
	f.blocks[root] = nil
	b, err := from.Alloc(int(whole + guard))
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, f.liveNow())
	}
	f.blocks[root] = b
	return b[begin:end:end], f.mem.Fill(b[whole:], guardByte)
}

// shows reports whether output slot of a step is a view of a part of input 0 that lies outside the
// arena: in an input, a weight or a state. at is its first byte in input 0. The kernel's copy of
// such a part onto itself is skipped.
func (st *step) shows(slot int) (at int64, ok bool) {
	f, src, v := st.f, st.node.Input(0), st.node.Outputs[slot]
	if st.prep.Info.Cuts == nil || src == graph.NoValue || f.timeline.Root[v] != graph.NoValue ||
		f.stateOf(v) != f.stateOf(src) {
		return 0, false
	}
	return f.timeline.Begin(v) - f.timeline.Begin(src), true
}

// shown returns n bytes of input 0, where it is at home.
func (st *step) shown(at int64, n int) ([]byte, error) {
	if st.f.s.virtual {
		return nil, nil
	}
	data := st.f.vals[st.node.Inputs[0]].Data
	if end := at + int64(n); end <= int64(len(data)) {
		return data[at:end:end], nil
	}
	return nil, st.prep.Errorf("input 0 has %d bytes, and its part is planned at %d to %d", len(data), at, at+int64(n))
}

// takeScratch charges a step with the workspace that its kernel has announced.
func (st *step) takeScratch() error {
	f, n := st.f, st.planned.size
	st.scratchUsed = 0
	if n == 0 {
		return nil
	}
	f.live += n
	st.scratchLive = n
	f.livePeak = max(f.livePeak, f.live)
	guard := f.s.guard()
	switch off := st.planned.offset; {
	case f.s.virtual:
		f.high = max(f.high, off+n)
	case off >= 0:
		f.high = max(f.high, off+n+guard)
		st.workspace = f.s.base[off : off+n]
		if err := f.mem.Fill(f.s.base[off+n:off+n+guard], guardByte); err != nil {
			return err
		}
	default:
		b, err := f.shares.planned.Alloc(int(n))
		if err != nil {
			return fmt.Errorf("%w%s", err, f.liveNow())
		}
		st.extra = append(st.extra, b)
		st.workspace = b
	}
	return nil
}

// Scratch gives a running node planned workspace, as long as it lasts. A request for more breaks
// the kernel's promise, unless the sizes of operands, and with them the workspace, depend on data:
// it is then allocated separately.
func (st *step) Scratch(n int) ([]byte, error) {
	f := st.f
	size := int64(RoundUp(n))
	if n == 0 || f.s.virtual {
		return nil, nil
	}
	at := st.scratchUsed
	st.scratchUsed += size
	if at+size <= st.planned.size {
		return st.workspace[at : at+int64(n) : at+int64(n)], nil
	}
	f.live += size
	st.scratchLive += size
	f.livePeak = max(f.livePeak, f.live)
	if st.unsized() {
		b, err := f.shares.beside.Alloc(n)
		if err != nil {
			return nil, fmt.Errorf("%w%s", err, f.liveNow())
		}
		st.besideExtra = append(st.besideExtra, b)
		return b, nil
	}
	b, err := f.shares.planned.Alloc(n)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, f.liveNow())
	}
	st.extra = append(st.extra, b)
	return b, nil
}

// unsized reports whether the size of an operand depends on data.
func (st *step) unsized() bool {
	for _, list := range [...][]graph.ValueID{st.node.Inputs, st.node.Outputs} {
		for _, v := range list {
			if v != graph.NoValue && st.f.bytes[v] == live.Unsized {
				return true
			}
		}
	}
	return false
}

// shareOf returns the share that a value is allocated from on demand.
func (f *frame) shareOf(v graph.ValueID) *share {
	switch {
	case f.hostRoot(v) == v:
		return f.shares.copies
	case f.space.atHost(v):
		return f.shares.host
	case f.bytes[v] == live.Unsized:
		return f.shares.beside
	}
	return f.shares.planned
}

// hold counts a value's bytes as live.
func (f *frame) hold(v graph.ValueID, n int64) {
	f.live += n - f.held[v]
	f.held[v] = n
	f.livePeak = max(f.livePeak, f.live)
}

// drop ends a root's memory.
func (f *frame) drop(v graph.ValueID) {
	f.shareOf(v).Free(f.blocks[v])
	f.blocks[v] = nil
}

// freeExtra frees the memory that a step has allocated until its end.
func (st *step) freeExtra() {
	for _, b := range st.extra {
		st.f.shares.planned.Free(b)
	}
	for _, b := range st.besideExtra {
		st.f.shares.beside.Free(b)
	}
	for _, b := range st.hostExtra {
		st.f.shares.host.Free(b)
	}
	st.extra, st.besideExtra, st.hostExtra = st.extra[:0], st.besideExtra[:0], st.hostExtra[:0]
}

// release ends the memory of everything that is still held, outputs included.
func (f *frame) release() {
	for v := range f.blocks {
		f.drop(graph.ValueID(v))
	}
	for i := range f.steps {
		st := &f.steps[i]
		st.freeExtra()
		for _, c := range st.stores {
			c.home.Data = nil
		}
		for slot, t := range st.out {
			st.scratchLive = 0
			if t != nil && st.kernel != nil && slot < len(st.node.Outputs) {
				t.Data = nil
			}
		}
	}
	clear(f.held)
	f.live = 0
}
