package xla

import (
	"fmt"

	"memopt/graph/hlo"
)

// maxSteps bounds the schedule, with computations counted as often as they are called; maxPlaces the values in it, and
// maxEvents their uses.
const maxSteps, maxPlaces, maxEvents = 1_000_000, 10_000_000, 10_000_000

// maxCalls bounds calls in calls; maxElements the tuples whose elements are looked for in other memory one by one, and
// maxChain the tuples and get-tuple-elements in a row that are followed.
const maxCalls, maxElements, maxChain = 1000, 4096, 100

// frame is a computation in the schedule, once for each call.
type frame struct {
	of    *hlo.Computation
	fused *fusion // of a module from before XLA's optimizations; else nil
	steps []int32 // by instruction: its step
	first []int32 // by instruction: the place of its result, which is the first of the shape's
	start int32   // the first step; the end is the step of the call
	end   int32
}

// flattener makes the schedule.
type flattener struct {
	m       *hlo.Module
	program *Program
	parent  []int32        // union-find of places
	size    []int64        // by place
	host    []bool         // by place: its layout is the host's
	idle    map[int32]bool // steps that move a value to the memory where it is
	fixed   map[int64]bool // parameters of the entry that no result may overwrite
	shared  []int32        // the places of their values
	events  []event
	depth   int
	early   bool // the module is from before XLA's optimizations: fusions are to be found
	fusions map[*hlo.Computation]*fusion
	layouts map[*hlo.Shape][]int32
}

// kinds of events, in their order at one step.
const (
	isTouched = iota // before isDefined: a step that works in place reads the bytes that it replaces
	isDefined
	isHeldTo // to is the end of a range without gaps
)

// event is a change of the memory of a place at a step, or a read of it.
type event struct {
	place int32
	kind  int8
	at    int32
	to    int32
}

// layout has the places of a tuple's elements, counted from its own, and behind them how many places it has.
func (f *flattener) layout(s *hlo.Shape) []int32 {
	if at, ok := f.layouts[s]; ok {
		return at
	}
	at := make([]int32, 0, len(s.Tuple)+1)
	n := int32(1)
	for i := range s.Tuple {
		at = append(at, n)
		n += f.width(&s.Tuple[i])
	}
	at = append(at, n)
	f.layouts[s] = at
	return at
}

// width is how many places a shape has: itself, and those of a tuple's elements.
func (f *flattener) width(s *hlo.Shape) int32 {
	if len(s.Tuple) == 0 {
		return 1
	}
	return f.layout(s)[len(s.Tuple)]
}

// within finds the place of an element: index leads from tuple to tuple.
func (f *flattener) within(s *hlo.Shape, index []int64) (offset int32, of *hlo.Shape, err error) {
	for _, k := range index {
		if k < 0 || k >= int64(len(s.Tuple)) {
			return 0, nil, fmt.Errorf("a value of %d elements has no element %d", len(s.Tuple), k)
		}
		offset += f.layout(s)[k]
		s = &s.Tuple[k]
	}
	return offset, s, nil
}

// alike reports whether two shapes have the same tuples.
func alike(a, b *hlo.Shape) bool {
	if a.IsTuple() != b.IsTuple() || len(a.Tuple) != len(b.Tuple) {
		return false
	}
	for i := range a.Tuple {
		if !alike(&a.Tuple[i], &b.Tuple[i]) {
			return false
		}
	}
	return true
}

