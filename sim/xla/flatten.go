package xla

import (
	"fmt"
	"slices"

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
	steps []int32 // by instruction: its step
	first []int32 // by instruction: the place of its result, which is the first of the shape's
	start int32   // the first step; the end is the step of the call
	end   int32
}

// flattener makes the schedule.
type flattener struct {
	m       *hlo.Module
	program *Program
	parent  []int32 // union-find of places
	size    []int64 // by place
	events  []event
	depth   int
	layouts map[*hlo.Shape][]int32
}

// kinds of events, in their order at one step.
const (
	isTouched = iota // before isDefined: a step that works in place reads what it replaces
	isDefined
	isHeldTo // to is the end of a range without gaps
)

// event is what happens to the memory of a place at a step.
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
	fr := &frame{of: c, steps: make([]int32, len(c.Instructions)), first: make([]int32, len(c.Instructions)),
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
	s := &setter{f: f, fr: fr, in: in, first: first, forwarded: make([]bool, f.width(&in.Shape))}
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

// setter says where the result of an instruction lies.
type setter struct {
	f         *flattener
	fr        *frame
	in        *hlo.Instruction
	first     int32
	step      int32
	forwarded []bool // by place of the result: it is an operand's, or a called computation's
	callees   []*frame
}

// operand is the value of an operand.
func (s *setter) operand(i int) argument {
	o := s.in.Operands[i]
	return argument{s.fr.first[o], &s.fr.of.Instructions[o].Shape}
}

// forward lets the result from offset on be a value that exists.
func (s *setter) forward(offset int32, shape *hlo.Shape, place int32, of *hlo.Shape) error {
	if !alike(shape, of) {
		return fmt.Errorf("shape %s is not that of its source, %s", shape, of)
	}
	n := s.f.width(shape)
	s.f.join(s.first+offset, place, n)
	for i := range n {
		s.forwarded[offset+i] = true
	}
	return nil
}

// element forwards an element of an operand to an element of the result; either index may be nil for the whole. An
// element that one of them does not have is let be.
func (s *setter) element(index []int64, operand int, from []int64) error {
	if operand >= len(s.in.Operands) {
		return nil
	}
	to, shape, err := s.f.within(&s.in.Shape, index)
	if err != nil {
		return nil
	}
	a := s.operand(operand)
	at, of, err := s.f.within(a.shape, from)
	if err != nil || !alike(shape, of) {
		return nil
	}
	return s.forward(to, shape, a.place+at, of)
}

// runs says which of the called computations run step by step, by the operands that they get.
func (s *setter) runs() (operands [][]int, ok bool) {
	in := s.in
	all := make([]int, len(in.Operands))
	for i := range all {
		all[i] = i
	}
	switch in.Opcode {
	case "call":
		return [][]int{all}, len(in.Called) == 1
	case "async-start":
		return [][]int{all}, len(in.Called) == 1
	case "while":
		return [][]int{{0}, {0}}, len(in.Called) == 2 && len(in.Operands) == 1
	case "conditional":
		for i := range in.Called {
			operands = append(operands, []int{i + 1})
		}
		return operands, len(in.Operands) == len(in.Called)+1
	}
	return nil, true
}

// calls lays the called computations in the schedule.
func (s *setter) calls() error {
	operands, ok := s.runs()
	if !ok {
		return fmt.Errorf("a %s of %d operands calls %d computations", s.in.Opcode, len(s.in.Operands),
			len(s.in.Called))
	}
	for i, list := range operands {
		var args []argument
		for _, o := range list {
			args = append(args, s.operand(o))
		}
		if args == nil {
			args = []argument{}
		}
		fr, err := s.f.computation(s.in.Called[i], args)
		if err != nil {
			return err
		}
		s.callees = append(s.callees, fr)
	}
	return nil
}

// result is the value of a called computation.
func (fr *frame) result() argument {
	return argument{fr.first[fr.of.Root], &fr.of.Instructions[fr.of.Root].Shape}
}

// rules forwards what an instruction does not make, and notes what it reads.
func (s *setter) rules() error {
	in, f := s.in, s.f
	reads := true
	var err error
	switch in.Opcode {
	case "tuple":
		reads = false
		offset := int32(1)
		if len(in.Operands) != len(in.Shape.Tuple) {
			return fmt.Errorf("a tuple of %d elements has %d operands", len(in.Shape.Tuple), len(in.Operands))
		}
		for i := range in.Operands {
			a := s.operand(i)
			if err := s.forward(offset, &in.Shape.Tuple[i], a.place, a.shape); err != nil {
				return err
			}
			offset += f.width(&in.Shape.Tuple[i])
		}
	case "get-tuple-element":
		reads = false
		if len(in.Operands) != 1 {
			return fmt.Errorf("a get-tuple-element has %d operands", len(in.Operands))
		}
		a := s.operand(0)
		at, of, e := f.within(a.shape, []int64{in.Number})
		if e != nil {
			return e
		}
		f.touch(a.place, 1, s.step)
		err = s.forward(0, &in.Shape, a.place+at, of)
	case "bitcast", "optimization-barrier", "add-dependency", "domain", "async-update":
		err = s.element(nil, 0, nil)
	case "call":
		reads = false
		r := s.callees[0].result()
		err = s.forward(0, &in.Shape, r.place, r.shape)
	case "while":
		err = s.loop()
	case "conditional":
		for _, c := range s.callees {
			r := c.result()
			if err := s.forward(0, &in.Shape, r.place, r.shape); err != nil {
				return err
			}
			for j := range f.width(&in.Shape) {
				f.add(s.first+j, isHeldTo, c.end, s.step)
			}
		}
	default:
		err = s.others()
	}
	if err != nil || !reads {
		return err
	}
	for i := range in.Operands {
		a := s.operand(i)
		f.touch(a.place, f.width(a.shape), s.step)
	}
	return nil
}

// loop lets the carry of a while be one memory, which the condition leaves as it is. In the body, it is free from the
// last reader of the old value to the maker of the new one.
func (s *setter) loop() error {
	a := s.operand(0)
	if err := s.forward(0, &s.in.Shape, a.place, a.shape); err != nil {
		return err
	}
	r := s.callees[1].result()
	if err := s.forward(0, &s.in.Shape, r.place, r.shape); err != nil {
		return err
	}
	for j := range s.f.width(&s.in.Shape) {
		s.f.add(s.first+j, isHeldTo, s.callees[0].start, s.callees[1].start)
	}
	return nil
}

// others has the rules of instructions that hand operands on beside other work, and of those that work in place.
func (s *setter) others() error {
	in := s.in
	switch in.Opcode {
	case "copy-start":
		return s.element([]int64{1}, 0, nil)
	case "copy-done", "send-done":
		return s.element(nil, 0, []int64{0})
	case "recv-done", "send":
		return s.element([]int64{0}, 0, []int64{0}[:min(1, len(in.Opcode)-4)])
	case "all-gather-start", "collective-permute-start":
		return s.element([]int64{0}, 0, nil)
	case "all-gather-done", "collective-permute-done", "async-done":
		return s.element(nil, 0, []int64{1})
	case "all-reduce-done":
		return s.element(nil, 0, nil)
	case "async-start":
		for i := range in.Operands {
			if err := s.element([]int64{0, int64(i)}, i, nil); err != nil {
				return err
			}
		}
		r := s.callees[0].result()
		at, of, err := s.f.within(&in.Shape, []int64{1})
		if err != nil {
			return err
		}
		return s.forward(at, of, r.place, r.shape)
	}
	for _, p := range s.f.program.inPlace(in) {
		s.share(p)
	}
	return nil
}

// share lets an element of the result lie in an operand's memory, with new contents.
func (s *setter) share(p hlo.OperandAlias) {
	if p.Operand < 0 || p.Operand >= int64(len(s.in.Operands)) {
		return
	}
	a := s.operand(int(p.Operand))
	to, shape, err := s.f.within(&s.in.Shape, p.Output)
	if err != nil {
		return
	}
	if at, of, err := s.f.within(a.shape, p.Index); err == nil && alike(shape, of) {
		s.f.join(s.first+to, a.place+at, s.f.width(shape))
	}
}

// inPlace lists the elements of a result that lie in operands.
func (p *Program) inPlace(in *hlo.Instruction) (out []hlo.OperandAlias) {
	switch in.Opcode {
	case "dynamic-update-slice":
		return []hlo.OperandAlias{{}}
	case "scatter", "all-reduce-start":
		n := len(in.Operands)
		if in.Opcode == "scatter" {
			n /= 2
		}
		if n <= 1 {
			return []hlo.OperandAlias{{}}
		}
		for i := range n {
			out = append(out, hlo.OperandAlias{Output: []int64{int64(i)}, Operand: int64(i)})
		}
	case "custom-call":
		return in.InPlace
	case "fusion":
		if len(in.Called) == 1 {
			out = p.fusedInPlace(in.Called[0])
		}
		out = slices.Concat(out, in.InPlace)
	}
	return out
}

// fusedInPlace follows each array of the result of a fusion's body to an instruction that works in place, and the
// operand of that one to a parameter.
func (p *Program) fusedInPlace(k int32) (out []hlo.OperandAlias) {
	if list, ok := p.written[k]; ok {
		return list
	}
	defer func() { p.written[k] = out }()
	c := p.Module.Computations[k]
	shape := &c.Instructions[c.Root].Shape
	leaves := [][]int64{nil}
	if len(shape.Tuple) > maxElements {
		return nil
	}
	if shape.IsTuple() {
		leaves = nil
		for i := range shape.Tuple {
			leaves = append(leaves, []int64{int64(i)})
		}
	}
	for _, leaf := range leaves {
		at, index := throughTuples(c, c.Root, leaf)
		in := &c.Instructions[at]
		if in.Opcode == "fusion" {
			continue // a fusion in a fusion: XLA has none
		}
		for _, x := range p.inPlace(in) {
			if !equalIndex(x.Output, index) || int(x.Operand) >= len(in.Operands) || x.Operand < 0 {
				continue
			}
			from, sub := throughTuples(c, in.Operands[x.Operand], x.Index)
			if param := &c.Instructions[from]; param.Opcode == "parameter" {
				out = append(out, hlo.OperandAlias{Output: leaf, Operand: param.Number, Index: sub})
			}
			break
		}
	}
	return out
}

// throughTuples follows an element back through tuples, then through get-tuple-elements.
func throughTuples(c *hlo.Computation, at int32, index []int64) (int32, []int64) {
	for range maxChain {
		in := &c.Instructions[at]
		if in.Opcode != "tuple" || len(index) == 0 || index[0] < 0 || index[0] >= int64(len(in.Operands)) {
			break
		}
		at, index = in.Operands[index[0]], index[1:]
	}
	for range maxChain {
		in := &c.Instructions[at]
		if in.Opcode != "get-tuple-element" || len(in.Operands) != 1 {
			break
		}
		at, index = in.Operands[0], append([]int64{in.Number}, index...)
	}
	return at, index
}

func equalIndex(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
