package cuda

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// Flags of steps in kernels/fusion.h.
const (
	fusionSwap = 1 << iota
	fusionKeepY
	fusionYIn1
	fusionKeep
	fusionIn1
)

// fusionStep is a step of a program.
type fusionStep struct {
	code, flags      uint32
	alpha, beta      float32
	node             int // the node whose operands these are
	from             uint32
	input            int // y, where from says that it is in memory
	place, condPlace placing
	cond             int // input, or -1
	store            bool
}

// fusionProgram is the interpreter's program for a fusion group.
type fusionProgram struct {
	dtype        graph.DType
	n, width     int // elements, and those of 16 bytes
	steps        []fusionStep
	alone, moved int64 // bytes of tensors with n elements that the nodes move one by one, and that the program moves
}

// fusionCompiler makes a program. Registers are given by next use (Belady 1966): of values that are
// used again, those whose use is farthest live in memory.
type fusionCompiler struct {
	fusionProgram
	nodes  []executor.Fusible
	ops    []fusionNode
	acc    graph.ValueID
	kept   [2]graph.ValueID
	madeBy map[graph.ValueID]int // the step that makes a value
}

// never is the next use of a value that is not used again.
const never = math.MaxInt

// compileFusion makes a program of nodes, or returns false if they cannot be fused.
func compileFusion(nodes []executor.Fusible) (*fusionProgram, bool) {
	c := &fusionCompiler{nodes: nodes, acc: graph.NoValue, kept: [2]graph.ValueID{graph.NoValue, graph.NoValue},
		madeBy: map[graph.ValueID]int{}}
	c.dtype, c.n = nodes[0].Prep.Out[0], elements(nodes[0].Shape)
	if !isFloat(c.dtype) || c.n == 0 || c.n >= 1<<31-16 {
		return nil, false
	}
	c.width = 16 / (c.dtype.Bits() / 8)
	for i := range nodes {
		op, ok := fusionNodeOf(&nodes[i])
		if !ok || !c.takes(&nodes[i], op) {
			return nil, false
		}
		c.ops = append(c.ops, op)
	}
	for i := range nodes {
		if !c.add(i) {
			return nil, false
		}
	}
	if len(c.steps) > fusionSteps {
		return nil, false
	}
	c.count()
	return &c.fusionProgram, true
}

// takes reports whether a node's operands are of the group's type and can be placed.
func (c *fusionCompiler) takes(l *executor.Fusible, op fusionNode) bool {
	if l.Prep.Out[0] != c.dtype {
		return false
	}
	for _, in := range []int{op.x, op.z, op.cond} {
		if in < 0 {
			continue
		}
		if !l.Prep.Has(in) || in != op.cond && l.Prep.DType(in) != c.dtype ||
			in == op.cond && l.Prep.DType(in) != graph.Bool {
			return false
		}
		if _, ok := placingOf(l.Shapes[in], l.Shape); !ok {
			return false
		}
	}
	return true
}

// value returns the value that a node reads in full by an input, NoValue where it is broadcast or
// left out.
func (c *fusionCompiler) value(i, in int) graph.ValueID {
	l := &c.nodes[i]
	if in < 0 {
		return graph.NoValue
	}
	if p, _ := placingOf(l.Shapes[in], l.Shape); !p.full {
		return graph.NoValue
	}
	return l.In[in]
}

// next returns the first node behind node i that reads a value in full.
func (c *fusionCompiler) next(v graph.ValueID, i int) int {
	for j := i + 1; j < len(c.nodes) && v != graph.NoValue; j++ {
		if c.value(j, c.ops[j].x) == v || c.value(j, c.ops[j].z) == v {
			return j
		}
	}
	return never
}

