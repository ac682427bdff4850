package cuda

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// Flags of steps in kernels/chain.h.
const (
	chainSwap = 1 << iota
	chainKeepY
	chainYIn1
	chainKeep
	chainIn1
)

// chainStep is a step of a program.
type chainStep struct {
	code, flags      uint32
	alpha, beta      float32
	link             int // the node whose operands these are
	from             uint32
	input            int // y, where from says that it is in memory
	place, condPlace placing
	cond             int // input, or -1
	store            bool
}

// chainProgram is what the interpreter does for the nodes of a chain.
type chainProgram struct {
	dtype        graph.DType
	n, width     int // elements, and those of 16 bytes
	steps        []chainStep
	alone, moved int64 // bytes of tensors with n elements that the nodes move one by one, and that the program moves
}

// chainCompiler makes a program. Registers are given by next use (Belady 1966): of values that are
// used again, those whose use is farthest live in memory.
type chainCompiler struct {
	chainProgram
	links  []executor.Link
	ops    []chainLink
	acc    graph.ValueID
	kept   [2]graph.ValueID
	madeBy map[graph.ValueID]int // the step that makes a value
}

// never is the next use of a value that is not used again.
const never = math.MaxInt

// compileChain makes a program of nodes, or returns false where there is none.
func compileChain(links []executor.Link) (*chainProgram, bool) {
	c := &chainCompiler{links: links, acc: graph.NoValue, kept: [2]graph.ValueID{graph.NoValue, graph.NoValue},
		madeBy: map[graph.ValueID]int{}}
	c.dtype, c.n = links[0].Prep.Out[0], elements(links[0].Shape)
	if !isFloat(c.dtype) || c.n == 0 || c.n >= 1<<31-16 {
		return nil, false
	}
	c.width = 16 / (c.dtype.Bits() / 8)
	for i := range links {
		op, ok := linkOf(&links[i])
		if !ok || !c.takes(&links[i], op) {
			return nil, false
		}
		c.ops = append(c.ops, op)
	}
	for i := range links {
		if !c.add(i) {
			return nil, false
		}
	}
	if len(c.steps) > chainSteps {
		return nil, false
	}
	c.count()
	return &c.chainProgram, true
}

// takes reports whether a node's operands are of the chain's type and can be placed.
func (c *chainCompiler) takes(l *executor.Link, op chainLink) bool {
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
func (c *chainCompiler) value(i, in int) graph.ValueID {
	l := &c.links[i]
	if in < 0 {
		return graph.NoValue
	}
	if p, _ := placingOf(l.Shapes[in], l.Shape); !p.full {
		return graph.NoValue
	}
	return l.In[in]
}

// next returns the first node behind node i that reads a value in full.
func (c *chainCompiler) next(v graph.ValueID, i int) int {
	for j := i + 1; j < len(c.links) && v != graph.NoValue; j++ {
		if c.value(j, c.ops[j].x) == v || c.value(j, c.ops[j].z) == v {
			return j
		}
	}
	return never
}

// add adds node i's steps.
func (c *chainCompiler) add(i int) bool {
	op := c.ops[i]
	x, z := c.value(i, op.x), c.value(i, op.z)
	s := chainStep{code: op.code, alpha: op.alpha, beta: op.beta, link: i, cond: op.cond, store: c.links[i].Stored}
	if op.cond >= 0 {
		s.condPlace, _ = placingOf(c.links[i].Shapes[op.cond], c.links[i].Shape)
	}
	y := op.z
	switch in := c.acc != graph.NoValue; {
	case op.z < 0:
		s.flags, y = chainSwap, op.x
	case in && x == c.acc:
	case in && z == c.acc:
		s.flags, y = chainSwap, op.x
	default:
		c.take(i, op.x, z)
	}
	c.read(&s, i, y)
	if s.from >= chainFromPack {
		if r, ok := c.keep(c.value(i, y), i, i, graph.NoValue); ok {
			s.flags |= chainKeepY | uint32(r)*chainYIn1
		}
	}
	out := c.links[i].Out
	c.acc, c.madeBy[out] = out, len(c.steps)
	c.steps = append(c.steps, s)
	// Node i+1 finds it in acc; those behind do not.
	if r, ok := c.keep(out, i, i+1, graph.NoValue); ok {
		c.steps[len(c.steps)-1].flags |= chainKeep | uint32(r)*chainIn1
	}
	return len(c.steps) <= chainSteps
}

// take puts an operand of node i into acc, without taking a register from the other operand.
func (c *chainCompiler) take(i, in int, other graph.ValueID) {
	s := chainStep{code: chainTake, link: i, cond: -1}
	c.read(&s, i, in)
	v := c.value(i, in)
	if s.from >= chainFromPack {
		if r, ok := c.keep(v, i, i, other); ok {
			s.flags |= chainKeepY | uint32(r)*chainYIn1
		}
	}
	c.acc = v
	c.steps = append(c.steps, s)
}

// read says where a step finds an operand of node i.
func (c *chainCompiler) read(s *chainStep, i, in int) {
	switch v := c.value(i, in); {
	case v != graph.NoValue && v == c.acc:
		s.from = chainFromAcc
	case v != graph.NoValue && v == c.kept[0]:
		s.from = chainFromKept0
	case v != graph.NoValue && v == c.kept[1]:
		s.from = chainFromKept1
	default:
		s.input = in
		s.place, _ = placingOf(c.links[i].Shapes[in], c.links[i].Shape)
		s.from = s.place.from(c.width)
	}
}

// keep finds a register for a value of node i that is read behind node after: a free one, or that
// of a value whose next use is farther. What has no register is read from memory again, so it must
// be stored if the chain has made it. spare's register is not given away.
func (c *chainCompiler) keep(v graph.ValueID, i, after int, spare graph.ValueID) (int, bool) {
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

// spill has a value stored that the chain has made.
func (c *chainCompiler) spill(v graph.ValueID) {
	if at, ok := c.madeBy[v]; ok {
		c.steps[at].store = true
	}
}

// count counts the bytes of tensors with n elements.
func (c *chainCompiler) count() {
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
		if s.from >= chainFromPack && s.place.full {
			c.moved += size
		}
		if s.store {
			c.moved += size
		}
	}
}
