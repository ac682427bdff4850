package xla

import (
	"fmt"

	"memopt/graph/hlo"
)

// setter says where the result of an instruction lies.
type setter struct {
	f         *flattener
	fr        *frame
	in        *hlo.Instruction
	at        int32 // its place in the computation
	first     int32
	step      int32
	forwarded []bool // by place of the result: it is an operand's, or a called computation's
	callees   []*frame
	carry     argument // of a while: the memory of its turns
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
	if s.in.Opcode == "while" {
		if err := s.enter(); err != nil {
			return err
		}
	}
	for i, list := range operands {
		var args []argument
		for _, o := range list {
			args = append(args, s.operand(o))
		}
		if s.in.Opcode == "while" {
			args[0] = s.carry
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

// rules forwards the places that an instruction does not make, and notes its reads.
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
	case "reshape":
		if f.early && !s.fr.isFused(s.at) && !s.fr.isFused(in.Operands[0]) {
			err = s.element(nil, 0, nil) // it becomes a bitcast
		}
	case "bitcast", "opt-barrier", "add-dependency", "domain", "async-update":
		err = s.element(nil, 0, nil)
	case "call":
		reads = false
		r := s.callees[0].result()
		err = s.forward(0, &in.Shape, r.place, r.shape)
	case "while":
		reads = s.carry.place == s.operand(0).place
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
	if s.fr.isFused(s.at) {
		return nil
	}
	for i, o := range in.Operands {
		a := s.operand(i)
		f.touch(a.place, f.width(a.shape), s.step)
		for _, l := range s.fr.leaves(o) {
			f.touch(s.fr.first[l], f.width(&s.fr.of.Instructions[l].Shape), s.step)
		}
	}
	return nil
}

// loop lets the carry of a while be one memory, which the condition leaves as it is. In the body, it is free from the
// last reader of the old value to the maker of the new one.
func (s *setter) loop() error {
	a := s.carry
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
	if s.f.idle[s.step] || in.IsSharding() && in.Shape.String() == s.operand(0).shape.String() {
		return s.element(nil, 0, nil)
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