// add adds node i's steps.
func (c *fusionCompiler) add(i int) bool {
	op := c.ops[i]
	x, z := c.value(i, op.x), c.value(i, op.z)
	s := fusionStep{code: op.code, alpha: op.alpha, beta: op.beta, node: i, cond: op.cond, store: c.nodes[i].Stored}
	if op.cond >= 0 {
		s.condPlace, _ = placingOf(c.nodes[i].Shapes[op.cond], c.nodes[i].Shape)
	}
	y := op.z
	switch in := c.acc != graph.NoValue; {
	case op.z < 0:
		s.flags, y = fusionSwap, op.x
	case in && x == c.acc:
	case in && z == c.acc:
		s.flags, y = fusionSwap, op.x
	default:
		c.take(i, op.x, z)
	}
	c.read(&s, i, y)
	if s.from >= fusionFromPack {
		if r, ok := c.keep(c.value(i, y), i, i, graph.NoValue); ok {
			s.flags |= fusionKeepY | uint32(r)*fusionYIn1
		}
	}
	out := c.nodes[i].Out
	c.acc, c.madeBy[out] = out, len(c.steps)
	c.steps = append(c.steps, s)
	// Node i+1 finds it in acc; those behind do not.
	if r, ok := c.keep(out, i, i+1, graph.NoValue); ok {
		c.steps[len(c.steps)-1].flags |= fusionKeep | uint32(r)*fusionIn1
	}
	return len(c.steps) <= fusionSteps
}

// take puts an operand of node i into acc, without taking a register from the other operand.
func (c *fusionCompiler) take(i, in int, other graph.ValueID) {
	s := fusionStep{code: fusionTake, node: i, cond: -1}
	c.read(&s, i, in)
	v := c.value(i, in)
	if s.from >= fusionFromPack {
		if r, ok := c.keep(v, i, i, other); ok {
			s.flags |= fusionKeepY | uint32(r)*fusionYIn1
		}
	}
	c.acc = v
	c.steps = append(c.steps, s)
}

// read says where a step finds an operand of node i.
func (c *fusionCompiler) read(s *fusionStep, i, in int) {
	switch v := c.value(i, in); {
	case v != graph.NoValue && v == c.acc:
		s.from = fusionFromAcc
	case v != graph.NoValue && v == c.kept[0]:
		s.from = fusionFromKept0
	case v != graph.NoValue && v == c.kept[1]:
		s.from = fusionFromKept1
	default:
		s.input = in
		s.place, _ = placingOf(c.nodes[i].Shapes[in], c.nodes[i].Shape)
		s.from = s.place.from(c.width)
	}
}

// keep finds a register for a value of node i that is read behind node after: a free one, or that
// of a value whose next use is farther. A value without a register is read from memory again, so it
// must be stored if the group has made it. spare's register is not given away.
func (c *fusionCompiler) keep(v graph.ValueID, i, after int, spare graph.ValueID) (int, bool) {
	if c.next(v, after) == never {
		return 0, false
	}
	far, register := c.next(v, after), -1
	for r, held := range c.kept {
		use := c.next(held, i)
		if held != graph.NoValue && held == spare {
			continue
		}
		if use == never {
			c.kept[r] = v
			return r, true
		}
		if use > far {
			far, register = use, r
		}
	}
	if register < 0 {
		c.spill(v)
		return 0, false
	}
	c.spill(c.kept[register])
	c.kept[register] = v
	return register, true
}

// spill has a value stored that the group has made.
func (c *fusionCompiler) spill(v graph.ValueID) {
	if at, ok := c.madeBy[v]; ok {
		c.steps[at].store = true
	}
}

// count counts the bytes of tensors with n elements.
func (c *fusionCompiler) count() {
	size := int64(c.n) * int64(c.dtype.Bits()/8)
	for i, op := range c.ops {
		c.alone += size
		for _, in := range []int{op.x, op.z} {
			if c.value(i, in) != graph.NoValue {
				c.alone += size
			}
		}
	}
	for _, s := range c.steps {
		if s.from >= fusionFromPack && s.place.full {
			c.moved += size
		}
		if s.store {
			c.moved += size
		}
	}
}
