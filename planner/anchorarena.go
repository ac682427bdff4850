package planner

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// ortArena simulates how ONNX Runtime assigns values to buffers before it runs a graph (its
// allocation_planner.cc), and what is live then. Beside views and operators that write in place, a
// value takes over the buffer of a dead one that has the same element size and, as far as shapes
// are known, the same shape: the one that died last. Such a buffer stays allocated in between,
// which the memory model of package live knows nothing of.
type ortArena struct {
	class    []int32   // by value of the program: values of one class have the same shape and element size; -1: unknown, or a scalar
	returned []bool    // by value of the program: it is an output
	space    [][]int64 // by node: blocks of workspace

	root  []graph.ValueID // by value: whose buffer it lies in; NoValue: in none
	reads []int32         // by value: how often it is read
	uses  []int32         // by root: reads to come
	start []int32         // by root: the position of the step that allocates it
	end   []int32         // by root: the position of the last step that it is needed at
	out   []bool          // by root: a graph output
	free  [][]graph.ValueID
	delta []int64
}

// run returns the peak of a program whose steps run in an order. copies says that an Identity whose
// result is a graph output copies.
func (a *ortArena) run(p *live.Program, order []int32, classes int, copies bool) int64 {
	a.reset(p, classes)
	for at, i := range order {
		s := &p.Steps[i]
		for slot, v := range s.Out {
			if v != graph.NoValue && !p.Persistent[v] {
				a.allocate(p, s, slot, v, int32(at), copies)
			}
		}
		for _, v := range s.In {
			if v != graph.NoValue {
				a.release(v, int32(at))
			}
		}
		for slot, v := range s.Out {
			if v != graph.NoValue && a.root[v] != graph.NoValue && a.uses[a.root[v]] == 0 && !a.out[a.root[v]] && a.end[a.root[v]] < int32(at) && !forgotten(s, slot) {
				a.drop(a.root[v], int32(at))
			}
		}
	}
	return a.peak(p, order)
}

// forgotten reports whether an output that nobody reads stays allocated to the end, as further
// outputs of most operators do: ONNX Runtime frees a value behind the last node that reads it. The
// running statistics of BatchNormalization lie in its inputs.
func forgotten(s *live.Step, slot int) bool {
	return slot > 0 && s.Kind != op.Split && s.Kind != op.BatchNormalization
}

func (a *ortArena) reset(p *live.Program, classes int) {
	n := len(p.Bytes)
	a.root, a.uses, a.start, a.end, a.out = resized(a.root, n), resized(a.uses, n), resized(a.start, n), resized(a.end, n), resized(a.out, n)
	for v := range a.root {
		a.root[v], a.end[v] = graph.NoValue, -1
	}
	if len(a.free) < classes {
		a.free = make([][]graph.ValueID, classes)
	}
	for i := range a.free {
		a.free[i] = a.free[i][:0]
	}
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			if v != graph.NoValue {
				a.uses[v]++
			}
		}
	}
	a.reads = append(a.reads[:0], a.uses...)
	a.returned = resized(a.returned, n)
	for _, v := range p.Outputs {
		a.returned[v] = true
	}
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/8)
	}
	s = s[:n]
	clear(s)
	return s
}

// allocate gives an output a buffer: that of an input, of a dead value, or a new one.
func (a *ortArena) allocate(p *live.Program, s *live.Step, slot int, v graph.ValueID, at int32, copies bool) {
	if a.returned[v] && (copies || s.Kind != op.Identity || a.reads[s.In[0]] > 1) {
		a.root[v], a.start[v], a.out[v] = v, at, true
		return
	}
	if slot == 0 {
		if root, ok := a.reuse(p, s, v); ok {
			a.root[v] = root
			if root != graph.NoValue {
				a.uses[root] += a.uses[v]
				a.out[root] = a.out[root] || a.returned[v]
			}
			return
		}
	}
	if c := a.classOf(v); c >= 0 && len(a.free[c]) > 0 {
		last := len(a.free[c]) - 1
		root := a.free[c][last]
		a.free[c] = a.free[c][:last]
		a.root[v] = root
		a.uses[root] += a.uses[v]
		a.end[root] = -1
		return
	}
	a.root[v], a.start[v] = v, at
}

// reuse finds the buffer of an input for output 0: of a view, or one that may be written in place.
// NoValue stands for memory that is not the arena's.
func (a *ortArena) reuse(p *live.Program, s *live.Step, v graph.ValueID) (graph.ValueID, bool) {
	if op.Of(s.Kind).View && len(s.In) > 0 && s.In[0] != graph.NoValue {
		return a.root[s.In[0]], true
	}
	for _, slot := range ortInPlace(s.Kind) {
		if slot >= len(s.In) || s.In[slot] == graph.NoValue {
			continue
		}
		root := a.root[s.In[slot]]
		if root != graph.NoValue && a.uses[root] == 1 && !a.out[root] && p.Bytes[root] == p.Bytes[v] && a.classOf(s.In[slot]) == a.classOf(v) && a.classOf(v) >= 0 {
			return root, true
		}
	}
	return graph.NoValue, false
}

func (a *ortArena) classOf(v graph.ValueID) int32 {
	if int(v) < len(a.class) {
		return a.class[v]
	}
	return -1
}

// release counts a read.
func (a *ortArena) release(v graph.ValueID, at int32) {
	root := a.root[v]
	if root == graph.NoValue {
		return
	}
	if a.uses[root]--; a.uses[root] == 0 && !a.out[root] {
		a.drop(root, at)
	}
}

func (a *ortArena) drop(root graph.ValueID, at int32) {
	a.end[root] = at
	if c := a.classOf(root); c >= 0 {
		a.free[c] = append(a.free[c], root)
	}
}

// peak adds up what is allocated at each step.
func (a *ortArena) peak(p *live.Program, order []int32) int64 {
	a.delta = resized(a.delta, len(order)+1)
	for v, root := range a.root {
		if root != graph.ValueID(v) {
			continue
		}
		size := max(p.Bytes[v], 0)
		a.delta[a.start[v]] += size
		if end := a.end[v]; end >= 0 && !a.out[v] {
			a.delta[end+1] -= size
		}
	}
	var now, most int64
	for at, i := range order {
		now += a.delta[at]
		s := &p.Steps[i]
		extra := s.Inner
		if s.Node != graph.NoNode {
			for _, bytes := range a.space[s.Node] {
				extra += bytes
			}
		}
		most = max(most, now+extra)
	}
	return most
}