// places adds the places of a shape.
func (f *flattener) places(s *hlo.Shape) error {
	if len(f.parent) >= maxPlaces {
		return fmt.Errorf("the module has more than %d values, counting computations at each call", maxPlaces)
	}
	bytes, err := s.Bytes()
	if err != nil {
		return err
	}
	f.parent = append(f.parent, int32(len(f.parent)))
	f.size = append(f.size, bytes)
	f.host = append(f.host, s.Space == hostSpace)
	for i := range s.Tuple {
		if err := f.places(&s.Tuple[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *flattener) find(p int32) int32 {
	for f.parent[p] != p {
		f.parent[p] = f.parent[f.parent[p]]
		p = f.parent[p]
	}
	return p
}

// join lets n places from a on be the same memory as those from b on.
func (f *flattener) join(a, b, n int32) {
	for i := range n {
		x, y := f.find(a+i), f.find(b+i)
		if x == y {
			continue
		}
		if y < x {
			x, y = y, x
		}
		f.parent[y] = x
		f.size[x] = max(f.size[x], f.size[y])
	}
}

func (f *flattener) add(place int32, kind int8, at, to int32) {
	if len(f.events) < maxEvents {
		f.events = append(f.events, event{place, kind, at, to})
	}
}

// touch notes that n places from p on are there at a step.
func (f *flattener) touch(p, n, at int32) {
	for i := range n {
		f.add(p+i, isTouched, at, at)
	}
}

// computation lays a computation in the schedule. args are the places of its parameters' values, nil for the entry.
func (f *flattener) computation(k int32, args []argument) (*frame, error) {
	if f.depth++; f.depth > maxCalls {
		return nil, fmt.Errorf("calls nest deeper than %d", maxCalls)
	}
	defer func() { f.depth-- }()
	c := f.m.Computations[k]
	if len(f.program.Steps)+len(c.Instructions) > maxSteps {
		return nil, fmt.Errorf("the module has more than %d steps, counting computations at each call", maxSteps)
	}
	fused := f.fusions[c]
	if f.early && fused == nil {
		fused = fuse(c)
		f.fusions[c] = fused
	}
	n := len(c.Instructions)
	fr := &frame{of: c, fused: fused, steps: make([]int32, n), first: make([]int32, n),
		start: int32(len(f.program.Steps))}
	for i := range c.Instructions {
		if err := f.instruction(fr, int32(i), args); err != nil {
			return nil, fmt.Errorf("computation %q: instruction %q: %w", c.Name, c.Instructions[i].Name, err)
		}
	}
	fr.end = int32(len(f.program.Steps))
	root := &c.Instructions[c.Root]
	f.touch(fr.first[c.Root], f.width(&root.Shape), fr.end)
	return fr, nil
}

// isFused reports whether an instruction's result is computed in its readers and not stored.
func (fr *frame) isFused(i int32) bool { return fr.fused != nil && fr.fused.leaves[i] != nil }

// leaves are the values that a step reads in place of an operand: those of its fusion.
func (fr *frame) leaves(o int32) []int32 {
	if fr.isFused(o) {
		return fr.fused.leaves[o]
	}
	return nil
}

// argument is the value of a parameter.
type argument struct {
	place int32
	shape *hlo.Shape
}

// instruction lays an instruction, and the computations that it calls before it, in the schedule.
func (f *flattener) instruction(fr *frame, i int32, args []argument) error {
	in := &fr.of.Instructions[i]
	first := int32(len(f.parent))
	fr.first[i] = first
	if err := f.places(&in.Shape); err != nil {
		return err
	}
	if fr.isFused(i) {
		f.size[first] = 0
	}
	s := &setter{f: f, fr: fr, in: in, at: i, first: first, forwarded: make([]bool, f.width(&in.Shape))}
	if err := s.calls(); err != nil {
		return err
	}
	step := int32(len(f.program.Steps))
	s.step = step
	fr.steps[i] = step
	f.program.Steps = append(f.program.Steps, Step{Computation: fr.of, Instruction: i, frame: fr})
	if in.Opcode == "parameter" {
		if args != nil {
			if in.Number < 0 || in.Number >= int64(len(args)) {
				return fmt.Errorf("is parameter %d of a call with %d operands", in.Number, len(args))
			}
			a := args[in.Number]
			if err := s.forward(0, &in.Shape, a.place, a.shape); err != nil {
				return err
			}
		}
		if args == nil && f.fixed[in.Number] {
			for j := range f.width(&in.Shape) {
				f.shared = append(f.shared, first+j)
			}
		}
		step = fr.start
	} else if err := s.rules(); err != nil {
		return err
	}
	if len(f.events) == maxEvents {
		return fmt.Errorf("the values are used more than %d times", maxEvents)
	}
	for j, forwarded := range s.forwarded {
		if forwarded {
			f.add(first+int32(j), isTouched, step, step)
		} else {
			f.add(first+int32(j), isDefined, step, step)
		}
	}
	return nil
}
