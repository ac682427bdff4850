package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// bufferPlanner assigns values to buffers as ONNX Runtime does before it runs a graph (PlannerImpl
// in core/framework/allocation_planner.cc). Apart from views and operators that write in place, a
// value takes over the buffer of a dead one that has the same element size and, as far as shapes
// are known, the same shape: the one that died last (FindReusableTensor). Such a buffer stays
// allocated in between, unlike in the memory model of package live.
type bufferPlanner struct {
	bufferPlan
	apart    bool              // dead buffers serve no other value, and outputs without readers stay to the end
	shape    []Shape           // by value of the program
	returned []bool            // by value of the program: it is an output
	bound    []bool            // by value of the program: an output in memory of the caller's
	reads    []int32           // by value: how often it is read
	uses     []int32           // by root: reads still to come
	free     [][]graph.ValueID // by shape: roots of dead buffers, the last to die last
}

// bufferPlan says which values of a program share a buffer, and when it is allocated.
type bufferPlan struct {
	root  []graph.ValueID // by value: the value whose buffer it lies in; NoValue for a value without buffer
	start []int32         // by root: the position of the step that allocates it
	end   []int32         // by root: the position of the last step that needs it; -1: to the end
	out   []bool          // by root: a graph output
	spare []bool          // by position: the step there needs one block of workspace fewer
	delta []int64         // scratch memory
}

// plan assigns the values of a program, whose steps run in an order, to buffers. shape has the
// shapes of its values, shapes says how many differ; copies says that an Identity whose result is a
// graph output copies. The plan is good until the next call.
func (a *bufferPlanner) plan(p *live.Program, order []int32, shape []Shape, shapes int, copies bool) *bufferPlan {
	a.shape = shape
	a.reset(p, shapes)
	a.spare = resized(a.spare, len(order))
	for at, i := range order {
		s := &p.Steps[i]
		a.spare[at] = table[s.Kind].spares && a.overwrites(s.In[0])
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
			if v != graph.NoValue && a.root[v] != graph.NoValue && a.uses[a.root[v]] == 0 && !a.out[a.root[v]] &&
				a.end[a.root[v]] < int32(at) && !forgotten(s, slot) && !a.apart {
				a.drop(a.root[v], int32(at))
			}
		}
	}
	return &a.bufferPlan
}

// overwrites reports whether a kernel that reads a value may write a result of its shape over it.
func (a *bufferPlanner) overwrites(v graph.ValueID) bool {
	root := a.root[v]
	return root != graph.NoValue && a.uses[root] == 1 && !a.out[root] && a.shapeOf(v) >= 0
}

// workspace lists the blocks that the step at a position needs besides values. space has those of
// kernels, by node.
func (a *bufferPlan) workspace(s *live.Step, at int, space [][]int64) []int64 {
	if s.Node == graph.NoNode {
		return nil
	}
	blocks := space[s.Node]
	if a.spare[at] && len(blocks) == spareOf {
		return blocks[1:]
	}
	return blocks
}

// spareOf is how many blocks there are where one may be spared.
const spareOf = 3

// forgotten reports whether an output without readers stays allocated to the end, as further
// outputs of most operators do: ONNX Runtime frees a value after its last reader
// (PlannerImpl::GenerateDeallocationPlan).
func forgotten(s *live.Step, slot int) bool {
	return slot > 0 && !table[s.Kind].drops
}

// bind notes which outputs of the program that is planned next lie in memory of the caller's: those
// of a case, whatever optimizations have put in their places.
func (a *bufferPlanner) bind(p *live.Program, c *Case) {
	a.bound = resized(a.bound, len(p.Bytes))
	for _, v := range c.Bound {
		if at := slices.Index(c.Program.Outputs, v); at >= 0 {
			a.bound[p.Outputs[at]] = true
		}
	}
}

func (a *bufferPlanner) reset(p *live.Program, shapes int) {
	n := len(p.Bytes)
	a.root, a.uses, a.start, a.end, a.out = resized(a.root, n), resized(a.uses, n), resized(a.start, n),
		resized(a.end, n), resized(a.out, n)
	for v := range a.root {
		a.root[v], a.end[v] = graph.NoValue, -1
	}
	if len(a.free) < shapes {
		a.free = make([][]graph.ValueID, shapes)
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
	if len(a.bound) != n {
		a.bound = resized(a.bound, n)
	}
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
func (a *bufferPlanner) allocate(p *live.Program, s *live.Step, slot int, v graph.ValueID, at int32, copies bool) {
	if a.bound[v] {
		return // reset has said that it lies in no buffer of the runtime's
	}
	if a.returned[v] && (copies || !table[s.Kind].copies || a.reads[s.In[0]] > 1) {
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
	if c := a.shapeOf(v); c >= 0 && len(a.free[c]) > 0 && !a.apart {
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
func (a *bufferPlanner) reuse(p *live.Program, s *live.Step, v graph.ValueID) (graph.ValueID, bool) {
	if op.Of(s.Kind).View && len(s.In) > 0 && s.In[0] != graph.NoValue {
		return a.root[s.In[0]], true
	}
	for _, slot := range table[s.Kind].inPlace {
		if slot >= len(s.In) || s.In[slot] == graph.NoValue {
			continue
		}
		root := a.root[s.In[slot]]
		if root != graph.NoValue && a.uses[root] == 1 && !a.out[root] && p.Bytes[root] == p.Bytes[v] &&
			a.shapeOf(s.In[slot]) == a.shapeOf(v) && a.shapeOf(v) >= 0 {
			return root, true
		}
	}
	return graph.NoValue, false
}

func (a *bufferPlanner) shapeOf(v graph.ValueID) Shape {
	if int(v) < len(a.shape) {
		return a.shape[v]
	}
	return UnknownShape
}

// release counts a read.
func (a *bufferPlanner) release(v graph.ValueID, at int32) {
	root := a.root[v]
	if root == graph.NoValue {
		return
	}
	if a.uses[root]--; a.uses[root] == 0 && !a.out[root] {
		a.drop(root, at)
	}
}

func (a *bufferPlanner) drop(root graph.ValueID, at int32) {
	a.end[root] = at
	if c := a.shapeOf(root); c >= 0 {
		a.free[c] = append(a.free[c], root)
	}
}

// peak returns the largest sum of allocated bytes of a step. space has the workspaces of kernels,
// by node.
func (a *bufferPlan) peak(p *live.Program, order []int32, space [][]int64) int64 {
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
		for _, bytes := range a.workspace(s, at, space) {
			extra += bytes
		}
		most = max(most, now+extra)
	}
	return most
}
